//! The executor: the process in which linked code runs.
//!
//! | folder | content |
//! |---|---|
//! | `log` | lines about sessions and failures, on standard error or in a file |
//! | `entry` | calls into linked code and back; the two conventions of wrapper functions |
//! | `memory` | the native memory map: slabs, regions, alloc actions; what debuggers know of objects in it |
//! | `process` | shared libraries, programs with `main` and exit handlers, `dladdr`, registration with unwinders |
//! | `interrupt` | the end of one call, while its process runs on |
//! | `tls` | thread-locals of linked code, and threads |
//! | `context` | the state that belongs to one controller, and the way from linked code to it |
//! | `reset` | the first state of a copy, to which it is put back |
//! | `services` | the functions of the contract that need a session; all names under which functions are offered |
//! | `remote` | the ways from a host's session to a controller: over a stream, over a lane |
//! | `session` | the ways to serve a controller: over lanes, over a connection, in a host's loop or session, in its own process |
//!
//! A folder imports only from those above it. Only `entry`, `memory`, `process`, `interrupt`, `tls` and `reset`
//! contain unsafe code.
//!
//! Functions that a host or linked code offers take and return bytes ([`WrapperFunctionBuffer`]). There are two
//! conventions:
//!
//! | convention | function | answers |
//! |---|---|---|
//! | LLVM 22 | `buffer f(const char *data, size_t size)` | when it returns |
//! | LLVM's runtime | [`WrapperFunction`] | at any time, from any thread |
//!
//! [`WrapperCall`] decodes and encodes inside such a function, [`Proxy`] on the calling side.
//!
//! Threads: the thread that serves a lane runs the calls that arrive over it. A spawned executor serves its first
//! lane on the main thread, so `main` of a linked program has the process's main stack.
//!
//! Invariant: the executor obeys the controller. It checks requests so that they fail early and completely, not to
//! defend itself.

mod context;
mod entry;
mod interrupt;
mod log;
mod memory;
mod process;
pub(crate) mod remote;
mod reset;
mod services;
mod session;
mod tls;

/// The C header `farcall/linked.h`, for code that is linked into an executor: results of wrapper functions, and calls of the
/// controller. `farcall header` prints it.
///
/// # Examples
///
/// ```
/// let folder = std::env::temp_dir().join(format!("include-{}", std::process::id()));
/// std::fs::create_dir_all(folder.join("farcall"))?;
/// std::fs::write(folder.join("farcall/linked.h"), farcall::executor::LINKED_H)?;
/// // cc -I with the folder finds <farcall/linked.h> now.
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub const LINKED_H: &str = include_str!("include/farcall/linked.h");

pub use crate::sys::process::forked::Forked;
pub use entry::buffer::WrapperFunctionBuffer;
pub use entry::proxy::{OnResult, Proxy};
pub use entry::raw_session::{RawSession, WrapperFunction, WrapperFunctionReturn};
pub use entry::wrapper_function::{Convention, WrapperCall, WrapperReply};
pub use remote::connectors::connectors;
pub use remote::shared_lane::SharedLane;
pub use remote::simple_remote::SimpleRemote;
#[cfg(feature = "isolate")]
pub(crate) use session::child::is_spawned;
pub use session::child::{fork, main, run_if_spawned};
pub use session::connected::serve;
pub(crate) use session::in_process::start as start_in_process;
pub use session::polled::Polled;
