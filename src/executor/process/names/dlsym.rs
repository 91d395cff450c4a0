//! `dlopen` and `dlsym` for linked code, which find its names as those of a program linked with `-rdynamic`.
//!
//! The controller makes a shared library without contents for each link, whose symbols have the addresses of the names. It is
//! opened here at the first call, so that libraries find these names too. So is the library of each later link, before the
//! call is made.
//!
//! Invariant: a library is open while it is in [`EXPORTS`].
#![allow(unsafe_code, reason = "provides and calls C functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::ExecutorAddr;
use crate::call::contract::{EXPORTS_TAG, LinkNumber, NewExports};
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::controller_call::CallController;
use crate::executor::process::libraries;
use crate::sps;
use crate::sync::Mutex;
use crate::sys::memory::memfd;

/// A library with the names of a link.
struct Exports {
    link: LinkNumber,
    handle: ExecutorAddr,
}

/// The libraries of live links, in the order in which they were opened.
static EXPORTS: Mutex<Vec<Exports>> = Mutex::new(Vec::new());

/// `dlopen` for linked code: libraries that it opens may need names of linked code.
///
/// # Safety
///
/// As `dlopen`.
pub(crate) unsafe extern "C" fn dlopen<C: CallController>(
    path: *const c_char,
    flags: c_int,
) -> *mut c_void {
    update::<C>();
    // SAFETY: the caller vouches for the path.
    unsafe { libc::dlopen(path, flags) }
}

/// `dlsym` for linked code. What linked code defines comes before the libraries. The next definition behind a program's own is
/// the first one of the libraries.
///
/// # Safety
///
/// As `dlsym`.
pub(crate) unsafe extern "C" fn dlsym<C: CallController>(
    handle: *mut c_void,
    name: *const c_char,
) -> *mut c_void {
    update::<C>();
    // SAFETY: the caller vouches for the name.
    let text = unsafe { CStr::from_ptr(name) };
    let linked = || {
        let exports = EXPORTS.lock();
        let mut handles = exports.iter().map(|one| one.handle);
        handles.find_map(|handle| libraries::find_in(handle, text))
    };
    let is_next = handle == libc::RTLD_NEXT;
    if (handle == libc::RTLD_DEFAULT || handle == whole_program())
        && let Some(address) = linked()
    {
        return pointer::<c_void>(address).cast_mut();
    }
    let handle = if is_next { libc::RTLD_DEFAULT } else { handle };
    // SAFETY: the caller vouches for the handle and the name.
    let found = unsafe { libc::dlsym(handle, name) };
    let is_linked = || linked().is_some_and(|address| address.get() == found as u64);
    if is_next && is_linked() { std::ptr::null_mut() } else { found }
}

/// The handle that `dlopen` returns for the whole program.
fn whole_program() -> *mut c_void {
    // SAFETY: opens nothing.
    unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_LAZY) }
}

/// Opens and closes libraries, so that there is one for each link. Without a controller that tells of links there are none.
fn update<C: CallController>() {
    let known = || EXPORTS.lock().iter().map(|one| one.link).collect::<Vec<_>>();
    while let Ok(answer) = C::call(EXPORTS_TAG, &sps::to_bytes(&known()))
        && let Ok((gone, next)) = sps::from_bytes::<NewExports>(answer.as_bytes())
    {
        EXPORTS.lock().retain(|one| {
            let stays = !gone.contains(&one.link);
            if !stays {
                libraries::close(one.handle);
            }
            stays
        });
        let Some((link, file)) = next else { break };
        let Ok(handle) = open(&file.0) else { break };
        EXPORTS.lock().push(Exports { link, handle });
    }
}

/// Opens the library with these bytes.
fn open(library: &[u8]) -> Result<ExecutorAddr> {
    let file = File::from(memfd::create(c"farcall-exports", library.len() as u64, false)?);
    file.write_all_at(library, 0).map_err(|error| Error::remote(error.to_string()))?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let handle = libraries::dlopen(&path, libc::RTLD_NOW | libc::RTLD_GLOBAL)?;
    Ok(ExecutorAddr::new(handle.expose_provenance() as u64))
}
