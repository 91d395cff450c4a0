//! `dlopen` and `dlsym` for linked code, which find its names as in a program linked with `-rdynamic`.
//!
//! The controller makes a shared library without contents, whose symbols have the addresses of the names. It is opened here at
//! the first call, so that libraries find these names too. When links were added or removed since the last call, a new library
//! takes its place first.
//!
//! Invariant: a library is open while a reference to it exists. [`EXPORTS`] has one for each session at most. No name in it is found
//! when its memory was freed.
#![allow(unsafe_code, reason = "provides and calls C functions")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::contract::{EXPORTS_TAG, ExportsNumber, NewExports};
use crate::executor::entry::address::pointer;
use crate::executor::entry::controller_call::CallController;
use crate::executor::process::libraries::name_library::NameLibrary;
use crate::executor::process::libraries::{self, precedence};
use crate::sps::{self, Bytes};
use crate::sync::Mutex;

/// A library with the names of a session's links.
struct Exports {
    number: ExportsNumber,
    library: NameLibrary,
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
    let ahead = (!path.is_null()).then(|| {
        // SAFETY: the caller vouches for the path.
        precedence::load_ahead(unsafe { CStr::from_ptr(path) }, flags)
    });
    // SAFETY: the caller vouches for the path.
    let library = unsafe { libc::dlopen(path, flags) };
    if let Some(ahead) = ahead.flatten() {
        libraries::close(ahead);
    }
    library
}

/// `dlsym` for linked code. Definitions of linked code come before the libraries. The next definition behind a program's own is
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
    let linked = || all().iter().find_map(|one| one.library.find(text));
    let is_next = handle == libc::RTLD_NEXT;
    if (handle == libc::RTLD_DEFAULT || handle == whole_program())
        && let Some(address) = linked()
    {
        return pointer::<c_void>(address).cast_mut();
    }
    let handle = if is_next { libc::RTLD_DEFAULT } else { handle };
    // SAFETY: the caller vouches for the handle and the name.
    let found = unsafe { libc::dlsym(handle, name) };
    match linked().filter(|address| is_next && address.get() == found as u64) {
        Some(own) => libraries::find_another(text, own),
        None => found,
    }
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

/// Makes libraries find no name any more whose address is gone.
pub(crate) fn forget(is_gone: impl Fn(ExecutorAddr) -> bool) {
    for one in all() {
        one.library.set(|_, old| old.filter(|old| !is_gone(ExecutorAddr::new(*old))));
    }
}

/// Asks the controller for its library, if there is a newer one, and puts it in the place of the old one. Without a controller
/// that makes such libraries there is none.
fn update<C: CallController>() {
    let known: Vec<ExportsNumber> = all().iter().map(|one| one.number).collect();
    let Ok(answer) = C::call(EXPORTS_TAG, &sps::to_bytes(&known)) else { return };
    let answer = sps::from_bytes::<NewExports>(answer.as_bytes());
    let Ok(Some((number, Bytes(library)))) = answer else { return };
    let Ok(library) = NameLibrary::open(library) else { return };
    let mut exports = EXPORTS.lock();
    let (mut stay, old): (Vec<_>, Vec<_>) =
        exports.drain(..).partition(|one| one.number.0 != number.0);
    stay.push(Arc::new(Exports { number, library }));
    *exports = stay;
    drop(exports);
    drop(old);
}
