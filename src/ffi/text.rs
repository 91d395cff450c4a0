//! Texts that go in and out of functions.

use std::ffi::{CStr, CString, c_char};

use farcall::executor::WrapperFunctionBuffer;

/// A copy of a text; nothing for NULL.
///
/// # Safety
///
/// It must be one, or NULL.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for the text.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// A text of C, without what follows a NUL inside of it.
pub(crate) fn c_text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(text.get(..end).unwrap_or_default()).unwrap_or_default()
}

/// A text in malloc's memory, as in an out-of-band error.
pub(crate) fn malloced(text: &str) -> *mut c_char {
    WrapperFunctionBuffer::out_of_band(text).into_parts().0
}

/// Frees a text that a function of this library gave to its caller. May be NULL: text.
///
/// # Safety
///
/// The text must come from such a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_text_free(text: *mut c_char) {
    // SAFETY: it comes from malloc.
    unsafe { libc::free(text.cast()) };
}
