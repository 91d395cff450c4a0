//! The static variables of C++ functions that a thread is initializing.
//!
//! A function marks such a variable until it has its value, and every other call of the function waits for that. A call that is left in
//! the midst must take its marks back. The function does that itself where it runs its cleanups, and this file elsewhere. So linked code
//! marks variables by the functions of this file.
#![allow(unsafe_code, reason = "calls functions of the C++ library by their addresses")]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use super::cxx_exceptions;
use crate::ExecutorAddr;
use crate::executor::entry::address::pointer;
use crate::sync::{AtomicU64, Ordering};

/// The C++ library's function that marks a variable, and those that say that it has a value, or none.
static LIBRARY: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
const NAMES: [&str; 3] = ["__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort"];

type Acquire = unsafe extern "C" fn(*mut c_void) -> c_int;
type Finish = unsafe extern "C" fn(*mut c_void);

/// A call of linked code: its depth, and its number.
pub(super) type Call = (u64, u64);

thread_local! {
    /// The marked variables, the newest one last, each with the call that has marked it.
    static MARKED: RefCell<Vec<(usize, Call)>> = const { RefCell::new(Vec::new()) };
}

/// The address that linked code gets for the C++ library's function with this name, which is at `address`.
pub(crate) fn in_place_of(name: &str, address: ExecutorAddr) -> ExecutorAddr {
    cxx_exceptions::note_use(name);
    let own = [acquire as *const c_void, release as *const c_void, abort as *const c_void];
    match NAMES.iter().position(|known| *known == name) {
        Some(at) => {
            LIBRARY[at].store(address.get(), Ordering::Relaxed);
            ExecutorAddr::new(own[at].expose_provenance() as u64)
        }
        None => address,
    }
}

fn library(at: usize) -> *const c_void {
    pointer(ExecutorAddr::new(LIBRARY[at].load(Ordering::Relaxed)))
}

extern "C" fn acquire(variable: *mut c_void) -> c_int {
    // SAFETY: linked code calls this function by its name, so the address is known; it is of the C++ library's function.
    let acquire = unsafe { std::mem::transmute::<*const c_void, Acquire>(library(0)) };
    // SAFETY: the caller calls the function.
    let is_marked = unsafe { acquire(variable) };
    if is_marked != 0 {
        let call = super::call();
        // A thread that ends has no list any more, and runs no call.
        let _ = MARKED.try_with(|marked| marked.borrow_mut().push((variable.addr(), call)));
    }
    is_marked
}

extern "C" fn release(variable: *mut c_void) {
    finish(1, variable);
}

extern "C" fn abort(variable: *mut c_void) {
    finish(2, variable);
}

fn finish(at: usize, variable: *mut c_void) {
    let _ = MARKED.try_with(|marked| {
        let mut marked = marked.borrow_mut();
        if let Some(place) = marked.iter().rposition(|(other, _)| *other == variable.addr()) {
            marked.remove(place);
        }
    });
    let known = match library(at) {
        // Code that only marks variables was linked. The functions are of one library.
        function if function.is_null() => found(NAMES[at]),
        function => function,
    };
    // SAFETY: the address is of the C++ library's function.
    let finish = unsafe { std::mem::transmute::<*const c_void, Finish>(known) };
    // SAFETY: the caller calls the function, or `take_back` has found the variable marked by its thread.
    unsafe { finish(variable) };
}

fn found(name: &str) -> *const c_void {
    let name = std::ffi::CString::new(name).unwrap_or_default();
    // SAFETY: the name is a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Takes back the marks of a call that has been left. They are the newest ones of the calling thread.
pub(super) fn take_back(call: Call) {
    let newest = || {
        MARKED.with(|marked| {
            let marked = marked.borrow();
            marked.iter().rev().find(|(_, other)| *other == call).map(|(variable, _)| *variable)
        })
    };
    while let Some(variable) = newest() {
        abort(std::ptr::with_exposed_provenance_mut(variable));
    }
}
