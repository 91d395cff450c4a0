//! A loop in Rust below functions that own something.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

static COUNTER: AtomicI64 = AtomicI64::new(0);
/// The guards that were dropped, each as a digit, the first one in front.
static ORDER: AtomicI64 = AtomicI64::new(0);

struct Guard(i64);

impl Drop for Guard {
    fn drop(&mut self) {
        ORDER.store(ORDER.load(Relaxed) * 10 + self.0, Relaxed);
    }
}

#[inline(never)]
extern "C-unwind" fn spin() {
    loop {
        COUNTER.fetch_add(1, Relaxed);
    }
}

#[inline(never)]
fn inner(function: extern "C-unwind" fn()) {
    let _first = Guard(3);
    let _second = Guard(2);
    function();
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn run() {
    let _outer = Guard(4);
    let spin = std::hint::black_box(spin as extern "C-unwind" fn());
    inner(spin);
}

/// The order so far, which begins anew.
#[unsafe(no_mangle)]
pub extern "C" fn take_order() -> i64 {
    ORDER.swap(0, Relaxed)
}
