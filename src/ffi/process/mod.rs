//! What has addresses in one process: calls, functions, memory, handlers by tags, and LLVM's dylibs.
//!
//! | file | what it has |
//! |---|---|
//! | `life` | what belongs to a process, and its end |
//! | `offers` | what the process is, and what it offers |
//! | `call`, `call_options` | calls of wrapper functions, and memory by address; how long a call may take |
//! | `pipeline` | calls that do not wait, and their completions |
//! | `function` | calls with values of C types |
//! | `orc` | linked code by need, and trackers; links of single objects |
//! | `answers`, `handler` | calls back |
//! | `region`, `memory` | memory that both processes map |

use super::{buffer, error, files, host, object, text, value};

mod answers;
mod call;
mod call_options;
mod function;
mod handler;
mod life;
mod memory;
mod offers;
mod orc;
mod pipeline;
mod region;

pub use call::*;
pub use call_options::*;
pub use function::*;
pub use handler::*;
pub use life::*;
pub use memory::*;
pub use offers::*;
pub use orc::*;
pub use pipeline::*;
pub use region::*;
