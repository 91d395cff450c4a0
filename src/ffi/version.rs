//! The version of the library, for programs that load it at run time.

use std::ffi::c_char;

use super::error::{Error, invalid};

/// The version of this header: major, minor and patch number, 8 bits each from the highest to the lowest.
pub const FARCALL_VERSION: u32 = 0x0000_0100;

/// The version of the library that this program runs with, in the form of FARCALL_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_version() -> u32 {
    FARCALL_VERSION
}

/// The version of the library as a text, which lives as long as the library.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_version_text() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Compares the version of the header with that of the library: call farcall_check_version(FARCALL_VERSION). An error if the
/// library is older, or of another major number. Before 1.0 the minor number counts as a major one.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_check_version(header: u32) -> *mut Error {
    Error::of(|| {
        let kept = if FARCALL_VERSION >> 16 == 0 { 8 } else { 16 };
        if header >> kept == FARCALL_VERSION >> kept && header <= FARCALL_VERSION {
            return Ok(());
        }
        let [_, major, minor, patch] = header.to_be_bytes();
        let library = env!("CARGO_PKG_VERSION");
        Err(invalid(format!(
            "a header of version {major}.{minor}.{patch} and a library of version {library}: install both from one package"
        )))
    })
}
