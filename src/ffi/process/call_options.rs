//! How long a call may take, and what watches it.

use std::ffi::c_void;
use std::time::Duration;

use farcall::controller;

use super::error::{Error, invalid};
use super::host::Context;

/// Runs on the calling thread while a call waits, and returns NULL to wait on. An error interrupts the call, which fails with
/// FARCALL_INTERRUPTED, and says the words of the error first. If that is not possible, the process is killed, and the call returns the
/// error.
pub type Watch = Option<unsafe extern "C" fn(context: *mut c_void) -> *mut Error>;

/// What a call is made with, besides its arguments. All members but size may be 0, which is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CallOptions {
    /// sizeof(farcall_call_options).
    pub size: usize,
    /// The call is late after this time, and on_deadline says what happens to it; 0 is no limit.
    pub timeout_ms: u64,
    /// Looks now and then whether the call goes on, unless it is NULL.
    pub watch: Watch,
    /// Passed to watch; may be NULL.
    pub watch_context: *mut c_void,
    /// The time between two looks; 0 is 10 ms.
    pub watch_every_ms: u64,
    /// A farcall_on_deadline: what happens to a call that is late, or that watch ends. A call with a watch is not abandoned: its process
    /// is killed instead.
    pub on_deadline: u32,
    /// How long an interruption may take; 0 is 10 ms.
    pub grace_ns: u64,
}

/// What happens to a call that is late.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDeadline {
    /// It is interrupted: it fails with FARCALL_INTERRUPTED, and its process runs on. If that is not possible, it is abandoned.
    Interrupt = 0,
    /// The same; if that is not possible, the process is killed.
    InterruptOrKill = 1,
    /// The call fails with FARCALL_TIMEOUT. The function still runs, and its result will be dropped, unless the restart policy kills the
    /// process then.
    Abandon = 2,
    /// The process is killed.
    Kill = 3,
}

impl OnDeadline {
    fn of(number: u32) -> farcall::Result<controller::OnDeadline> {
        let known = [
            (Self::Interrupt, controller::OnDeadline::Interrupt),
            (Self::InterruptOrKill, controller::OnDeadline::InterruptOrKill),
            (Self::Abandon, controller::OnDeadline::Abandon),
            (Self::Kill, controller::OnDeadline::Kill),
        ];
        let found = known.into_iter().find(|(name, _)| *name as u32 == number);
        let unknown = || invalid(format!("on_deadline {number} is no farcall_on_deadline"));
        found.map(|(_, choice)| choice).ok_or_else(unknown)
    }
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
        let mut options =
            controller::CallOptions::new().on_deadline(OnDeadline::of(given.on_deadline)?);
        if given.grace_ns > 0 {
            options = options.grace(Duration::from_nanos(given.grace_ns));
        }
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
