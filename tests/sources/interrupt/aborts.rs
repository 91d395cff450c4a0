//! A loop below a guard, for an object whose panics abort.
#![no_std]

use core::sync::atomic::{AtomicI64, Ordering::Relaxed};

static COUNTER: AtomicI64 = AtomicI64::new(0);
static CALLS: AtomicI64 = AtomicI64::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        COUNTER.store(0, Relaxed);
    }
}

#[inline(never)]
fn spin() {
    loop {
        COUNTER.fetch_add(1, Relaxed);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn spin_guarded() {
    let _guard = Guard;
    core::hint::black_box(spin as fn())();
}

#[unsafe(no_mangle)]
pub extern "C" fn count() -> i64 {
    CALLS.fetch_add(1, Relaxed) + 1
}
