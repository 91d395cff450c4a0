//! Asks Rust's standard library for a backtrace, and panics, which prints another.

use std::backtrace::Backtrace;
use std::ffi::c_int;
use std::hint::black_box;

#[inline(never)]
fn deepest_function() -> i32 {
    println!("{}", Backtrace::force_capture());
    if black_box(true) {
        panic!("on purpose");
    }
    black_box(1)
}

#[inline(never)]
fn function_between() -> i32 {
    deepest_function() + black_box(1)
}

struct Thing;

impl Thing {
    #[inline(never)]
    fn method_outside(&self) -> i32 {
        function_between() + black_box(2)
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn main() -> c_int {
    c_int::from(std::panic::catch_unwind(|| black_box(Thing).method_outside()).is_err()) * 41
}
