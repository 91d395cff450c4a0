//! Loops in Rust below `catch_unwind`, and in a `drop` that a panic runs.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

static COUNTER: AtomicI64 = AtomicI64::new(0);

#[inline(never)]
extern "C-unwind" fn spin() {
    loop {
        COUNTER.fetch_add(1, Relaxed);
    }
}

struct SpinsAtEnd;

impl Drop for SpinsAtEnd {
    fn drop(&mut self) {
        std::hint::black_box(spin as extern "C-unwind" fn())();
    }
}

/// A loop inside of `catch_unwind`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn spin_caught() {
    let spin = std::hint::black_box(spin as extern "C-unwind" fn());
    let _ = catch_unwind(|| spin());
}

/// A loop while a panic is under way.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn spin_in_panic() {
    let _ = catch_unwind(|| {
        let _guard = SpinsAtEnd;
        resume_unwind(Box::new(1));
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn panics() -> i64 {
    let caught = catch_unwind(|| resume_unwind(Box::new(7_i64)));
    caught.expect_err("a panic").downcast_ref::<i64>().copied().unwrap_or(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn is_panicking() -> i64 {
    i64::from(std::thread::panicking())
}
