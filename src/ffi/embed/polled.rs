//! Poll mode: an executor without a thread, driven from the host's own loop.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use farcall::{Connection, executor};

use super::buffer::Out;
use super::error::{Error, invalid};
use super::host::owned;
use super::options::Options;

/// An executor that starts no thread and never waits by itself. It belongs to the thread that created it.
#[derive(Debug)]
pub struct Polled(executor::Polled);

/// Creates an executor for the controller at the other end of a connected Unix socket. It offers what every executor of this
/// library does, and the symbols of the options.
///
/// - If is_shared is true, it waits for a lane in shared memory, which the controller sends; otherwise it uses the socket itself.
/// - It takes the options. They may set symbols only.
/// - It takes the socket. No copy of the descriptor may stay open in this process.
/// - Functions among the symbols have the form of LLVM 22: struct farcall_buffer f(const char *data, size_t size).
///
/// May be NULL: options.
///
/// # Safety
///
/// The options must be the caller's, and polled must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_polled_create(
    options: *mut Options,
    socket: c_int,
    is_shared: bool,
    polled: *mut *mut Polled,
) -> *mut Error {
    let options = if options.is_null() {
        Options::default()
    } else {
        // SAFETY: the caller vouches for the options.
        *unsafe { Box::from_raw(options) }
    };
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(polled, "polled", std::ptr::null_mut()) }, || {
        let socket = owned(socket)?;
        let symbols = options.only_symbols()?;
        let connection =
            if is_shared { Connection::attach_shared(socket) } else { Connection::socket(socket) };
        let made = executor::Polled::with_symbols(connection?, &symbols)?;
        Ok(Box::into_raw(Box::new(Polled(made))))
    })
}

/// The descriptor for the host's event loop. When it is readable, poll. The host must not read or close it. -1 for NULL.
///
/// # Safety
///
/// polled must be of this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_polled_descriptor(polled: *const Polled) -> c_int {
    // SAFETY: the caller vouches for it.
    unsafe { polled.as_ref() }.map_or(-1, |polled| polled.0.as_fd().as_raw_fd())
}

/// Serves the waiting calls, at most 64, and calls that arrive within linger_ns nanoseconds after the last one. Sets calls to their
/// number. Returns an error, with the reason, if the connection is over and the controller did not end it in order. May be NULL:
/// calls.
///
/// # Safety
///
/// polled must be of this thread, and calls NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_polled_poll(
    polled: *mut Polled,
    linger_ns: u64,
    calls: *mut usize,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches for it.
        let polled = unsafe { polled.as_mut() }.ok_or_else(|| invalid("polled is NULL"))?;
        let served = polled.0.poll_for(Duration::from_nanos(linger_ns));
        if !calls.is_null() {
            // SAFETY: the caller vouches that the pointer is writable.
            unsafe { calls.write(*served.as_ref().unwrap_or(&0)) };
        }
        served.map(drop)
    })
}

/// True when the connection is over, and for NULL.
///
/// # Safety
///
/// polled must be of this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_polled_has_ended(polled: *const Polled) -> bool {
    // SAFETY: the caller vouches for it.
    unsafe { polled.as_ref() }.is_none_or(|polled| polled.0.has_ended())
}

/// Ends the connection, if it is not over, and releases everything. May be NULL: polled.
///
/// # Safety
///
/// polled must be of this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_polled_dispose(polled: *mut Polled) {
    if !polled.is_null() {
        // SAFETY: the caller vouches for it.
        drop(unsafe { Box::from_raw(polled) });
    }
}
