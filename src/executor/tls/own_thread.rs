//! Threads of the executor itself. They have the static TLS reserve and do not count as threads of the program.
//!
//! They block every signal that can be blocked. A signal for the process is for threads of the program: natively there are no
//! others. Where all threads of the program block the signal, it stays pending until one of them takes it.

use super::static_reserve;
use crate::error::{Error, Result};
use crate::executor::process::first_thread::OwnThread;
use crate::sys::policy;
use crate::sys::process::thread::Undisturbed;

/// Starts a thread of the executor itself, with this name and stack size. It blocks all signals.
///
/// # Errors
///
/// If the system refuses the thread (`ErrorKind::Exhausted`).
pub(crate) fn start(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let _guard = static_reserve::while_starting();
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let counted = OwnThread::new();
    // The new thread inherits the mask.
    let _undisturbed = Undisturbed::new();
    let started = thread.spawn(move || {
        let _counted = counted;
        body();
    });
    started.map(drop).map_err(|error| {
        let refused =
            Error::exhausted(format!("the executor cannot start the thread {name}: {error}"));
        match policy::cause(error.raw_os_error(), "clone3") {
            Some(cause) => refused.and(&Error::invalid(cause)),
            None => refused,
        }
    })
}
