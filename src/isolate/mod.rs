//! Functions of a program that run in an executor of the same program.
//!
//! The attribute [`isolate`](macro@crate::isolate) is the front. This room is for the code that the attribute writes.
//!
//! | file | content |
//! |---|---|
//! | `options` | the options of a function |
//! | `nesting` | how deep the values of a message lie in each other |
//! | `message` | arguments and results as bytes |
//! | `program` | the program that becomes an executor before `main` |
//! | `failure` | the result of a failed call |
//! | `entry` | the executor's side of a call |
//! | `function` | the caller's side |
//!
//! Invariant: the caller trusts no byte of a result.

mod entry;
mod failure;
mod function;
mod message;
mod nesting;
mod options;
mod program;

#[doc(hidden)]
pub use entry::{Arguments, Entry, block_on};
#[doc(hidden)]
pub use failure::{ErrorByText, ErrorByValue, Failed, Fails, Form, IsResult, Returned};
#[doc(hidden)]
pub use function::Isolated;
#[doc(hidden)]
pub use message::{Crosses, Plain, Reader, Writer};
pub use options::Options;
pub(crate) use program::check as check_program;
#[doc(hidden)]
pub use program::is_executor;
