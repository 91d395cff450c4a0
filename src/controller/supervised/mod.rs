//! Supervision: what a host has put into an executor is there again in the next one.
//!
//! | file | what it is |
//! |---|---|
//! | `policy` | when the next executor starts, and when none does any more |
//! | `contents` | the contents of an executor as steps, and an executor that has them |
//! | `place` | the present executor, and the start of the next one |
//! | `free`, `members` | which executors of a pool are free; the executors behind a handle |
//! | `leads` | the dylibs that redirected functions lead to |
//! | `function`, `dylib`, `redirectable` | handles that stay valid |
//! | `session`, `pool` | one executor after the other; several with the same contents |
//!
//! Invariant: no thread of its own. The caller that needs an executor and finds it dead starts the next one; others wait for that.

mod contents;
mod dylib;
mod free;
mod function;
mod leads;
mod members;
mod place;
mod policy;
mod pool;
mod redirectable;
mod session;

pub use dylib::SupervisedDylib;
pub use function::SupervisedFunction;
pub use policy::RestartPolicy;
pub use pool::Pool;
pub use redirectable::SupervisedRedirectable;
pub use session::Supervised;
