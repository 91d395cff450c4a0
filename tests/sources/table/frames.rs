//! Walks of the stack, in Rust without its standard library. They go through functions in assembly with unwind information and
//! without, through another object and the C library. They name functions.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI32, Ordering};

use crate::pieces::say;

type Walk = extern "C" fn(*mut c_void, *mut c_void) -> c_int;

/// The answer of `dladdr`.
#[repr(C)]
struct Found {
    file: *const c_char,
    base: usize,
    name: *const c_char,
    address: usize,
}

// Panics go through these in program_std.rs.
unsafe extern "C-unwind" {
    pub fn call_with_cfi(function: extern "C-unwind" fn());
    fn call_without_cfi(function: extern "C-unwind" fn());
    pub fn through_other(function: extern "C-unwind" fn(*mut c_void), argument: *mut c_void);
    pub fn qsort(
        base: *mut c_int,
        count: usize,
        size: usize,
        by: extern "C-unwind" fn(&c_int, &c_int) -> c_int,
    );
}

unsafe extern "C" {
    fn backtrace(frames: *mut usize, count: c_int) -> c_int;
    fn dladdr(address: usize, found: *mut Found) -> c_int;
    fn _Unwind_Backtrace(walk: Walk, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_FindEnclosingFunction(address: usize) -> usize;
}

/// Looks whether `main` is among the frames, and counts them.
extern "C" fn look_at_frame(context: *mut c_void, found: *mut c_void) -> c_int {
    let function = unsafe { _Unwind_FindEnclosingFunction(_Unwind_GetIP(context).wrapping_sub(1)) };
    if function == crate::main as *const () as usize {
        unsafe { *found.cast::<c_int>() = 1 };
    }
    0
}
#[inline(never)]
extern "C-unwind" fn look_for_main() {
    let mut found: c_int = 0;
    let end = unsafe { _Unwind_Backtrace(look_at_frame, (&raw mut found).cast()) };
    say!("main is below: %d, end %d", found, end);
}
pub fn with_and_without_cfi() {
    unsafe { call_with_cfi(look_for_main) };
    unsafe { call_without_cfi(look_for_main) };
}

static COUNTER: AtomicI32 = AtomicI32::new(0);
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn traced_inner() -> c_int {
    let mut frames = [0; 8];
    let count = unsafe { backtrace(frames.as_mut_ptr(), 8) };
    for frame in frames.iter().take(count as usize).take(3) {
        let mut found = Found { file: ptr::null(), base: 0, name: ptr::null(), address: 0 };
        let is_found =
            unsafe { dladdr(frame.wrapping_sub(1), &mut found) } != 0 && !found.name.is_null();
        let name = if is_found { found.name } else { c"nameless".as_ptr() };
        say!("%s %d", name, c_int::from(found.address <= *frame));
    }
    COUNTER.fetch_add(1, Ordering::Relaxed)
}
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn traced_middle() -> c_int {
    traced_inner() + COUNTER.load(Ordering::Relaxed)
}
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn traced_outer() -> c_int {
    traced_middle() + COUNTER.load(Ordering::Relaxed)
}

extern "C-unwind" fn compare(one: &c_int, two: &c_int) -> c_int {
    if COUNTER.fetch_add(1, Ordering::Relaxed) == 0 {
        look_for_main();
    }
    one - two
}
extern "C-unwind" fn sort(numbers: *mut c_void) {
    unsafe { qsort(numbers.cast(), 3, size_of::<c_int>(), compare) };
}
pub fn unwind() {
    let mut numbers: [c_int; 3] = [3, 1, 2];
    unsafe { through_other(sort, (&raw mut numbers).cast()) };
    say!("%d %d %d", numbers[0], numbers[1], numbers[2]);
}
