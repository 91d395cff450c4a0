//! C functions called by their types: every kind of argument and result, in registers and on the stack. The checker is what gcc
//! and clang make of C.
//!
//! Invariant: what comes back is compared with what arithmetic here says.

use farcall::controller::calls::StaticType;
use farcall::controller::{Function, Library, Process};
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr};

use crate::testkit::corpus::{self, Build, clang, gcc};
use crate::testkit::launch;
use crate::testkit::tools;

/// The functions of `typed.c` in an executor of their own.
struct Session {
    process: Process,
    dylib: Library,
}

impl Session {
    fn start(build: Build<'_>) -> Self {
        let launch = launch::builder();
        let executor = launch.start().expect("an executor");
        let dylib = executor.library("typed");
        let object = std::fs::read(corpus::object("typed.c", build)).expect("just compiled");
        dylib.add_object(&ObjectFile::parse("typed.o", object).expect("an object")).expect("added");
        let process = executor.process().expect("a process");
        Self { process, dylib }
    }

    fn function<F: StaticType>(&self, name: &str) -> Function<F> {
        self.process.function(self.dylib.lookup(name).expect("defined"))
    }
}

/// Sessions with the functions compiled in each way.
fn sessions() -> impl Iterator<Item = Session> {
    let mut builds = vec![gcc(&["-O2"]), gcc(&["-O0"]), gcc(&["-O2", "-fno-pic"])];
    if tools::is_here("clang", "calls of what it compiles") {
        builds.extend([clang(&["-O2"]), clang(&["-O0"])]);
    }
    builds.into_iter().map(Session::start)
}

macro_rules! assert_calls {
    ($session:expr, $name:literal: $kind:ty; $(($($argument:expr),*) => $result:expr),* $(,)?) => {
        let function = $session.function::<$kind>($name);
        $(assert_eq!(function.call(($($argument,)*)).expect("a result"), $result, $name);)*
    };
}

#[test]
fn small_integers_are_extended_and_cut() {
    for s in sessions() {
        assert_calls!(s, "from_i8": extern "C" fn(i8) -> i64; (-128) => -128, (127) => 127, (-1) => -1);
        assert_calls!(s, "from_u8": extern "C" fn(u8) -> i64; (255) => 255, (128) => 128, (0) => 0);
        assert_calls!(s, "from_i16": extern "C" fn(i16) -> i64; (i16::MIN) => -32768, (-2) => -2);
        assert_calls!(s, "from_u16": extern "C" fn(u16) -> i64; (u16::MAX) => 65535);
        assert_calls!(s, "from_i32": extern "C" fn(i32) -> i64; (i32::MIN) => -2_147_483_648, (-3) => -3);
        assert_calls!(s, "from_u32": extern "C" fn(u32) -> i64; (u32::MAX) => 4_294_967_295);
        assert_calls!(s, "same_u64": extern "C" fn(u64) -> u64; (u64::MAX) => u64::MAX, (1 << 63) => 1 << 63);
        assert_calls!(s, "same_u64": extern "C" fn(i64) -> i64; (i64::MIN) => i64::MIN, (-5) => -5);
        assert_calls!(s, "next_i8": extern "C" fn(i8) -> i8; (127) => -128, (-1) => 0);
        assert_calls!(s, "next_u8": extern "C" fn(u8) -> u8; (255) => 0, (127) => 128);
        assert_calls!(s, "next_i16": extern "C" fn(i16) -> i16; (i16::MAX) => i16::MIN, (-2) => -1);
        assert_calls!(s, "next_i32": extern "C" fn(i32) -> i32; (i32::MAX) => i32::MIN, (-1) => 0);
        // Only the low bits of a result are the result.
        assert_calls!(s, "dirty": extern "C" fn() -> i8; () => -128);
        assert_calls!(s, "dirty": extern "C" fn() -> u8; () => 128);
        assert_calls!(s, "dirty": extern "C" fn() -> u16; () => 0xff80);
        assert_calls!(s, "dirty": extern "C" fn() -> u32; () => 0xffff_ff80);
        assert_calls!(s, "dirty": extern "C" fn() -> bool; () => true);
    }
}

#[test]
fn floats_bools_and_nothing() {
    for s in sessions() {
        let nan = s.function::<extern "C" fn(f64) -> f64>("same_f64");
        for bits in [0x7ff8_0000_dead_beef_u64, 0xfff8_0000_0000_0001, 0x8000_0000_0000_0000, 1] {
            let same = nan.call((f64::from_bits(bits),)).expect("a result");
            assert_eq!(same.to_bits(), bits);
        }
        let nan = s.function::<extern "C" fn(f32) -> f32>("same_f32");
        for bits in [0x7fc0_1234_u32, 0xff80_0000, 0x8000_0000, 1] {
            assert_eq!(nan.call((f32::from_bits(bits),)).expect("a result").to_bits(), bits);
        }
        assert_calls!(s, "half": extern "C" fn(f32) -> f32; (3.0) => 1.5, (-1e-3) => -5e-4);
        assert_calls!(s, "root": extern "C" fn(f64) -> f64; (6.25) => 2.5);
        let root = s.function::<extern "C" fn(f64) -> f64>("root");
        assert!(root.call((-1.0,)).expect("a result").is_nan());
        assert_calls!(s, "is_less": extern "C" fn(f64, f64) -> bool;
            (1.0, 2.0) => true, (2.0, 1.0) => false, (f64::NAN, 1.0) => false);
        assert_calls!(s, "not": extern "C" fn(bool) -> bool; (true) => false, (false) => true);
        assert_calls!(s, "from_bool": extern "C" fn(bool) -> i64; (true) => 3, (false) => 5);
        assert_calls!(s, "count": extern "C" fn(); () => (), () => ());
        assert_calls!(s, "counted": extern "C" fn() -> i32; () => 2);
    }
}

#[test]
fn arguments_that_do_not_fit_registers_lie_on_the_stack() {
    type Ten = extern "C" fn(i64, i32, i16, i8, u64, u32, u16, u8, i64, i32) -> i64;
    type Eleven = extern "C" fn(f64, f32, f64, f32, f64, f32, f64, f32, f64, f32, f64) -> f64;
    #[rustfmt::skip]
    type Many = extern "C" fn(
        i64, f64, i32, f32, u8, f64, i16, f64, i64, f32, bool, f64, i64, f64, i8, f64,
    ) -> f64;
    for s in sessions() {
        assert_calls!(s, "scale": extern "C" fn(i64, f64) -> f64; (-3, 0.5) => -1.5);
        let values = [-1, -2, -3, -4, 5, 6, 7, 8, -9, i64::from(i32::MIN)];
        let due = values.iter().fold(0, |sum, value| sum * 7 + value);
        let ten = s.function::<Ten>("ten_integers");
        assert_eq!(ten.call((-1, -2, -3, -4, 5, 6, 7, 8, -9, i32::MIN)).expect("a result"), due);

        let due = (1..=11).fold(0.0, |sum, value| sum * 2.0 + f64::from(value) / 2.0);
        let eleven = s.function::<Eleven>("eleven_floats");
        let sum = eleven.call((0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5));
        assert_eq!(sum.expect("a result"), due);

        #[rustfmt::skip]
        let values =
            [-7.0, 1.5, -2.0, 0.25, 200.0, -0.5, -300.0, 8.0, 9e9, 2.5, 1.0, 3.0, -4.0, 5.0, -6.0, 7.5];
        let due = values.iter().fold(0.0, |sum, value| sum * 3.0 + value);
        let many = s.function::<Many>("many");
        #[rustfmt::skip]
        let sum = many.call((-7, 1.5, -2, 0.25, 200, -0.5, -300, 8.0, 9_000_000_000, 2.5, true, 3.0, -4, 5.0, -6, 7.5));
        assert_eq!(sum.expect("a result"), due);

        assert_calls!(s, "stack_of_one": extern "C" fn(i64, i64, i64, i64, i64, i64, i64) -> i64;
            (1, 2, 3, 4, 5, 6, 7) => 0);
        assert_calls!(s, "stack_of_two": extern "C" fn(i64, i64, i64, i64, i64, i64, i64, i64) -> i64;
            (1, 2, 3, 4, 5, 6, 7, 8) => 0);
        assert_calls!(s, "sum_of": extern "C" fn(i32, f64, f64, f64) -> f64; (3, 0.5, 1.5, 2.0) => 4.0);
        assert_calls!(s, "sum_of": extern "C" fn(i32) -> f64; (0) => 0.0);
    }
}

#[test]
fn structures_are_passed_by_their_address() {
    for s in sessions() {
        let before = s.process.stats().calls;
        let mut point = s.process.buffer(24).expect("room");
        assert_eq!(point.bytes(), 4096);
        assert_eq!(point.read(0..4096), [0; 4096]);
        point.write(0, &7_i32.to_le_bytes());
        point.write(8, &(-2.0_f64).to_le_bytes());
        assert_eq!(s.process.stats().calls, before, "no message");
        let turn = s.function::<extern "C" fn(ExecutorAddr) -> ExecutorAddr>("turn");
        let name = turn.call((point.address(),)).expect("a result");
        assert_eq!(name.get(), point.address().get() + 16);
        assert_eq!(point.read(0..4), (-2_i32).to_le_bytes());
        assert_eq!(point.read(8..16), 7.0_f64.to_le_bytes());
        assert_eq!(point.read(16..23), *b"turned\0");
        let address = point.address();
        drop(point);
        let again = s.process.buffer(1).expect("room");
        assert_eq!(again.address(), address, "the same pages");
        assert_eq!(again.read(0..32), [0; 32]);
    }
}

#[test]
#[should_panic(expected = "5 bytes at 4092 of a buffer of 4096")]
fn a_value_that_does_not_fit_a_buffer_is_refused_here() {
    let launch = launch::builder();
    let process = launch.start().expect("an executor").process().expect("an executor");
    process.buffer(1).expect("room").write(4092, &[0; 5]);
}

#[test]
fn few_arguments_fit_the_line_and_a_crash_is_an_error() {
    let s = Session::start(corpus::PLAIN);
    let scale = s.function::<extern "C" fn(i64, f64) -> f64>("scale");
    scale.call((1, 1.0)).expect("a result");
    let before = s.process.stats();
    for number in 0..1000 {
        let due = number as f64 * 0.25;
        assert_eq!(scale.call((number, 0.25)).expect("a result"), due);
    }
    assert_eq!(s.process.stats().round_trips - before.round_trips, 1000);
    let nothing = s.process.function::<extern "C" fn()>(ExecutorAddr::NULL);
    assert!(nothing.call(()).expect_err("nothing is there").kind() == ErrorKind::Remote);
    let crash = s.function::<extern "C" fn(ExecutorAddr)>("crash");
    assert!(format!("{crash:?}").contains("at 0x"), "{crash:?}");
    let error = crash.call((ExecutorAddr::new(0xdad_beef),)).expect_err("it crashes");
    let death = error.death().expect("a death");
    assert_eq!((death.signal, death.fault_address), (Some(11), Some(0xdad_beef)));
    assert!(death.location.as_ref().is_some_and(|at| at.contains("crash+0x")), "{death}");
    assert!(scale.call((1, 1.0)).expect_err("it is dead").is_disconnected());
}

#[test]
fn a_death_has_the_linked_functions_that_had_not_returned() {
    let mut cases = 0;
    for s in sessions() {
        let crash = s.function::<extern "C" fn(ExecutorAddr) -> i32>("crash_below");
        let error = crash.call((ExecutorAddr::new(0xdad_beef),)).expect_err("it crashes");
        let death = error.death().expect("a death");
        let names: Vec<&str> =
            death.backtrace.iter().filter_map(|place| place.split('+').next()).collect();
        assert_eq!(names, ["crash", "crash_below"], "{:?}", death.backtrace);
        assert_eq!(death.location.as_ref(), death.backtrace.first());
        cases += 1;
    }
    println!("backtraces: {cases} cases");
}

#[test]
fn a_death_is_named_though_the_walk_over_its_stack_faults() {
    for _ in 0..50 {
        let s = Session::start(corpus::PLAIN);
        let error = s.function::<extern "C" fn()>("abort_lost").call(()).expect_err("it aborts");
        let death = error.death().expect("a death");
        assert_eq!(death.signal, Some(6), "{death}");
        let at = death.location.as_deref().unwrap_or_default();
        assert!(at.starts_with("a function called from abort_lost+0x"), "{death}");
    }
    println!("damaged stacks: 50 cases");
}
