//! A loop in Rust below a function that owns something, for a compiler that makes panics abort.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

static COUNTER: AtomicI64 = AtomicI64::new(0);
static DROPPED: AtomicI64 = AtomicI64::new(0);

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Relaxed);
    }
}

#[inline(never)]
fn spin() {
    while COUNTER.fetch_add(1, Relaxed) >= 0 {}
}

#[unsafe(no_mangle)]
pub extern "C" fn run() {
    let _guard = Guard;
    std::hint::black_box(spin as fn())();
}

#[unsafe(no_mangle)]
pub extern "C" fn dropped() -> i64 {
    DROPPED.load(Relaxed)
}
