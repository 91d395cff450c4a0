//! Errors, which C has by reference.

use std::ffi::c_char;

use farcall::ErrorKind;
use farcall::executor::WrapperFunctionBuffer;

/// The reason of a failure. The receiver owns it, and hands it on or frees it.
#[derive(Debug)]
pub struct Error(pub(super) farcall::Error);

impl Error {
    /// The reference to an error that C gets.
    pub(super) fn give(error: farcall::Error) -> *mut Self {
        Box::into_raw(Box::new(Self(error)))
    }

    /// The reference that C gets for an outcome: NULL for success.
    pub(super) fn outcome(outcome: farcall::Result<()>) -> *mut Self {
        outcome.map_or_else(Self::give, |()| std::ptr::null_mut())
    }

    /// The error that C gives back.
    ///
    /// # Safety
    ///
    /// C must have got it from here, and not given it back before.
    pub(super) unsafe fn take(error: *mut Self) -> Option<farcall::Error> {
        if error.is_null() {
            return None;
        }
        // SAFETY: the caller vouches for it.
        Some(unsafe { Box::from_raw(error) }.0)
    }

    /// # Safety
    ///
    /// C must have got it from here.
    unsafe fn look<'a>(error: *const Self) -> Option<&'a farcall::Error> {
        // SAFETY: the caller vouches for it, unless it is NULL.
        unsafe { error.as_ref() }.map(|error| &error.0)
    }
}

/// An error of the host's own, with a copy of this message.
///
/// # Safety
///
/// It must be a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_create(message: *const c_char) -> *mut Error {
    // SAFETY: the caller vouches for the text.
    let message = unsafe { super::buffer::text(message) };
    Error::give(farcall::Error::other(message))
}

/// The message of an error, to be freed with farcall_error_free_message. Takes the error. For NULL the message says that there
/// is no error.
///
/// # Safety
///
/// The error must be the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_to_string(error: *mut Error) -> *mut c_char {
    // SAFETY: the caller vouches for the error.
    let error = unsafe { Error::take(error) };
    let text = error.map_or_else(|| "success".to_owned(), |error| error.to_string());
    // A message in malloc's memory, as in an out-of-band error.
    WrapperFunctionBuffer::out_of_band(&text).into_parts().0
}

/// Frees a message.
///
/// # Safety
///
/// It must come from farcall_error_to_string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_free_message(message: *mut c_char) {
    // SAFETY: it comes from malloc.
    unsafe { libc::free(message.cast()) };
}

/// Frees an error.
///
/// # Safety
///
/// The error must be the caller's, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_consume(error: *mut Error) {
    // SAFETY: the caller vouches for the error.
    drop(unsafe { Error::take(error) });
}

/// Ends the process if there is an error, after writing its message to standard error.
///
/// # Safety
///
/// The error must be the caller's, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_cant_fail(error: *mut Error) {
    // SAFETY: the caller vouches for the error.
    if let Some(error) = unsafe { Error::take(error) } {
        eprintln!("farcall: {error}");
        std::process::abort();
    }
}

/// True when no further call can complete: the session is over, or the connection.
///
/// # Safety
///
/// The error must be the caller's, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_is_disconnected(error: *const Error) -> bool {
    // SAFETY: the caller vouches for the error.
    unsafe { Error::look(error) }.is_some_and(farcall::Error::is_disconnected)
}

/// True after a timeout.
///
/// # Safety
///
/// The error must be the caller's, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_is_timeout(error: *const Error) -> bool {
    // SAFETY: the caller vouches for the error.
    unsafe { Error::look(error) }.is_some_and(|error| error.kind() == ErrorKind::Timeout)
}

/// True when the caller's own arguments were refused, or what was called cannot be called now.
///
/// # Safety
///
/// The error must be the caller's, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_is_invalid_argument(error: *const Error) -> bool {
    // SAFETY: the caller vouches for the error.
    unsafe { Error::look(error) }.is_some_and(|error| error.kind() == ErrorKind::InvalidArgument)
}

/// True for an error that farcall_error_create made.
///
/// # Safety
///
/// The error must be the caller's, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_error_is_hosts(error: *const Error) -> bool {
    // SAFETY: the caller vouches for the error.
    unsafe { Error::look(error) }.is_some_and(|error| error.kind() == ErrorKind::Other)
}
