//! The controller's side: a host starts executors, links code into them, and calls it.
//!
//! | file | what it has |
//! |---|---|
//! | `session` | the start and the end of a session |
//! | `process` | what the executor is, and what it offers |
//! | `call` | calls of wrapper functions, and memory by address |
//! | `pipeline` | calls that do not wait, and their completions |
//! | `value`, `function` | values of C types, and calls with them |
//! | `dylib`, `tracker` | linked code |
//! | `answers`, `handler` | calls back |
//! | `region`, `memory` | memory that both processes map |

use super::{buffer, error, host, object, text};

mod answers;
mod call;
mod dylib;
mod function;
mod handler;
mod memory;
mod pipeline;
mod process;
mod region;
mod session;
mod value;

pub use call::*;
pub use dylib::*;
pub use function::*;
pub use handler::*;
pub use memory::*;
pub use pipeline::*;
pub use process::*;
pub use region::*;
pub use session::*;
pub use value::*;
