//! Sleeping on a word that another process changes.

use std::time::Duration;

use crate::sync::AtomicU64;

/// The half of a 64-bit word that the kernel compares: its low 32 bits.
fn low_half(word: &AtomicU64) -> *const u32 {
    const { assert!(cfg!(target_endian = "little")) };
    word.as_ptr().cast_const().cast()
}

/// Sleeps until [`wake`] is called on `word`, as long as its low half equals that of `expected`.
///
/// Returns early for any reason (a signal, a changed word, the time out): look again. The futex is shared between
/// processes.
#[expect(clippy::cast_possible_truncation, reason = "the kernel compares the low half")]
pub(crate) fn wait(word: &AtomicU64, expected: u64, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let limit = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word outlives the call, and `limit` is null or points to a timespec on this stack.
    unsafe {
        libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAIT, expected as u32, limit);
    }
}

/// Wakes everybody who sleeps on `word`, in every process.
pub(crate) fn wake(word: &AtomicU64) {
    // SAFETY: waking only uses the address of the word, which is a live reference.
    unsafe {
        libc::syscall(libc::SYS_futex, low_half(word), libc::FUTEX_WAKE, i32::MAX);
    }
}
