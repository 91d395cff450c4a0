//! The work of a linker for a program in Rust without its standard library, a feature at a time: the first argument names
//! it. With other.rs.
#![no_std]

use core::ffi::{CStr, c_char, c_int};

mod frames;
mod models;
mod pieces;

unsafe extern "C" {
    fn abort() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { abort() }
}

/// Frames of the core library name it, which nothing unwinds here.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

/// # Safety
///
/// Called once, by the C runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    if argc < 2 {
        return 1;
    }
    pieces::run(unsafe { CStr::from_ptr(*argv.add(1)) }.to_bytes()).unwrap_or(1)
}
