//! The other half of pieces.rs, in an object of its own.
#![no_std]

use core::ffi::{c_int, c_void};

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(include_str!("assembly_other_x86_64.s"), options(att_syntax));
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(include_str!("assembly_other_aarch64.s"));

unsafe extern "C" {
    static __dso_handle: u8;
    fn __cxa_atexit(function: extern "C" fn(usize), argument: usize, handle: *const u8) -> c_int;
    fn note_letter(letter: c_int);
    fn end_letter(letter: c_int);
}

#[unsafe(no_mangle)]
pub extern "C" fn of_other(x: c_int) -> c_int {
    x.wrapping_add(10)
}

extern "C" fn started() {
    unsafe { note_letter(i32::from(b'o')) };
}
extern "C" fn ended() {
    unsafe { end_letter(i32::from(b'q')) };
}
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = started;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = ended;

extern "C" fn handler_of(letter: usize) {
    unsafe { end_letter(letter as c_int) };
}
#[unsafe(no_mangle)]
pub extern "C" fn handle_other() {
    unsafe { __cxa_atexit(handler_of, usize::from(b'd'), &raw const __dso_handle) };
}

/// Notes that it is gone, whether by an unwinder or not.
struct Noted;
impl Drop for Noted {
    fn drop(&mut self) {
        unsafe { end_letter(i32::from(b'g')) };
    }
}

/// A panic may pass through.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn through_other(
    function: extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
) {
    let _noted = Noted;
    function(argument);
}
