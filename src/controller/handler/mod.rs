//! Handlers that linked code calls as C functions, by name.
//!
//! | file | what it has |
//! |---|---|
//! | `parameter` | what a handler takes, and how it comes from the bytes of a call |
//! | `outcome` | what a handler returns, and how it becomes a word |
//! | `definition` | a handler, and its definition in a dylib |

pub(super) mod definition;
pub(super) mod outcome;
pub(super) mod parameter;
