//! Calls from many threads at once, in both directions, nested, timed out, and cut off.
//!
//! Invariant: what comes back is compared with what arithmetic says; no test depends on how long anything takes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use farcall::controller::calls::Bytes;
use farcall::controller::handler::HandlerTag;
use farcall::controller::{CallOptions, Executor, Library, OnDeadline, Process};
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr};

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::{threads, until};

/// An executor with the functions of `calls_back.c`.
pub(crate) struct Session {
    pub(crate) executor: Executor,
    pub(crate) process: Process,
    dylib: Library,
}

impl Session {
    pub(crate) fn start() -> Self {
        let executor = launch::executor();
        let process = executor.process().expect("a process");
        let dylib = executor.library("calls_back");
        let path = corpus::object("calls_back.c", PLAIN);
        let object = ObjectFile::parse("calls_back.o", std::fs::read(path).expect("a file"));
        dylib.add_object(&object.expect("an object")).expect("added");
        Self { executor, process, dylib }
    }

    pub(crate) fn function(&self, name: &str) -> ExecutorAddr {
        self.dylib.lookup(name).expect("defined")
    }

    pub(crate) fn call(&self, name: &str, numbers: &[u64]) -> farcall::Result<u64> {
        let function = self.dylib.lookup(name)?;
        self.process.call(function, &bytes(numbers)).map(|result| number(&result))
    }

    fn threads(&self) -> usize {
        threads(self.process.pid())
    }
}

pub(crate) fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

pub(crate) fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

/// A handler that doubles a number.
fn doubling(process: &Process) -> HandlerTag {
    process.register_handler(|args, result| {
        result.extend_from_slice(&(number(args) * 2).to_le_bytes());
        Ok(())
    })
}

/// The lane is its parent's, whose call goes on.
#[test]
fn a_forked_child_that_calls_the_controller_gets_an_error() {
    let session = Session::start();
    let tag = doubling(&session.process);
    for round in 1..4 {
        assert_eq!(session.call("forked", &[tag.get(), round]).expect("answered"), 2 * round);
    }
}

#[test]
fn handlers_get_bytes_and_answer_bytes_of_any_size() {
    let session = Session::start();
    let echo = session.process.register_handler(|args, result| {
        result.extend(args.iter().map(|byte| byte ^ 0x5a));
        Ok(())
    });
    let back = session.function("back");
    for size in [0, 1, 7, 8, 9, 39, 40, 41, 48, 49, 4096, 1 << 20, 5_000_001] {
        let payload: Vec<u8> = (0..size).map(|at: usize| at.to_le_bytes()[0]).collect();
        let args = [&echo.get().to_le_bytes()[..], &payload].concat();
        let expected: Vec<u8> = payload.iter().map(|byte| byte ^ 0x5a).collect();
        assert!(session.process.call(back, &args).expect("a result") == expected, "{size}");
    }
}

#[test]
fn handlers_that_fail_panic_or_are_gone_are_errors_of_the_call() {
    let session = Session::start();
    let process = &session.process;
    let fails = process.register_handler(|_, _| Err("not today".into()));
    let panics = process.register_handler(|args, _| panic!("{} bytes of nonsense", args.len()));
    let removed = doubling(process);
    process.remove_handler(removed);
    let cases = [
        (fails.get(), "not today"),
        (panics.get(), "0 bytes of nonsense"),
        (removed.get(), "no handler"),
        (u64::MAX, "no handler"),
    ];
    for (tag, words) in cases {
        let error = session.call("back", &[tag]).expect_err("refused");
        assert!(error.kind() == ErrorKind::Remote && error.to_string().contains(words), "{error}");
    }
    let tag = doubling(process);
    assert_eq!(session.call("back", &[tag.get(), 21]).expect("goes on"), 42);
}

/// The payload of a panic, which panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn the_payload_of_a_handlers_panic_may_panic_too() {
    let session = Session::start();
    let tag = session.process.register_handler(|_, _| std::panic::panic_any(Bomb));
    for _ in 0..3 {
        let error = session.call("back", &[tag.get()]).expect_err("a panic");
        assert!(
            error.kind() == ErrorKind::Remote && error.to_string().contains("the handler panicked"),
            "{error}"
        );
    }
    let tag = doubling(&session.process);
    assert_eq!(session.call("back", &[tag.get(), 21]).expect("goes on"), 42);
}

/// Handler and function call each other, a level deeper each time.
#[test]
fn calls_nest_in_both_directions() {
    const LEVELS: u64 = 60;
    let session = Arc::new(Session::start());
    let back = session.function("back");
    let weak = session.process.downgrade();
    let own_tag = Arc::new(AtomicU64::new(0));
    let tag = Arc::clone(&own_tag);
    let tag = session.process.register_handler(move |args, result| {
        let level = number(args);
        let below = match level {
            0 => 0,
            _ => {
                let process = weak.upgrade().ok_or("the session is over")?;
                let args = bytes(&[tag.load(Ordering::Relaxed), level - 1]);
                number(&process.call(back, &args).map_err(|error| error.to_string())?)
            }
        };
        result.extend_from_slice(&(below + level).to_le_bytes());
        Ok(())
    });
    own_tag.store(tag.get(), Ordering::Relaxed);
    for _ in 0..3 {
        let sum = session.call("back", &[tag.get(), LEVELS]).expect("a result");
        assert_eq!(sum, LEVELS * (LEVELS + 1) / 2);
    }
    // The first thread, the acceptor, the standby.
    assert!(session.threads() <= 3, "nested calls stay on their lane: {}", session.threads());
}

#[test]
fn threads_of_the_program_call_the_controller() {
    let session = Session::start();
    let tag = doubling(&session.process);
    for _ in 0..3 {
        let sum = session.call("on_threads", &[tag.get(), 8]).expect("a result");
        assert_eq!(sum, 8 * 2 * (0..100).sum::<u64>());
    }
}

#[test]
fn many_threads_call_both_ways_at_once() {
    const THREADS: u64 = 8;
    const CALLS: u64 = 2_000;
    let session = Session::start();
    let tag = doubling(&session.process).get();
    let (add, back) = (session.function("add"), session.function("back"));
    session.call("add", &[0, 0]).expect("links");
    let before = session.process.stats();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let process = &session.process;
            scope.spawn(move || {
                for call in 0..CALLS {
                    let value = thread * CALLS + call;
                    let sum = process.call(add, &bytes(&[value, 1])).expect("a sum");
                    assert_eq!(number(&sum), value + 1);
                    let double = process.call(back, &bytes(&[tag, value])).expect("a product");
                    assert_eq!(number(&double), 2 * value);
                }
            });
        }
    });
    let made = session.process.stats().calls - before.calls;
    assert_eq!(made, THREADS * CALLS * 2);
}

#[test]
fn a_call_that_blocks_stops_no_other() {
    let session = Session::start();
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|number| {
                let session = &session;
                scope.spawn(move || session.call("wait_at_gate", &[number]).expect("opened"))
            })
            .collect();
        assert_eq!(session.call("add", &[2, 3]).expect("a sum"), 5);
        session.call("set_gate", &[1]).expect("opens");
        for (number, waiter) in (0..).zip(waiters) {
            assert_eq!(waiter.join().expect("no panic"), number);
        }
    });
}

#[test]
fn lanes_are_used_again() {
    let session = Session::start();
    for number in 0..200 {
        // Joined, a thread has given its lane back.
        let called = thread::scope(|scope| {
            scope.spawn(|| session.call("add", &[number, 1]).expect("a sum")).join()
        });
        assert_eq!(called.expect("no panic"), number + 1);
    }
    // The first thread, the acceptor, one lane, the standby.
    assert!(session.threads() <= 4, "{} threads", session.threads());
    thread::scope(|scope| {
        for number in 0..40 {
            let session = &session;
            scope.spawn(move || session.call("wait_at_gate", &[number]));
        }
        until("all threads wait", || session.threads() >= 40);
        session.call("set_gate", &[1]).expect("opens");
    });
    until("what is not kept ends", || session.threads() <= 20);
    assert_eq!(session.call("add", &[1, 1]).expect("a sum"), 2);
}

#[test]
fn a_program_may_close_every_file_under_calls() {
    let session = Session::start();
    // The function is linked and each lane's file mapped before.
    let add = session.function("add");
    let sum =
        |number| session.process.call(add, &bytes(&[number, 1])).map(|sum| self::number(&sum));
    assert_eq!(session.call("close_files", &[7]).expect("a number"), 7);
    // The thread that opens lanes has its own table of descriptors: lanes are opened as before, for any number of threads.
    thread::scope(|scope| {
        let first = scope.spawn(|| (0..100).all(|turn| sum(turn).is_ok_and(|sum| sum == turn + 1)));
        assert!(first.join().expect("no panic"));
        assert_eq!(sum(1).expect("the first lane is still there"), 2);
    });
    let wait = session.function("wait_at_gate");
    thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| session.process.call(wait, &bytes(&[0])).map(drop)))
            .collect();
        until("each has a lane", || session.threads() >= 2 + 4);
        session.call("set_gate", &[1]).expect("opens");
        callers.into_iter().for_each(|caller| {
            caller.join().expect("no panic").expect("let through");
        });
    });
    assert_eq!(sum(5).expect("calls go on"), 6);
}

#[test]
fn a_call_times_out_and_its_late_result_is_dropped() {
    let session = Session::start();
    let process = &session.process;
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let tag = process.register_handler(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let slow = session.function("back_after_gate");
    let timeout = Duration::from_millis(20);
    for _ in 0..3 {
        let error = process.function::<Bytes>(slow).call_with(
            &CallOptions::new().timeout(timeout).on_deadline(OnDeadline::Abandon),
            &bytes(&[tag.get()]),
        );
        let error = error.expect_err("the gate is shut");
        assert!(error.kind() == ErrorKind::Timeout && !error.is_disconnected(), "{error:?}");
        assert_eq!(session.call("add", &[20, 1]).expect("goes on"), 21);
    }
    assert_eq!(process.stats().late, 0);
    session.call("set_gate", &[1]).expect("opens");
    until("late results are counted", || process.stats().late == 3);
    assert_eq!(calls.load(Ordering::Relaxed), 3, "what a late call calls is served");
    let add = session.function("add");
    let sum = process
        .function::<Bytes>(add)
        .call_with(&CallOptions::new().timeout(Duration::from_secs(60)), &bytes(&[4, 5]));
    assert_eq!(number(&sum.expect("in time")), 9);
    assert!(session.threads() <= 6, "{} threads", session.threads());
}

#[test]
fn a_call_from_a_handler_may_time_out() {
    let session = Session::start();
    let (add, wait) = (session.function("add"), session.function("wait_at_gate"));
    let weak = session.process.downgrade();
    let tag = session.process.register_handler(move |_, result| {
        let process = weak.upgrade().ok_or("the session is over")?;
        // Opens a lane, which a busy machine may not do within the next time-out; then the call would never run.
        process
            .function::<Bytes>(add)
            .call_with(&CallOptions::new().timeout(Duration::from_secs(60)), &bytes(&[1, 1]))?;
        let timed_out = process.function::<Bytes>(wait).call_with(
            &CallOptions::new().timeout(Duration::from_millis(50)).on_deadline(OnDeadline::Abandon),
            &bytes(&[1]),
        );
        let is_timeout = timed_out.is_err_and(|error| error.kind() == ErrorKind::Timeout);
        result.extend_from_slice(&u64::from(is_timeout).to_le_bytes());
        Ok(())
    });
    assert_eq!(session.call("back", &[tag.get()]).expect("a result"), 1);
    session.call("set_gate", &[1]).expect("opens");
    until("the late result is counted", || session.process.stats().late == 1);
}

#[test]
fn a_death_ends_the_calls_of_all_threads_with_its_name() {
    let session = Session::start();
    let add = session.function("add");
    thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| session.call("wait_at_gate", &[0]).expect_err("died")))
            .collect();
        until("all threads wait", || session.threads() >= 5);
        let error = session.call("die", &[]).expect_err("died");
        for error in
            waiters.into_iter().map(|waiter| waiter.join().expect("no panic")).chain([error])
        {
            let death = error.death().expect("a death");
            assert_eq!(death.signal, Some(6), "{error}");
        }
    });
    let late = thread::scope(|scope| {
        scope.spawn(|| session.process.call(add, &bytes(&[1, 1])).expect_err("too late")).join()
    });
    assert!(late.expect("no panic").is_disconnected());
}

/// A constructor is an action that is posted ahead of the next call; whichever thread makes that.
#[test]
fn code_linked_on_one_thread_is_ready_on_every_other() {
    let session = Session::start();
    let path = corpus::object("resolved_once.c", PLAIN);
    let object = ObjectFile::parse("resolved_once.o", std::fs::read(path).expect("a file"));
    let object = object.expect("an object");
    thread::scope(|scope| {
        let (sender, receivers): (Vec<_>, Vec<_>) =
            (0..3).map(|_| std::sync::mpsc::channel::<ExecutorAddr>()).unzip();
        for receiver in receivers {
            let process = &session.process;
            scope.spawn(move || {
                for function in receiver {
                    let result = process.call(function, &[]).expect("a result");
                    assert_eq!(number(&result), 7);
                }
            });
        }
        for _ in 0..100 {
            let dylib = session.executor.library("d");
            dylib.add_object(&object).expect("added");
            let function = dylib.lookup("answer").expect("defined");
            for sender in &sender {
                sender.send(function).expect("somebody calls");
            }
            std::mem::forget(dylib);
        }
    });
}

/// Neither a thread that has called it nor that thread's lane keeps it.
#[test]
fn an_idle_handler_is_dropped_at_its_removal() {
    let session = Session::start();
    let (held, drops) = mpsc::sync_channel::<()>(0);
    let tag = session.process.register_handler(move |args, result| {
        let _held = &held;
        result.extend_from_slice(args);
        Ok(())
    });
    let (called, is_called) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let session = &session;
        scope.spawn(move || {
            called.send(session.call("back", &[tag.get(), 5])).expect("somebody waits");
            let _ = is_done.recv();
        });
        assert_eq!(is_called.recv().expect("a call").expect("a result"), 5);
        // Its threads have lanes of their own, which threads of the controller's serve.
        assert_eq!(session.call("on_threads", &[tag.get(), 2]).expect("a result"), 2 * 4950);
        assert_eq!(drops.try_recv(), Err(mpsc::TryRecvError::Empty));
        session.process.remove_handler(tag);
        assert_eq!(drops.try_recv(), Err(mpsc::TryRecvError::Disconnected));
        let error = session.call("back", &[tag.get(), 7]).expect_err("it is gone");
        assert!(error.to_string().contains("no handler"), "{error}");
        drop(done);
    });
}

#[test]
fn a_running_handler_is_dropped_after_its_last_call() {
    let session = Session::start();
    let (enter, is_entered) = mpsc::sync_channel::<()>(0);
    let (leave, may_leave) = mpsc::channel::<()>();
    let may_leave = Mutex::new(may_leave);
    let tag = session.process.register_handler(move |args, result| {
        enter.send(()).map_err(|error| error.to_string())?;
        let may_leave = may_leave.lock().map_err(|error| error.to_string())?;
        may_leave.recv().map_err(|error| error.to_string())?;
        result.extend_from_slice(args);
        Ok(())
    });
    thread::scope(|scope| {
        let caller = scope.spawn(|| session.call("back", &[tag.get(), 5]));
        is_entered.recv().expect("it runs");
        session.process.remove_handler(tag);
        let error = session.call("back", &[tag.get(), 6]).expect_err("refused");
        assert!(error.to_string().contains("no handler"), "{error}");
        assert_eq!(is_entered.try_recv(), Err(mpsc::TryRecvError::Empty));
        leave.send(()).expect("it runs");
        assert_eq!(caller.join().expect("no panic").expect("a result"), 5);
        assert_eq!(is_entered.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    });
}
