//! How long a call may take, and what watches it.

use std::ffi::c_void;
use std::time::Duration;

use farcall::controller;

use super::error::{Error, invalid};
use super::host::Context;

/// Runs on the calling thread while a call waits, and returns NULL to wait on. An error ends the call and the process; the call
/// returns it.
pub type Watch = Option<unsafe extern "C" fn(context: *mut c_void) -> *mut Error>;

/// What a call is made with, besides its arguments. All members but size may be 0, which is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CallOptions {
    /// sizeof(farcall_call_options).
    pub size: usize,
    /// The call fails with FARCALL_TIMEOUT after this time; 0 is no limit. The function still runs, and its result will be dropped, unless
    /// the restart policy kills the process then.
    pub timeout_ms: u64,
    /// Looks now and then whether the call goes on, unless it is NULL.
    pub watch: Watch,
    /// Passed to watch; may be NULL.
    pub watch_context: *mut c_void,
    /// The time between two looks; 0 is 10 ms.
    pub watch_every_ms: u64,
}

impl CallOptions {
    /// Does something with the options; without any for NULL.
    ///
    /// # Safety
    ///
    /// They must be readable, or NULL.
    pub(super) unsafe fn with<R>(
        options: *const Self,
        work: impl FnOnce(&controller::CallOptions<'_>) -> farcall::Result<R>,
    ) -> farcall::Result<R> {
        // SAFETY: the caller vouches for the options.
        let Some(given) = (unsafe { options.as_ref() }) else {
            return work(&controller::CallOptions::new());
        };
        let due = size_of::<Self>();
        if given.size != due {
            let size = given.size;
            let advice = "set size to sizeof(farcall_call_options)";
            return Err(invalid(format!("options of {size} bytes in place of {due}: {advice}")));
        }
        let mut options = controller::CallOptions::new();
        if given.timeout_ms > 0 {
            options = options.timeout(Duration::from_millis(given.timeout_ms));
        }
        let Some(watch) = given.watch else { return work(&options) };
        let context = Context::new(given.watch_context);
        let look = || {
            // SAFETY: the host gave the function and its context for this.
            let error = unsafe { watch(context.get()) };
            // SAFETY: the function gives its error.
            unsafe { Error::take(error) }.map_or(Ok(()), Err)
        };
        let every = if given.watch_every_ms == 0 { 10 } else { given.watch_every_ms };
        work(&options.watch(Duration::from_millis(every), &look))
    }
}
