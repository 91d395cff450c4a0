//! Sleeping on words that other threads or another process change.
//!
//! A sleeper names up to [`WORDS_MAX`] words at once (`futex_waitv`, Linux 5.16): the word that the peer changes, and words that
//! tell of the end. The kernel compares all of them in one step before it puts the thread to sleep. So a peer that writes the
//! shared word cannot hide the end. Where the kernel refuses the call, the sleeper looks at all words every [`SLICE`].

use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// `FUTEX_OWNER_DIED`: the bit of a robust lock's word that the kernel sets when the holding thread ends.
pub(crate) const OWNER_DIED: u64 = 0x4000_0000;

/// Words that one sleeper can name.
pub(crate) const WORDS_MAX: usize = 4;

/// How long a sleeper sleeps at a time where the kernel takes only one word.
const SLICE: Duration = Duration::from_millis(5);

/// True once the kernel has refused to wait for several words.
static ONE_WORD_ONLY: AtomicBool = AtomicBool::new(false);

/// A word, and its value when the sleeper last looked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) word: &'a AtomicU64,
    /// The kernel compares the low half only.
    pub(crate) value: u64,
    /// The word is in this process's own memory; otherwise it is shared with the peer.
    pub(crate) is_private: bool,
}

/// One entry of `futex_waitv`, as the kernel reads it.
#[repr(C)]
struct Entry {
    value: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

const SIZE_U32: u32 = 2;
const PRIVATE: u32 = 128;

/// The half of a 64-bit word that the kernel compares: its low 32 bits.
fn low_half(word: &AtomicU64) -> *const u32 {
    const { assert!(cfg!(target_endian = "little")) };
    word.as_ptr().cast_const().cast()
}

/// Sleeps until [`wake`] or [`wake_own`] is called on one of the words, while each still has the value that was seen, up to the
/// deadline.
///
/// May return early for any reason (a signal, a changed word, the deadline), so the caller looks again.
///
/// # Panics
///
/// With no word, or more than [`WORDS_MAX`].
pub(crate) fn wait(seen: &[Seen<'_>], deadline: Deadline) {
    assert!((1..=WORDS_MAX).contains(&seen.len()), "{} words", seen.len());
    let left = deadline.left();
    if left.is_some_and(|left| left.is_zero()) {
        return;
    }
    // Relaxed: a thread that does not see it yet is refused too.
    if !ONE_WORD_ONLY.load(Ordering::Relaxed) && wait_for_any(seen, left) {
        return;
    }
    if seen.iter().all(|seen| (seen.word.load(Ordering::Acquire) ^ seen.value) << 32 == 0) {
        wait_for_one(seen[0].word, seen[0].value, left.map_or(SLICE, |left| left.min(SLICE)));
    }
}

/// As [`wait`] for one word, for [`SLICE`] at most. The kernel takes half of the time for it.
pub(crate) fn wait_briefly(word: &AtomicU64, value: u64, deadline: Deadline) {
    let limit = deadline.left().map_or(SLICE, |left| left.min(SLICE));
    if !limit.is_zero() {
        wait_for_one(word, value, limit);
    }
}

/// False when the kernel refuses the call.
#[expect(clippy::cast_possible_truncation, reason = "the kernel compares the low half")]
fn wait_for_any(seen: &[Seen<'_>], left: Option<Duration>) -> bool {
    let mut entries = [const { Entry { value: 0, address: 0, flags: 0, reserved: 0 } }; WORDS_MAX];
    for (entry, seen) in entries.iter_mut().zip(seen) {
        entry.value = u64::from(seen.value as u32);
        entry.address = low_half(seen.word).expose_provenance() as u64;
        entry.flags = SIZE_U32 | if seen.is_private { PRIVATE } else { 0 };
    }
    // The kernel takes an absolute time of the clock that `Instant` reads.
    let moment = left.map(|left| {
        let mut now = timespec(Duration::ZERO);
        // SAFETY: writes to a live variable.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
        let nanoseconds = u64::try_from(now.tv_nsec).unwrap_or_default();
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let now = Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds);
        timespec(now.saturating_add(left))
    });
    let moment = moment.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the entries name live words and lie on this stack, and `moment` is null or points to a timespec on it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            entries.as_ptr(),
            seen.len(),
            0,
            moment,
            libc::CLOCK_MONOTONIC,
        )
    };
    if result >= 0 {
        return true;
    }
    let errno = nix::errno::Errno::last();
    let is_refused = !matches!(
        errno,
        nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR | nix::errno::Errno::ETIMEDOUT
    );
    if is_refused {
        ONE_WORD_ONLY.store(true, Ordering::Relaxed);
    }
    !is_refused
}

#[expect(clippy::cast_possible_truncation, reason = "the kernel compares the low half")]
fn wait_for_one(word: &AtomicU64, value: u64, timeout: Duration) {
    let limit = timespec(timeout);
    // SAFETY: the word outlives the call, and the limit lies on this stack.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            low_half(word),
            libc::FUTEX_WAIT,
            value as u32,
            &raw const limit,
        )
    };
    let errno = nix::errno::Errno::last();
    if result < 0 && matches!(errno, nix::errno::Errno::ENOSYS | nix::errno::Errno::EPERM) {
        // No wake reaches this thread meanwhile.
        std::thread::sleep(timeout.min(Duration::from_millis(1)));
    }
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

/// Checks that sleepers can be woken: otherwise each call that sleeps would last until its deadline.
///
/// # Errors
///
/// When a policy refuses the system call.
pub(crate) fn check() -> Result<()> {
    let word = AtomicU64::new(0);
    // SAFETY: waking only uses the address of the word, which is a live reference.
    let woken = unsafe { libc::syscall(libc::SYS_futex, low_half(&word), libc::FUTEX_WAKE, 1) };
    nix::errno::Errno::result(woken).map(drop).map_err(|errno| {
        Error::os(
            "waking a thread: the policy that refuses the system call futex must allow it",
            errno,
        )
    })
}

/// Wakes every thread that sleeps on `word`, in every process.
pub(crate) fn wake(word: &AtomicU64) {
    wake_flagged(word, libc::FUTEX_WAKE);
}

/// Wakes every thread of this process that sleeps on `word`, which is its own.
pub(crate) fn wake_own(word: &AtomicU64) {
    wake_flagged(word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG);
}

fn wake_flagged(word: &AtomicU64, operation: libc::c_int) {
    // SAFETY: waking only uses the address of the word, which is a live reference.
    unsafe {
        libc::syscall(libc::SYS_futex, low_half(word), operation, i32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Two words of this process; another thread changes the second and wakes it.
    fn wakes_by_the_second() -> Duration {
        let (first, second) = (AtomicU64::new(0), AtomicU64::new(7));
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                second.store(8, Ordering::Release);
                wake_own(&second);
            });
            while second.load(Ordering::Acquire) == 7 {
                let seen = |word, value| Seen { word, value, is_private: true };
                wait(
                    &[seen(&first, 0), seen(&second, 7)],
                    Deadline::after(Duration::from_secs(20)),
                );
            }
        });
        start.elapsed()
    }

    #[test]
    fn any_word_wakes_its_sleeper_even_without_futex_waitv() {
        assert!(wakes_by_the_second() < Duration::from_secs(10));
        ONE_WORD_ONLY.store(true, Ordering::Relaxed);
        let took = wakes_by_the_second();
        ONE_WORD_ONLY.store(false, Ordering::Relaxed);
        assert!(took < Duration::from_secs(10));
    }

    #[test]
    fn a_sleeper_times_out_at_its_deadline() {
        let word = AtomicU64::new(0);
        let start = Instant::now();
        let deadline = Deadline::after(Duration::from_millis(5));
        while !deadline.has_passed() {
            wait(&[Seen { word: &word, value: 0, is_private: false }], deadline);
        }
        assert!(start.elapsed() >= Duration::from_millis(5));
    }
}
