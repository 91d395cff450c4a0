//! The work of a linker for a program in Rust with its standard library, a feature at a time: the first argument names
//! it. With other.rs.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, set_hook};
use std::sync::Mutex;

mod frames;
mod models;
mod pieces;

use frames::{call_with_cfi, qsort, through_other};

unsafe extern "C" {
    static mut watch_end: c_int;
    fn printf(format: *const std::ffi::c_char, ...) -> c_int;
    fn putchar(letter: c_int) -> c_int;
}

trait Shape: Sync {
    fn area(&self) -> i32;
}
struct Square(i32);
struct Line;
impl Shape for Square {
    fn area(&self) -> i32 {
        self.0 * self.0
    }
}
impl Shape for Line {
    fn area(&self) -> i32 {
        0
    }
}
static SHAPES: [&dyn Shape; 3] = [&Square(3), &Line, &Square(4)];
static ZEROED: Mutex<[u8; 1 << 20]> = Mutex::new([0; 1 << 20]);

fn calls() {
    let mut named = BTreeMap::new();
    for (shape, name) in SHAPES.iter().zip(["square", "line", "another"]) {
        named.insert(name, shape.area());
    }
    ZEROED.lock().unwrap()[(1 << 20) - 1] = 9;
    println!("{named:?} {}", ZEROED.lock().unwrap().iter().map(|x| u32::from(*x)).sum::<u32>());
}

struct Guard(&'static str);
impl Drop for Guard {
    fn drop(&mut self) {
        println!("unwound {}", self.0);
    }
}

extern "C-unwind" fn compare(_: &c_int, _: &c_int) -> c_int {
    let _guard = Guard("a callback");
    panic_any(17)
}

extern "C-unwind" fn sort(numbers: *mut c_void) {
    let _guard = Guard("what the other object calls");
    unsafe { qsort(numbers.cast(), 3, 4, compare) };
}

extern "C-unwind" fn fail() {
    panic!("behind assembly")
}

/// Panics come through frames of the other object, of the C library, and of assembly that describes its frame.
fn unwind() {
    set_hook(Box::new(|info| println!("{info}")));
    let numbers = AssertUnwindSafe([3, 1, 2]);
    unsafe { watch_end = 1 };
    let caught = catch_unwind(move || {
        let _guard = Guard("a closure");
        let mut numbers = numbers;
        unsafe { through_other(sort, (&raw mut numbers.0).cast()) };
    });
    unsafe { putchar(10) };
    println!("{:?}", caught.unwrap_err().downcast_ref::<i32>());
    println!("{}", catch_unwind(|| unsafe { call_with_cfi(fail) }).is_err());
    println!("{}", catch_unwind(|| [1, 2, 3][std::env::args().count() + 1]).is_err());
}

struct Noisy(i32);
impl Drop for Noisy {
    fn drop(&mut self) {
        println!("gone {} {}", self.0, NUMBER.get());
    }
}

thread_local! {
    static NUMBER: Cell<i32> = const { Cell::new(17) };
    static UNSET: RefCell<[u8; 300]> = const { RefCell::new([0; 300]) };
    static NOISY: RefCell<Noisy> = RefCell::new(Noisy(NUMBER.get()));
}

fn locals() {
    let bump = || {
        NUMBER.set(NUMBER.get() + 2);
        UNSET.with_borrow_mut(|unset| unset[299] += 1);
        println!("{} {}", NUMBER.get(), UNSET.with_borrow(|unset| unset[299] + unset[0]));
    };
    bump();
    std::thread::spawn(move || (bump(), bump())).join().unwrap();
    bump();
}

fn ends() {
    let bump = || NOISY.with_borrow_mut(|noisy| noisy.0 += 100);
    bump();
    std::thread::spawn(move || (bump(), bump())).join().unwrap();
    bump();
    println!("{}", NOISY.with_borrow(|noisy| noisy.0));
}

fn threads() {
    let total = Mutex::new(0);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let total = &total;
            scope.spawn(move || (0..1000).for_each(|_| *total.lock().unwrap() += number));
        }
    });
    println!("{total:?}");
}

fn numbers() {
    let x = std::hint::black_box(0.7_f64);
    println!("{} {:.12} {:.12} {}", x.mul_add(2.0, 1.0), x.sin(), x.powf(2.5), f64::MAX);
    unsafe { printf(c"%a %d %s %.9f\n".as_ptr(), x, 5 as c_int, c"text".as_ptr(), x) };
}

#[inline(never)]
fn traced_inner() -> usize {
    let text = Backtrace::force_capture().to_string();
    let names = text.lines().filter_map(|line| line.split_once(": ").map(|(_, name)| name));
    let traced: Vec<&str> = names.filter(|name| name.contains("::traced_")).collect();
    println!("{traced:?}");
    black_box(traced.len())
}
#[inline(never)]
fn traced_middle() -> usize {
    traced_inner() + black_box(1)
}
#[inline(never)]
fn traced_outer() -> usize {
    traced_middle() + black_box(1)
}

/// The features that differ with the standard library, or are more; the rest is in pieces.rs.
const FEATURES: [(&str, fn()); 7] = [
    ("calls", calls),
    ("unwind", unwind),
    ("locals", locals),
    ("ends", ends),
    ("threads", threads),
    ("numbers", numbers),
    ("names", || println!("{}", traced_outer())),
];

#[unsafe(no_mangle)]
pub extern "C" fn main() -> c_int {
    let name = std::env::args().nth(1).unwrap_or_default();
    if let Some(at) = FEATURES.iter().position(|(known, _)| *known == name) {
        FEATURES[at].1();
        return 80 + at as c_int;
    }
    pieces::run(name.as_bytes()).unwrap_or(1)
}
