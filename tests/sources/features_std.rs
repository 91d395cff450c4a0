//! What a linker does for a program in Rust with its standard library, a feature at a time: the first argument names it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, set_hook};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

// What the language has no words for.
std::arch::global_asm!(
    ".weak features_weak",
    ".weak features_nowhere",
    ".comm features_common, 8, 8",
    ".pushsection .text.features, \"ax\", @progbits",
    "features_weak: mov eax, 7",
    "ret",
    ".type features_weak, @function",
    "features_chosen: lea eax, [rdi + 2 * rdi]",
    "ret",
    "features_choose: lea rax, [rip + features_chosen]",
    "ret",
    ".globl features_choice",
    ".type features_choice, @gnu_indirect_function",
    ".set features_choice, features_choose",
    // GNU ld cannot link calls of it that are compiled for the large code model.
    ".globl features_direct",
    "features_direct: jmp features_choice@plt",
    ".popsection",
    ".pushsection .data.rel.ro.features, \"aw\", @progbits",
    ".globl features_places",
    ".balign 8",
    "features_places: .quad features_weak, features_nowhere, features_common, features_choice",
    ".popsection",
);

unsafe extern "C" {
    fn features_direct(x: c_int) -> c_int;
    static features_places: [usize; 4];
    static mut features_common: i64;
    fn printf(format: *const std::ffi::c_char, ...) -> c_int;
    fn atexit(function: extern "C" fn()) -> c_int;
}

unsafe extern "C-unwind" {
    fn qsort(
        base: *mut c_int,
        count: usize,
        size: usize,
        by: extern "C-unwind" fn(&c_int, &c_int) -> c_int,
    );
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

static STARTED: AtomicI32 = AtomicI32::new(0);

extern "C" fn started(argc: c_int) {
    STARTED.store(argc * 10, Ordering::Relaxed);
}
extern "C" fn ended() {
    if STARTED.load(Ordering::Relaxed) == 21 {
        println!("end");
    }
}
extern "C" fn handler() {
    println!("exit handler");
}
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int) = started;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = ended;

fn start() {
    unsafe { atexit(handler) };
    println!("{}", STARTED.fetch_add(1, Ordering::Relaxed));
}

fn shared() {
    let (weak, nowhere, common) =
        unsafe { (features_places[0], features_places[1], features_places[2]) };
    unsafe { features_common += 5 };
    let weak: extern "C" fn() -> c_int = unsafe { std::mem::transmute(weak) };
    println!("{} {nowhere} {}", weak(), unsafe { *(common as *const i64) });
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

fn unwind() {
    set_hook(Box::new(|info| println!("{info}")));
    let numbers = AssertUnwindSafe([3, 1, 2]);
    let caught = catch_unwind(move || {
        let _guard = Guard("a closure");
        let mut numbers = numbers;
        unsafe { qsort(numbers.as_mut_ptr(), 3, 4, compare) };
    });
    println!("{:?}", caught.unwrap_err().downcast_ref::<i32>());
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
    static NOISY: RefCell<Noisy> = RefCell::new(Noisy(NUMBER.get()));
}

fn thread_locals() {
    let bump = || {
        NUMBER.set(NUMBER.get() + 2);
        NOISY.with_borrow_mut(|noisy| noisy.0 += 100);
        println!("{} {}", NUMBER.get(), NOISY.with_borrow(|noisy| noisy.0));
    };
    bump();
    std::thread::spawn(move || (bump(), bump())).join().unwrap();
    bump();
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

fn indirect() {
    let function: extern "C" fn(c_int) -> c_int =
        unsafe { std::mem::transmute(std::hint::black_box(features_places[3])) };
    println!("{} {}", unsafe { features_direct(3) }, function(5));
}

#[unsafe(no_mangle)]
pub extern "C" fn main() -> c_int {
    match std::env::args().nth(1).as_deref() {
        Some("calls") => calls(),
        Some("start") => start(),
        Some("shared") => shared(),
        Some("unwind") => unwind(),
        Some("locals") => thread_locals(),
        Some("threads") => threads(),
        Some("numbers") => numbers(),
        Some("indirect") => indirect(),
        _ => return 1,
    }
    40
}
