//! Services of the host.

use std::ffi::c_void;

use super::host::Context;

/// The completion of a service, to be given once.
#[derive(Debug)]
pub struct Done(farcall::session::Done);

/// The controller has detached, and managed code may still run. Call farcall_done_complete(done), now or later, on any thread.
pub type OnDetach =
    Option<unsafe extern "C" fn(done: *mut Done, shutdown_requested: bool, context: *mut c_void)>;

/// No managed code runs any more: release everything. Call farcall_done_complete(done), now or later, on any thread.
pub type OnShutdown = Option<unsafe extern "C" fn(done: *mut Done, context: *mut c_void)>;

/// A service of the host.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) on_detach: OnDetach,
    pub(super) on_shutdown: OnShutdown,
    pub(super) context: Context,
}

impl farcall::session::Service for Service {
    fn name(&self) -> &str {
        &self.name
    }

    fn on_detach(&self, done: farcall::session::Done, shutdown_requested: bool) {
        if let Some(on_detach) = self.on_detach {
            let done = Box::into_raw(Box::new(Done(done)));
            // SAFETY: the host gave the function and its context for this.
            unsafe { on_detach(done, shutdown_requested, self.context.get()) };
        }
    }

    fn on_shutdown(&self, done: farcall::session::Done) {
        if let Some(on_shutdown) = self.on_shutdown {
            let done = Box::into_raw(Box::new(Done(done)));
            // SAFETY: the host gave the function and its context for this.
            unsafe { on_shutdown(done, self.context.get()) };
        }
    }
}

/// Completes a service. The session then calls the next one. May be NULL: done.
///
/// # Safety
///
/// Must come from the session, and be given back once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_done_complete(done: *mut Done) {
    if !done.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { Box::from_raw(done) }.0.complete();
    }
}
