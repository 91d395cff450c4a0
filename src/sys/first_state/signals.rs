//! Signals: actions, the main thread's mask and its stack for handlers, and timers.

use super::book::Book;
use super::system::call;

/// The bytes of a set of signals in system calls.
const SET_BYTES: usize = 8;

/// Blocks all signals of this thread. Returns the mask of before.
pub(super) fn block() -> u64 {
    let (all, mut before) = (u64::MAX, 0_u64);
    let (set, old) = ((&raw const all).addr(), (&raw mut before).addr());
    let how = libc::SIG_SETMASK.cast_unsigned() as usize;
    // SAFETY: the kernel reads one set and writes the other.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, [how, set, old, SET_BYTES, 0]) };
    before
}

pub(super) fn set_mask(mask: u64) {
    let (set, how) = ((&raw const mask).addr(), libc::SIG_SETMASK.cast_unsigned() as usize);
    // SAFETY: the kernel reads one set.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, [how, set, 0, SET_BYTES, 0]) };
}

pub(super) fn keep(book: &mut Book) {
    for (signal, action) in book.actions.iter_mut().enumerate().skip(1) {
        let action = action.as_mut_ptr().addr();
        // SAFETY: the kernel writes an action, which has at most 32 bytes. It refuses numbers that are no signals.
        let _ = unsafe { call(libc::SYS_rt_sigaction, [signal, 0, action, SET_BYTES, 0]) };
    }
    let stack = book.alternate.as_mut_ptr().addr();
    // SAFETY: the kernel writes a `stack_t`, which has 24 bytes.
    let _ = unsafe { call(libc::SYS_sigaltstack, [0, stack, 0, 0, 0]) };
}

/// Puts actions and the stack for handlers back, and stops the interval timers.
pub(super) fn put_back(book: &Book) {
    for (signal, action) in book.actions.iter().enumerate().skip(1) {
        let action = action.as_ptr().addr();
        // SAFETY: the kernel reads an action that it has written. It refuses SIGKILL and SIGSTOP.
        let _ = unsafe { call(libc::SYS_rt_sigaction, [signal, action, 0, SET_BYTES, 0]) };
    }
    let stack = book.alternate.as_ptr().addr();
    // SAFETY: the stack was this thread's in the first state, and its memory is as then.
    let _ = unsafe { call(libc::SYS_sigaltstack, [stack, 0, 0, 0, 0]) };
    let never = [0_u64; 4];
    for timer in 0..3 {
        let never = never.as_ptr().addr();
        // SAFETY: the kernel reads an `itimerval`, which has 32 bytes.
        let _ = unsafe { call(libc::SYS_setitimer, [timer, never, 0, 0, 0]) };
    }
}
