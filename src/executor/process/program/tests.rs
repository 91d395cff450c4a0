//! `CallSPSCITest` of LLVM's runtime: functions of this process, called as by message.
#![allow(unsafe_code, reason = "has a main that is called with pointers")]

use std::cell::RefCell;
use std::ffi::CStr;

use super::*;
use crate::executor::session::connected;
use crate::sps;

thread_local! {
    /// The arguments that functions of this thread were called with.
    static CALLS: RefCell<Vec<Vec<Vec<u8>>>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn nothing() {
    CALLS.with_borrow_mut(|calls| calls.push(Vec::new()));
}

/// A `main` that returns the number of its arguments, less one.
unsafe extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    let count = usize::try_from(argc).expect("a count");
    // SAFETY: there are this many strings and a null.
    let pointers = unsafe { std::slice::from_raw_parts(argv, count + 1) };
    assert!(pointers[count].is_null());
    // SAFETY: each one is a string.
    let text = |pointer: &*const c_char| unsafe { CStr::from_ptr(*pointer) }.to_bytes().to_vec();
    CALLS.with_borrow_mut(|calls| calls.push(pointers[..count].iter().map(text).collect()));
    argc - 1
}

fn call_main_with(args: &[&str]) -> i64 {
    let function = ExecutorAddr::new((main as *const ()).expose_provenance() as u64);
    let bytes = sps::to_bytes(&(function, args));
    RunAsMain::serve(sps::from_bytes(&bytes).expect("decodes")).expect("a status")
}

#[test]
fn registration() {
    let offered = connected::functions();
    for name in ["orc_rt_ci_sps_call_void_void", "orc_rt_ci_sps_call_main"] {
        assert!(
            offered.iter().any(|(other, address)| other == name && !address.is_null()),
            "{name}"
        );
    }
}

#[test]
fn call_void_void() {
    let function = ExecutorAddr::new((nothing as *const ()).expose_provenance() as u64);
    CallVoidVoid::serve((function,)).expect("nothing");
    assert_eq!(CALLS.take(), [[[0_u8; 0]; 0]]);
}

#[test]
fn call_main() {
    assert_eq!(call_main_with(&["program", "-v", ""]), 2);
    assert_eq!(CALLS.take(), [[&b"program"[..], b"-v", b""]]);
}

#[test]
fn call_main_empty_argv() {
    assert_eq!(call_main_with(&[]), -1, "the caller gives argv[0]");
    assert_eq!(CALLS.take(), [[[0_u8; 0]; 0]]);
}

thread_local! {
    /// Where the arguments of the calls of `swap` were.
    static PLACES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// A `main` that swaps its last two arguments, if it has three. With two it is called again meanwhile.
unsafe extern "C" fn swap(argc: c_int, argv: *mut *const c_char) -> c_int {
    PLACES.with_borrow_mut(|places| places.push(argv.addr()));
    match argc {
        3 => {
            // SAFETY: there are three arguments and a null.
            let pointers = unsafe { std::slice::from_raw_parts_mut(argv, 4) };
            pointers.swap(1, 2);
        }
        2 if PLACES.with_borrow(Vec::len) == 1 => call_swap_with(&["swap", "nested"]),
        _ => {}
    }
    0
}

fn call_swap_with(args: &[&str]) {
    let function = ExecutorAddr::new((swap as *const ()).expose_provenance() as u64);
    let bytes = sps::to_bytes(&(function, args));
    RunAsMain::serve(sps::from_bytes(&bytes).expect("decodes")).expect("a status");
}

#[test]
fn a_program_that_runs_again_takes_no_other_memory() {
    (0..100).for_each(|_| call_swap_with(&["swap"]));
    let places = PLACES.take();
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    call_swap_with(&["swap", "a", "b"]);
    call_swap_with(&["swap", "a", "b"]);
    let places = PLACES.take();
    assert_ne!(places[0], places[1], "it has changed its arguments");
    call_swap_with(&["swap", "nested"]);
    let places = PLACES.take();
    assert_ne!(places[0], places[1], "both run");
}
