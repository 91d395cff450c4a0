//! `sigaction` and `signal` for linked code, which show it the actions that it would have natively.
//!
//! The executor reports crashes by handlers of its own. To programs they are the default action: some test for it, and others call
//! the handler that was there before theirs.
#![allow(unsafe_code, reason = "provides and calls C functions")]

use std::ffi::c_int;

use libc::{sigaction as SigAction, sighandler_t};

use crate::sys::process::trap;

/// `sigaction` for linked code.
///
/// # Safety
///
/// As `sigaction`.
pub(crate) unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const SigAction,
    old: *mut SigAction,
) -> c_int {
    // SAFETY: the caller vouches for an action that it gives.
    let new = unsafe { new.as_ref() };
    // The error stays in `errno`.
    let Ok(before) = trap::change_program_action(signal, new) else { return -1 };
    if !old.is_null() {
        // SAFETY: the caller vouches for the room.
        unsafe { old.write(before) };
    }
    0
}

/// `signal` for linked code.
pub(crate) extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    let blocked = usize::try_from(signal).ok().filter(|signal| (1..=64).contains(signal));
    let blocked = blocked.map_or(0, |signal| 1 << (signal - 1));
    // SAFETY: the program vouches for its handler.
    let set = || unsafe { libc::signal(signal, handler) };
    change(signal, handler, (libc::SA_RESTART, blocked), set)
}

/// `sysv_signal` for linked code, whose handlers serve once.
pub(crate) extern "C" fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    // SAFETY: the program vouches for its handler.
    let set = || unsafe { __sysv_signal(signal, handler) };
    change(signal, handler, (libc::SA_RESETHAND | libc::SA_NODEFER, 0), set)
}

/// Changes the action of a signal by the function `set`, or to the default one with these flags and blocked signals.
fn change(
    signal: c_int,
    handler: sighandler_t,
    (flags, blocked): (c_int, u64),
    set: impl FnOnce() -> sighandler_t,
) -> sighandler_t {
    if handler != libc::SIG_DFL {
        return trap::program_handler(set());
    }
    // SAFETY: all-zero bytes are the default action.
    let mut default: SigAction = unsafe { std::mem::zeroed() };
    default.sa_flags = flags;
    // SAFETY: a set starts with the word of the 64 signals.
    unsafe { *(&raw mut default.sa_mask).cast::<u64>() = blocked };
    let before = trap::change_program_action(signal, Some(&default));
    before.map_or(libc::SIG_ERR, |before| before.sa_sigaction)
}

unsafe extern "C" {
    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
}
