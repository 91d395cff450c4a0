//! What a linker does for a program in Rust without its standard library, a feature at a time: the first argument
//! names it.
#![no_std]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicI64, Ordering};

core::arch::global_asm!(
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
    // A thread-local, and a function that returns its value, which it counts up.
    ".globl features_next",
    ".type features_next, @function",
    "features_next: mov eax, 1",
    "xadd dword ptr fs:[features_local@tpoff], eax",
    "ret",
    ".popsection",
    ".pushsection .tdata.features, \"awT\", @progbits",
    ".balign 4",
    ".type features_local, @object",
    "features_local: .long 17",
    ".popsection",
    ".pushsection .data.rel.ro.features, \"aw\", @progbits",
    ".globl features_places",
    ".balign 8",
    "features_places: .quad features_weak, features_nowhere, features_common, features_choice",
    ".popsection",
);

unsafe extern "C" {
    fn features_direct(x: c_int) -> c_int;
    fn features_next() -> c_int;
    static features_places: [usize; 4];
    static mut features_common: i64;
    fn printf(format: *const c_char, ...) -> c_int;
    fn abs(x: c_int) -> c_int;
    fn pow(x: f64, y: f64) -> f64;
    fn atexit(function: extern "C" fn()) -> c_int;
    fn pthread_create(
        thread: *mut usize,
        attributes: *const c_void,
        function: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_join(thread: usize, result: *mut *mut c_void) -> c_int;
    fn abort() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    unsafe { abort() }
}

/// Frames of the core library name it, which nothing unwinds here.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}

trait Shape: Sync {
    fn area(&self) -> c_int;
}
struct Square(c_int);
struct Line;
impl Shape for Square {
    fn area(&self) -> c_int {
        self.0.wrapping_mul(self.0)
    }
}
impl Shape for Line {
    fn area(&self) -> c_int {
        0
    }
}
static SHAPES: [&dyn Shape; 3] = [&Square(3), &Line, &Square(4)];
static FUNCTION: unsafe extern "C" fn(c_int) -> c_int = abs;
static TOTAL: AtomicI64 = AtomicI64::new(0);

fn calls() {
    for shape in SHAPES {
        unsafe { printf(c"%d %d\n".as_ptr(), shape.area(), FUNCTION(-5)) };
    }
}

static STARTED: AtomicI64 = AtomicI64::new(0);

extern "C" fn started(argc: c_int) {
    STARTED.store(10 * i64::from(argc), Ordering::Relaxed);
}
extern "C" fn ended() {
    if STARTED.load(Ordering::Relaxed) == 21 {
        unsafe { printf(c"end\n".as_ptr()) };
    }
}
extern "C" fn handler() {
    unsafe { printf(c"exit handler\n".as_ptr()) };
}
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int) = started;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = ended;

fn start() {
    unsafe { atexit(handler) };
    unsafe { printf(c"%ld\n".as_ptr(), STARTED.fetch_add(1, Ordering::Relaxed)) };
}

fn shared() {
    let [weak, nowhere, common, _] = unsafe { features_places };
    unsafe { features_common += 5 };
    let weak: extern "C" fn() -> c_int = unsafe { core::mem::transmute(weak) };
    unsafe { printf(c"%d %zu %ld\n".as_ptr(), weak(), nowhere, *(common as *const i64)) };
}

extern "C" fn work(argument: *mut c_void) -> *mut c_void {
    for _ in 0..1000 {
        TOTAL.fetch_add(argument as i64, Ordering::Relaxed);
    }
    argument
}

extern "C" fn count(argument: *mut c_void) -> *mut c_void {
    unsafe { printf(c"%d\n".as_ptr(), features_next()) };
    argument
}

fn in_threads(number: usize, function: extern "C" fn(*mut c_void) -> *mut c_void) {
    for argument in 1..=number {
        let (mut thread, mut result) = (0, core::ptr::null_mut());
        let argument = argument as *mut c_void;
        unsafe { pthread_create(&mut thread, core::ptr::null(), function, argument) };
        unsafe { pthread_join(thread, &mut result) };
        unsafe { printf(c"%p ".as_ptr(), result) };
    }
}

fn thread_locals() {
    count(core::ptr::null_mut());
    in_threads(2, count);
    count(core::ptr::null_mut());
}

fn threads() {
    in_threads(4, work);
    unsafe { printf(c"%ld\n".as_ptr(), TOTAL.load(Ordering::Relaxed)) };
}

fn numbers() {
    let x = core::hint::black_box(0.7_f64);
    let (five, text) = (c"text", 5 as c_int);
    unsafe { printf(c"%a %d %s %.9f\n".as_ptr(), x * 1.5, text, five.as_ptr(), pow(x, 2.5)) };
}

fn indirect() {
    let function: extern "C" fn(c_int) -> c_int =
        unsafe { core::mem::transmute(core::hint::black_box(features_places[3])) };
    unsafe { printf(c"%d %d\n".as_ptr(), features_direct(3), function(5)) };
}

/// # Safety
///
/// Called once, by the C runtime.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    if argc < 2 {
        return 1;
    }
    match unsafe { CStr::from_ptr(*argv.add(1)) }.to_bytes() {
        b"calls" => calls(),
        b"start" => start(),
        b"shared" => shared(),
        b"locals" => thread_locals(),
        b"threads" => threads(),
        b"numbers" => numbers(),
        b"indirect" => indirect(),
        _ => return 1,
    }
    40
}
