//! Deeds that callers and handlers may do, and threads that leave (D10, D17).
#![allow(unsafe_code, reason = "handles a signal")]

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use farcall::controller::Process;
use farcall::{ExecutorAddr, Result};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::gettid;

use crate::apart::{Apart, within};
use crate::session::{Session, bytes};

const BOUND: Duration = Duration::from_secs(10);

#[test]
fn d10_calls_that_nest_without_end_are_an_error() {
    Apart::within(40).run(|| {
        let session = Session::start("ends");
        let back = session.function("back");
        let weak = session.process.downgrade();
        let own_tag = Arc::new(AtomicU64::new(0));
        let tag = Arc::clone(&own_tag);
        let depth = Arc::new(AtomicU64::new(0));
        let deepest = Arc::clone(&depth);
        let tag = session.process.register_handler(move |args, _| {
            depth.fetch_add(1, Ordering::Relaxed);
            let process = weak.upgrade().ok_or("the session is over")?;
            let args = [&tag.load(Ordering::Relaxed).to_le_bytes()[..], args].concat();
            Ok(process.call(back, &args).map(drop)?)
        });
        own_tag.store(tag.get(), Ordering::Relaxed);
        let caller = Arc::clone(&session);
        let outcome = within(BOUND, "the call", move || caller.call("back", &[tag.get(), 0]));
        let error = outcome.expect_err("it has no end");
        println!("attack: {} levels deep: {error}", deepest.load(Ordering::Relaxed));
        drop(session);
        assert_eq!(Session::start("ends").call("add", &[2, 3]).expect("a sum"), 5);
    });
}

/// The function that the handler of the signal calls, and its result.
static CALLED: OnceLock<(Process, ExecutorAddr)> = OnceLock::new();
static OUTCOME: Mutex<Option<std::result::Result<Result<Vec<u8>>, String>>> = Mutex::new(None);

extern "C" fn calls(_signal: i32) {
    let (process, add) = CALLED.get().expect("it was set before");
    let call = || process.call(*add, &bytes(&[4, 5]));
    let outcome = catch_unwind(AssertUnwindSafe(call));
    let outcome = outcome.map_err(|payload| match payload.downcast_ref::<String>() {
        Some(text) => text.clone(),
        None => payload.downcast_ref::<&str>().copied().unwrap_or("?").to_owned(),
    });
    *OUTCOME.lock().expect("nobody else holds it") = Some(outcome);
}

#[test]
fn d17_a_call_from_a_signal_handler_is_an_error_or_a_result() {
    Apart::within(30).run(|| {
        let session = Session::start("ends");
        let add = session.function("add");
        CALLED.set((session.process.clone(), add)).expect("set once");
        let handler = SigHandler::Handler(calls);
        let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
        // SAFETY: the handler runs only while this test waits for a call, when no lock is held that it takes.
        unsafe { sigaction(Signal::SIGUSR1, &action) }.expect("a handler");
        let caller = Arc::clone(&session);
        let outcome = within(BOUND, "the call", move || {
            let thread = u64::try_from(gettid().as_raw()).expect("a number");
            let args = [u64::from(std::process::id()), thread, Signal::SIGUSR1 as u64];
            caller.call("signal_caller", &args)
        });
        let inner = OUTCOME.lock().expect("no panic").take().expect("the signal came");
        println!("attack: the call: {outcome:?}; that of the handler: {inner:?}");
        assert!(inner.is_ok(), "panic: {inner:?}");
        assert_eq!(outcome.expect("it goes on"), 1);
        assert_eq!(session.call("add", &[2, 3]).expect("it goes on"), 5);
    });
}

/// A value that panics once more when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("a payload that panics");
        }
    }
}

#[test]
fn d17_a_panic_whose_payload_panics_is_an_error() {
    Apart::within(30).run(|| {
        let session = Session::start("ends");
        let tag = session.process.register_handler(|_, _| panic_any(Bomb));
        let caller = Arc::clone(&session);
        let outcome = within(BOUND, "the call", move || {
            let call = || caller.call("back", &[tag.get(), 0]);
            // The payload of what gets here must not be dropped.
            catch_unwind(AssertUnwindSafe(call)).map_err(std::mem::forget)
        });
        println!("attack: {outcome:?}");
        outcome.expect("the panic went through the call").expect_err("the handler failed");
        assert_eq!(session.call("add", &[2, 3]).expect("it goes on"), 5);
    });
}

#[test]
fn d17_a_file_without_end_is_refused() {
    Apart::within(30).run(|| {
        // As much as can be read in that time is little.
        let start = Instant::now();
        let run =
            format!("ulimit -v 16000000; exec {} run /dev/zero", env!("CARGO_BIN_EXE_farcall"));
        let ended = within(BOUND, "farcall run /dev/zero", move || {
            Command::new("timeout").args(["-s", "KILL", "5", "sh", "-c", &run]).output()
        });
        let ended = ended.expect("a command");
        let complaint = String::from_utf8_lossy(&ended.stderr).into_owned();
        println!("attack: {:?}: {}: {}", start.elapsed(), ended.status, complaint.trim());
        assert!(ended.status.code().is_some_and(|code| code > 0 && code < 128), "{complaint}");
        assert!(!complaint.is_empty() && !complaint.contains("panicked"), "{complaint}");
    });
}

#[test]
fn d17_a_thread_that_leaves_ends_the_call_that_it_ran() {
    Apart::within(30).run(|| {
        let session = Session::start("ends");
        let leave = session.function("leave_thread");
        assert_eq!(session.call("add", &[2, 3]).expect("a sum"), 5);
        let caller = Arc::clone(&session);
        let start = Instant::now();
        let outcome = within(BOUND, "the call", move || caller.process.call(leave, &[]));
        println!("attack: after {:?}: {outcome:?}", start.elapsed());
        outcome.expect_err("the thread is gone");
        assert_eq!(session.call("add", &[2, 3]).expect("the first lane goes on"), 5);
        // The process goes on without its first thread, too.
        let start = Instant::now();
        let outcome = session.process.call(leave, &[]);
        println!("attack: after {:?}: {outcome:?}", start.elapsed());
        outcome.expect_err("the first thread is gone");
        assert_eq!(session.call("add", &[2, 3]).expect("another lane"), 5);
    });
}
