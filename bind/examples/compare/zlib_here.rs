//! zlib in this process.
#![allow(unsafe_code, reason = "calls the library in this process")]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

type Convert = unsafe extern "C" fn(*mut u8, *mut u64, *const u8, u64) -> c_int;

/// `compress` or `uncompress`, by name.
fn function(name: &'static std::ffi::CStr) -> Convert {
    // SAFETY: the library's constructors may run in any program.
    let library = unsafe { libc::dlopen(c"libz.so.1".as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "libz.so.1 is installed");
    // SAFETY: the library stays open.
    let address: *mut c_void = unsafe { libc::dlsym(library, name.as_ptr()) };
    assert!(!address.is_null(), "zlib has {name:?}");
    // SAFETY: both functions have this type.
    unsafe { std::mem::transmute::<*mut c_void, Convert>(address) }
}

pub(crate) fn inflate(from: &[u8], to: &mut [u8]) -> Result<usize, Box<dyn std::error::Error>> {
    static FUNCTION: OnceLock<Convert> = OnceLock::new();
    convert(*FUNCTION.get_or_init(|| function(c"uncompress")), from, to)
}

pub(crate) fn compressed(from: &[u8]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut to = vec![0; from.len() + 1024];
    let length = convert(function(c"compress"), from, &mut to)?;
    to.truncate(length);
    Ok(to)
}

fn convert(
    function: Convert,
    from: &[u8],
    to: &mut [u8],
) -> Result<usize, Box<dyn std::error::Error>> {
    let mut length = to.len() as u64;
    // SAFETY: both slices have the lengths that are passed.
    let status =
        unsafe { function(to.as_mut_ptr(), &raw mut length, from.as_ptr(), from.len() as u64) };
    if status == 0 { Ok(usize::try_from(length)?) } else { Err(format!("zlib: {status}").into()) }
}
