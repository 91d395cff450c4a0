//! An allocator that counts the memory that each thread has in use.
//!
//! Invariant: every request goes to the system's allocator unchanged.
#![allow(unsafe_code, reason = "an allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count.
pub(crate) struct Counting;

thread_local! {
    /// The bytes that this thread allocated less those that it freed, whichever thread allocated them.
    static USED: Cell<i64> = const { Cell::new(0) };
    /// The largest value of `USED` since [`peak_of`] began.
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Runs `work`. Returns its result, and the most bytes that were in use on this thread during it beyond those before it.
pub(crate) fn peak_of<T>(work: impl FnOnce() -> T) -> (T, i64) {
    let before = USED.get();
    PEAK.set(before);
    let result = work();
    (result, PEAK.get() - before)
}

fn count(change: i64) {
    let used = USED.get() + change;
    USED.set(used);
    PEAK.set(PEAK.get().max(used));
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: every method passes its arguments to the system's allocator, which keeps the contract. Counting touches only two
// cells of the thread, which need no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: `start` came from the system's allocator, with this layout.
        unsafe { System.dealloc(start, layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // Both may exist for a moment.
        count(signed(bytes));
        count(-signed(layout.size()));
        // SAFETY: `start` came from the system's allocator, with this layout.
        unsafe { System.realloc(start, layout, bytes) }
    }
}
