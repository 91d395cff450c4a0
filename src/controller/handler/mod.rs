//! Handlers that linked code calls as C functions, by name.
//!
//! | file | what it has |
//! |---|---|
//! | `parameter` | what a handler takes, and how it comes from the bytes of a call |
//! | `outcome` | what a handler returns, and how it becomes a word |
//! | `definition` | a handler, and its definition in a dylib |

pub(crate) mod definition;
pub(crate) mod outcome;
pub(crate) mod parameter;

pub use super::process::handlers::{HandlerResult, HandlerTag};
pub use definition::{Handler, IntoHandler};
pub use outcome::Outcome;
pub use parameter::Parameter;
