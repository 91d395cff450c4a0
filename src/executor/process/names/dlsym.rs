//! `dlopen` and `dlsym` for linked code, which find its names as those of a program linked with `-rdynamic`.
//!
//! The controller makes a shared library without contents, whose symbols have the addresses of the names. It is opened here at
//! the first call, so that libraries find these names too. When links were added or removed since the last call, a new library
//! takes its place first.
//!
//! Invariant: a library is open while a reference to it exists. [`EXPORTS`] has one for each session at most.
#![allow(unsafe_code, reason = "provides and calls C functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::contract::{EXPORTS_TAG, ExportsNumber, NewExports};
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::controller_call::CallController;
use crate::executor::process::libraries;
use crate::sps::{self, Bytes};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::sys::memory::memfd;

/// A library with the names of a session's links.
struct Exports {
    number: ExportsNumber,
    handle: ExecutorAddr,
}

impl Drop for Exports {
    fn drop(&mut self) {
        libraries::close(self.handle);
    }
}

/// The libraries of live sessions.
static EXPORTS: Mutex<Vec<Arc<Exports>>> = Mutex::new(Vec::new());

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
    let linked = || all().iter().find_map(|one| libraries::find_in(one.handle, text));
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

/// The libraries. The lock is not held while the dynamic linker is called: that may run code which comes here again.
fn all() -> Vec<Arc<Exports>> {
    EXPORTS.lock().clone()
}

/// Asks the controller for its library, if there is a newer one, and puts it in the place of the old one. Without a controller
/// that makes such libraries there is none.
fn update<C: CallController>() {
    let known: Vec<ExportsNumber> = all().iter().map(|one| one.number).collect();
    let Ok(answer) = C::call(EXPORTS_TAG, &sps::to_bytes(&known)) else { return };
    let answer = sps::from_bytes::<NewExports>(answer.as_bytes());
    let Ok(Some((number, Bytes(library)))) = answer else { return };
    let Ok(handle) = open(&library) else { return };
    let mut exports = EXPORTS.lock();
    let (mut stay, old): (Vec<_>, Vec<_>) =
        exports.drain(..).partition(|one| one.number.0 != number.0);
    stay.push(Arc::new(Exports { number, handle }));
    *exports = stay;
    drop(exports);
    drop(old);
}

/// Opens the library with these bytes.
fn open(library: &[u8]) -> Result<ExecutorAddr> {
    let file = File::from(memfd::create(c"farcall-exports", library.len() as u64, false)?);
    file.write_all_at(library, 0).map_err(|error| Error::remote(error.to_string()))?;
    // The dynamic linker takes two libraries with one path for one, and descriptors come again. So each library has a path of
    // its own, which is another way to write the same.
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let number = OPENED.fetch_add(1, Ordering::Relaxed);
    let bits = (0..u64::BITS).map(|bit| if number >> bit & 1 == 1 { "/." } else { "/" });
    let path = format!("/proc/self/fd{}/{}", bits.collect::<String>(), file.as_raw_fd());
    let handle = libraries::dlopen(&path, libc::RTLD_NOW | libc::RTLD_GLOBAL)?;
    Ok(ExecutorAddr::new(handle.expose_provenance() as u64))
}
