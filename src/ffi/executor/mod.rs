//! The model of the controller: executors, libraries, snapshots and redirected functions.
//!
//! | file | what it has |
//! |---|---|
//! | `options` | how an executor starts, survives and is confined |
//! | `life` | the start and the end of executors, and their processes |
//! | `library`, `program` | what a library contains; what is looked up, run and removed in it |
//! | `builder` | objects that a program makes itself |
//! | `snapshot`, `redirection` | copies of an executor; functions that are replaced |

use super::{buffer, error, files, host, object, process};

mod builder;
mod library;
mod life;
mod options;
mod program;
mod redirection;
mod snapshot;

pub use builder::*;
pub use library::*;
pub use life::*;
pub use options::*;
pub use program::*;
pub use redirection::*;
pub use snapshot::*;
