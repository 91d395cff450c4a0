//! Two ways to link by LLVM's model.
//!
//! | file | what it has |
//! |---|---|
//! | `dylib` | linked code by need, and trackers |
//! | `link` | links of single objects, for a host with a symbol table of its own |

use super::{buffer, call_options, error, files, host, life, object, text};

mod dylib;
mod link;

pub use dylib::*;
pub use link::*;
