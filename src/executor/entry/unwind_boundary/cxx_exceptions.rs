//! The exceptions that the C++ library counts for each thread: those that are caught, and those in flight.
//!
//! A call that is left in a `catch` block, or in a destructor that an exception runs, leaves its exceptions behind. Without this file,
//! a later call would find them.
#![allow(unsafe_code, reason = "reads and writes a record of the C++ library")]

use std::ffi::c_void;

use crate::ExecutorAddr;
use crate::executor::entry::address::pointer;
use crate::sync::{AtomicU64, Ordering};

/// `__cxa_eh_globals` of the "C++ ABI for Itanium: Exception Handling", section 2.2.2.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exceptions {
    /// The newest exception that is caught; each has the address of the one before.
    caught: *mut c_void,
    in_flight: u32,
}

impl Exceptions {
    pub(super) const NONE: Self = Self { caught: std::ptr::null_mut(), in_flight: 0 };

    /// The calling thread's, if linked code can catch exceptions.
    #[inline]
    pub(crate) fn of_thread() -> Self {
        // SAFETY: the record is the thread's own.
        record().map_or(Self::NONE, |record| unsafe { record.read() })
    }

    /// True if the thread is in a `catch` block that it was not in before.
    pub(crate) fn caught_more_than(self, before: Self) -> bool {
        !self.caught.is_null() && self.caught != before.caught
    }

    /// Makes these the calling thread's again.
    pub(super) fn restore(self) {
        let Some(record) = record() else { return };
        // SAFETY: the record is the thread's own.
        unsafe { record.write(self) };
    }
}

/// The C++ library's function that returns the record of a thread; 0 before code is linked that can catch exceptions.
static GLOBALS: AtomicU64 = AtomicU64::new(0);

type Globals = unsafe extern "C" fn() -> *mut Exceptions;

/// Linked code uses the C++ library's function with this name.
pub(super) fn note_use(name: &str) {
    if name == "__cxa_begin_catch" {
        // SAFETY: the name is a C string.
        let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_get_globals".as_ptr()) };
        GLOBALS.store(function.expose_provenance() as u64, Ordering::Relaxed);
    }
}

/// The record of the calling thread.
#[inline]
fn record() -> Option<*mut Exceptions> {
    let function = pointer::<c_void>(ExecutorAddr::new(GLOBALS.load(Ordering::Relaxed)));
    // SAFETY: the word is null or the address of the function, which the C++ library declares so.
    let globals = unsafe { std::mem::transmute::<*const c_void, Option<Globals>>(function) };
    // SAFETY: it takes nothing.
    globals.map(|globals| unsafe { globals() })
}
