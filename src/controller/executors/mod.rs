//! The executor as a host sees it: what was put into a process is there again in the next one, and in each of several.
//!
//! | file | what it is |
//! |---|---|
//! | `generation` | the contents of a process as steps, and a process that has them |
//! | `slot` | the present process, and the start of the next one |
//! | `free_slots`, `slots` | which of several processes are free; the slots behind a handle |
//! | `redirections`, `redirection` | the libraries that redirected functions lead to; a redirected function |
//! | `named_function`, `function` | functions by name; functions in either form |
//! | `library`, `executor`, `snapshot` | the handles |
//!
//! Invariant: no thread of its own. The caller that needs a process and finds it dead starts the next one; others wait for that.

mod executor;
mod free_slots;
mod function;
mod generation;
mod library;
mod named_function;
mod redirection;
mod redirections;
mod slot;
mod slots;
mod snapshot;

pub use executor::{Executor, Spawned};
pub use function::Function;
pub use library::Library;
pub use redirection::Redirection;
pub use snapshot::Snapshot;
