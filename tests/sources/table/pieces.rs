//! Features that Rust has in the same words with its standard library and without; most are words of assembly,
//! reached from here.

use core::ffi::{CStr, c_char, c_int, c_long, c_void};
use core::ptr;
use core::sync::atomic::AtomicI32;

use crate::{frames, models};

/// Writes a line, as `printf` does.
macro_rules! say {
    ($format:literal $(, $argument:expr)*) => {{
        let format: *const core::ffi::c_char = concat!($format, "\n\0").as_ptr().cast();
        #[allow(unused_unsafe, reason = "some arguments have blocks of their own")]
        unsafe { $crate::pieces::printf(format $(, $argument)*) };
    }};
}

pub(crate) use say;

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(include_str!("assembly_x86_64.s"), options(att_syntax));
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(include_str!("assembly_aarch64.s"));

#[repr(C)]
struct Fields {
    word: isize,
    distance: isize,
    near: i32,
}

// Of assembly, and of other.rs.
unsafe extern "C" {
    static target: [c_long; 3];
    static fields: Fields;
    static places: [usize; 7];
    static texts: [*const c_char; 4];
    static texts_of_other: [*const c_char; 4];
    static letters: [c_char; 64];
    static mut watch_end: c_int;
    static mut common_word: c_long;
    static common_array: [c_long; 32];
    #[link_name = "__start_table_parts"]
    static parts_start: c_int;
    #[link_name = "__stop_table_parts"]
    static parts_end: c_int;
    fn note_letter(letter: c_int);
    fn end_letter(letter: c_int);
    fn marked(x: c_int) -> c_int;
    fn reach_data() -> c_int;
    fn reach_all() -> c_int;
    fn reach_table() -> c_int;
    fn call_weak_both() -> c_int;
    fn call_kept() -> c_int;
    fn call_kept_of_other() -> c_int;
    fn call_choice(x: c_int) -> c_int;
    fn call_many() -> c_int;
    fn change_commons();
    fn of_other(x: c_int) -> c_int;
    fn handle_other();
}

// Of the archives and of the shared library.
unsafe extern "C" {
    static mut library_number: c_int;
    static mut library_array: [c_int; 100];
    static library_name: *const c_char;
    fn library_next() -> c_int;
    fn library_sum() -> c_int;
    fn library_calls(function: extern "C" fn(c_int) -> c_int, x: c_int) -> c_int;
    fn library_place() -> *mut c_int;
    fn member_needed(x: c_int) -> c_int;
    fn thin_needed(x: c_int) -> c_int;
    fn thin_behind(x: c_int) -> c_int;
}

// Of the system.
unsafe extern "C" {
    static environ: *const *const c_char;
    static stdout: *mut c_void;
    static stderr: *mut c_void;
    static optind: c_int;
    pub static __dso_handle: u8;
    pub fn printf(format: *const c_char, ...) -> c_int;
    fn fprintf(stream: *mut c_void, format: *const c_char, ...) -> c_int;
    fn getopt(count: c_int, arguments: *const *const c_char, options: *const c_char) -> c_int;
    fn abs(x: c_int) -> c_int;
    fn pow(x: f64, y: f64) -> f64;
    fn atexit(function: extern "C" fn()) -> c_int;
    fn __cxa_atexit(function: extern "C" fn(usize), argument: usize, handle: *const u8) -> c_int;
}

/// The features, by the names of `tests/it/table`; the features of C and C++ have the same.
const FEATURES: [(&str, fn()); 29] = [
    ("relocations", relocations),
    ("table", || say!("%x", unsafe { reach_table() })),
    ("moved", moved),
    ("library", library),
    ("archive", || say!("%d %d", unsafe { member_needed(1) }, c_int::from(place(5) != 0))),
    ("thin", thin),
    ("common", common),
    ("group", || say!("%d %d", unsafe { call_kept() }, unsafe { call_kept_of_other() })),
    ("merge", merge),
    ("bounds", bounds),
    ("sections", || say!("%d", unsafe { call_many() })),
    ("property", || say!("%d", unsafe { marked(8) })),
    ("frames", frames::with_and_without_cfi),
    ("names", || say!("%d", frames::traced_outer())),
    ("gd", || models::in_two_threads(models::touch_gd)),
    ("ld", || models::in_two_threads(models::touch_ld)),
    ("ie", || models::in_two_threads(models::touch_ie)),
    ("le", || models::in_two_threads(models::touch_le)),
    ("desc", || models::in_two_threads(models::touch_desc)),
    ("calls", calls),
    ("start", || say!("%s", unsafe { &raw const letters })),
    ("end", end),
    ("weak", weak),
    ("unwind", frames::unwind),
    ("locals", || models::in_two_threads(models::count_up)),
    ("ends", || models::in_two_threads(models::end_with)),
    ("threads", models::threads),
    ("numbers", numbers),
    ("ifunc", ifunc),
];

/// Runs the feature of this name; returns the status that is its own.
pub fn run(name: &[u8]) -> Option<c_int> {
    let at = FEATURES.iter().position(|(known, _)| known.as_bytes() == name)?;
    FEATURES.get(at)?.1();
    Some(40 + at as c_int)
}

fn place(at: usize) -> usize {
    unsafe { *(&raw const places).cast::<usize>().wrapping_add(at) }
}

fn relocations() {
    let (here, fields_of) = (&raw const fields as isize, unsafe { &fields });
    let first = &raw const target as isize;
    let right = [
        fields_of.word == first + 8,
        here + 8 + fields_of.distance == first + 8,
        here + 16 + fields_of.near as isize == first + 16,
    ];
    right.iter().for_each(|right| say!("%d", c_int::from(*right)));
    say!("%x %x", unsafe { reach_data() }, unsafe { reach_all() });
}

struct Places(*const *mut c_void, *const c_int);
unsafe impl Sync for Places {}
static OF_C_LIBRARY: Places = Places(&raw const stdout, &raw const optind);

fn moved() {
    let (mut at, mut words) = (unsafe { environ }, 0);
    while !unsafe { *at }.is_null() {
        words +=
            c_int::from(unsafe { CStr::from_ptr(*at) }.to_bytes().starts_with(b"CORPUS_WORD="));
        at = at.wrapping_add(1);
    }
    let arguments = [c"program".as_ptr(), c"-x".as_ptr(), ptr::null()];
    let got = unsafe { getopt(2, arguments.as_ptr(), c"x".as_ptr()) };
    let (index, same) = unsafe { (optind, OF_C_LIBRARY.1 == &raw const optind) };
    let format = c"%d %c %d %d\n".as_ptr();
    unsafe { fprintf(*OF_C_LIBRARY.0, format, words, got, index, c_int::from(same)) };
    unsafe { fprintf(stderr, c"to stderr\n".as_ptr()) };
}

extern "C" fn of_program(x: c_int) -> c_int {
    x * 100
}
static OF_LIBRARY: Places = Places(ptr::null(), &raw const library_number);

fn library() {
    unsafe { library_number += 10 };
    unsafe { library_array[99] = 7 };
    let same = unsafe { library_place() } == &raw mut library_number;
    say!("%d %d %d", unsafe { library_next() }, unsafe { *OF_LIBRARY.1 }, c_int::from(same));
    say!("%d %d %s", unsafe { library_sum() }, unsafe { library_calls(of_program, 3) }, unsafe {
        library_name
    });
}

fn thin() {
    say!(
        "%d %d %d",
        unsafe { thin_needed(2) },
        unsafe { thin_behind(3) },
        c_int::from(place(6) != 0)
    );
}

fn common() {
    unsafe { common_word = 20 };
    unsafe { change_commons() };
    let array = &raw const common_array;
    say!(
        "%ld %ld %d",
        unsafe { common_word },
        unsafe { (*array)[31] },
        (array as usize % 32) as c_int
    );
    let same = place(2) == &raw const common_word as usize && place(3) == array as usize;
    say!("%d", c_int::from(same));
}

static OWN_TEXTS: [&CStr; 4] = [c"a shared text", c"shared text", c"text", c"ext"];
fn merge() {
    for (at, own) in OWN_TEXTS.iter().enumerate().take(3) {
        say!("%s,%s,%s", unsafe { texts[at] }, unsafe { texts_of_other[at] }, own.as_ptr());
    }
    let wide = "wide".encode_utf16().map(c_int::from).sum::<c_int>();
    let [one, two] = unsafe { [*texts[3].cast::<c_long>(), *texts_of_other[3].cast::<c_long>()] };
    say!("%s %d %ld %ld", OWN_TEXTS[3].as_ptr(), wide, one, two);
    let x = core::hint::black_box(1.0);
    say!("%g", x * 0.1 + x * 12345.75);
}

#[used]
#[unsafe(link_section = "table_parts")]
static OWN_PART: AtomicI32 = AtomicI32::new(5000);

fn bounds() {
    let (mut at, end) = (&raw const parts_start, &raw const parts_end);
    let (mut sum, mut count) = (0, 0);
    while at < end {
        sum += unsafe { *at };
        count += 1;
        at = at.wrapping_add(1);
    }
    say!("%d %d", sum, count as c_int);
}

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
static FUNCTIONS: [unsafe extern "C" fn(c_int) -> c_int; 2] = [abs, of_other];
fn calls() {
    for shape in SHAPES {
        say!("%d %d %d", shape.area(), unsafe { FUNCTIONS[0](-5) }, unsafe { FUNCTIONS[1](6) });
    }
}

extern "C" fn started(argc: c_int) {
    unsafe { note_letter(i32::from(b'0') + argc) };
}
extern "C" fn started_early() {
    unsafe { note_letter(i32::from(b'e')) };
}
extern "C" fn ended() {
    unsafe { end_letter(i32::from(b'r')) };
}
extern "C" fn handler() {
    unsafe { end_letter(i32::from(b'h')) };
}
extern "C" fn handler_of(letter: usize) {
    unsafe { end_letter(letter as c_int) };
}
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int) = started;
#[used]
#[unsafe(link_section = ".init_array.00200")]
static EARLY: extern "C" fn() = started_early;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = ended;

fn end() {
    unsafe { watch_end = 1 };
    unsafe { atexit(handler) };
    unsafe { __cxa_atexit(handler_of, usize::from(b'c'), &raw const __dso_handle) };
    unsafe { handle_other() };
    unsafe { atexit(handler) };
    say!("end:");
}

fn weak() {
    let both: extern "C" fn() -> c_int = unsafe { core::mem::transmute(place(0)) };
    say!("%d %d %d", unsafe { call_weak_both() }, both(), c_int::from(place(1) != 0));
}

fn numbers() {
    let x = core::hint::black_box(0.7_f64);
    let (five, text) = (5 as c_int, c"text");
    say!("%a %d %s %.9f", x * 1.5, five, text.as_ptr(), unsafe { pow(x, 2.5) });
}

fn ifunc() {
    let function: extern "C" fn(c_int) -> c_int =
        unsafe { core::mem::transmute(core::hint::black_box(place(4))) };
    say!("%d %d", unsafe { call_choice(3) }, function(5));
}
