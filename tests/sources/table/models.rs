//! Threads and thread-locals by each model, in Rust without its standard library: what it has no words for is assembly.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicI64, Ordering};

use crate::pieces::{__dso_handle, say};

type Work = extern "C" fn(*mut c_void) -> *mut c_void;

unsafe extern "C" {
    fn by_gd() -> *mut c_int;
    fn by_ld() -> *mut c_int;
    fn by_ie() -> *mut c_int;
    fn by_le() -> *mut c_int;
    fn by_desc() -> *mut c_int;
    fn next_of_other() -> c_int;
    fn pthread_create(
        thread: *mut usize,
        attributes: *const c_void,
        function: Work,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> c_int;
    fn __cxa_thread_atexit_impl(
        function: extern "C" fn(*mut c_int),
        argument: *mut c_int,
        handle: *const u8,
    ) -> c_int;
}

fn in_thread(function: Work, argument: usize) -> usize {
    let (mut thread, mut result) = (0, ptr::null_mut());
    unsafe { pthread_create(&mut thread, ptr::null(), function, argument as *mut c_void) };
    unsafe { pthread_join(thread, &mut result) };
    result as usize
}

pub fn in_two_threads(function: Work) {
    function(1 as *mut c_void);
    in_thread(function, 10);
    function(2 as *mut c_void);
}

macro_rules! touch {
    ($name:ident, $by:ident) => {
        pub extern "C" fn $name(step: *mut c_void) -> *mut c_void {
            let place = unsafe { $by() };
            unsafe { *place += step as c_int };
            say!("%d %d", unsafe { *place }, c_int::from(place == unsafe { by_le() }));
            step
        }
    };
}
touch!(touch_gd, by_gd);
touch!(touch_ld, by_ld);
touch!(touch_ie, by_ie);
touch!(touch_le, by_le);
touch!(touch_desc, by_desc);

/// With thread-locals of this object and the other.
pub extern "C" fn count_up(step: *mut c_void) -> *mut c_void {
    let place = unsafe { by_ie() };
    unsafe { *place += step as c_int };
    say!("%d %d", unsafe { *place }, unsafe { next_of_other() });
    step
}
extern "C" fn gone(place: *mut c_int) {
    unsafe { *place += 1 };
    say!("gone %d", unsafe { *place });
}
pub extern "C" fn end_with(step: *mut c_void) -> *mut c_void {
    unsafe { __cxa_thread_atexit_impl(gone, by_le(), &raw const __dso_handle) };
    say!("to go");
    step
}

static TOTAL: AtomicI64 = AtomicI64::new(0);
extern "C" fn work(argument: *mut c_void) -> *mut c_void {
    for _ in 0..1000 {
        TOTAL.fetch_add(argument as i64, Ordering::Relaxed);
    }
    (argument as usize * 2) as *mut c_void
}
pub fn threads() {
    for argument in 1..=4 {
        say!("%zu %ld", in_thread(work, argument), TOTAL.load(Ordering::Relaxed));
    }
}
