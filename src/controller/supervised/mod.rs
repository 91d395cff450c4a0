//! Supervision: what a host has put into an executor is there again in the next one.
//!
//! | file | what it is |
//! |---|---|
//! | `policy` | when the next executor starts, and when none does any more |
//! | `contents` | the contents of an executor as steps, and an executor that has them |
//! | `session` | the present executor, and the start of the next one |
//! | `function`, `dylib` | handles that stay valid |
//!
//! Invariant: no thread of its own. The caller that needs an executor and finds it dead starts the next one; others wait for that.

mod contents;
mod dylib;
mod function;
mod policy;
mod session;

pub use dylib::SupervisedDylib;
pub use function::SupervisedFunction;
pub use policy::RestartPolicy;
pub use session::Supervised;
