//! A program without the standard library: libc's printf and qsort, statics, traits, closures, slices.
#![no_std]

use core::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn printf(format: *const c_char, ...) -> c_int;
    fn qsort(
        base: *mut c_void,
        n: usize,
        size: usize,
        by: extern "C" fn(*const c_void, *const c_void) -> c_int,
    );
    fn abort() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { abort() }
}

trait Shape {
    fn area(&self) -> c_int;
}
struct Square(c_int);
struct Rectangle(c_int, c_int);
impl Shape for Square {
    fn area(&self) -> c_int {
        self.0.wrapping_mul(self.0)
    }
}
impl Shape for Rectangle {
    fn area(&self) -> c_int {
        self.0.wrapping_mul(self.1)
    }
}

static SHAPES: [&(dyn Shape + Sync); 3] = [&Square(4), &Rectangle(3, 5), &Square(10)];
static mut COMPARED: c_int = 0;

extern "C" fn by_value(a: *const c_void, b: *const c_void) -> c_int {
    unsafe {
        COMPARED = COMPARED.wrapping_add(1);
        (*a.cast::<c_int>()).wrapping_sub(*b.cast::<c_int>())
    }
}

/// # Safety
///
/// Called once, by the C runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    let mut numbers = [9, -3, 7, 1, 0, 42, -8];
    unsafe {
        qsort(numbers.as_mut_ptr().cast(), numbers.len(), size_of::<c_int>(), by_value);
        for number in numbers {
            printf(c"%d ".as_ptr(), number);
        }
        printf(c"\ncompared %d\n".as_ptr(), c_int::from(COMPARED > 6));
        let mut total: c_int = 0;
        for shape in SHAPES {
            printf(c"area %d\n".as_ptr(), shape.area());
            total = total.wrapping_add(shape.area());
        }
        for i in 1..argc {
            printf(c"argument %s\n".as_ptr(), *argv.add(i as usize));
        }
        total & 0x7f
    }
}
