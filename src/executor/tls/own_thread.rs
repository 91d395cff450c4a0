//! Threads of the executor's own, which have room for thread-locals and do not count as the program's.

use super::static_reserve;
use crate::error::{Error, Result};
use crate::executor::process::first_thread::OwnThread;

/// Starts a thread of the executor's own.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn start(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let _turn = static_reserve::while_starting();
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes);
    let counted = OwnThread::new();
    let started = thread.spawn(move || {
        let _counted = counted;
        body();
    });
    started.map(drop).map_err(|error| {
        Error::exhausted(format!("the executor cannot start the thread {name}: {error}"))
    })
}
