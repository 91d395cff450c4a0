//! Pools: several supervised executors with the same contents.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use farcall::controller::region::{Access, Region, RegionHeap};
use farcall::controller::{CallOptions, Executor, Library, OnDeadline, Process, RestartPolicy};
use farcall::limits::PROCESSES_MAX;
use farcall::{Error, ErrorKind, ExecutorAddr};

use super::{KINDS, is_death, object};
use crate::testkit::launch;
use crate::testkit::process::until;

const EXECUTORS: usize = 3;

fn start(policy: RestartPolicy) -> (Executor, Library) {
    let pool = launch::builder().processes(EXECUTORS).restart(policy).start().expect("executors");
    let dylib = pool.library("supervised");
    dylib.define_handler("rate", |amount: f64| amount / 4.0).expect("defined");
    dylib.add_object(&object()).expect("added");
    (pool, dylib)
}

fn pids(pool: &Executor) -> Vec<i32> {
    let pid = |number| {
        let one = pool.on(number).expect("there is one");
        one.process().expect("alive").pid()
    };
    (0..pool.processes()).map(pid).collect()
}

#[test]
fn each_executor_has_all_that_was_added_once() {
    let (pool, dylib) = start(RestartPolicy::new());
    let heap = RegionHeap::new(Region::new(4096, Access::ReadWrite).expect("a region"));
    pool.attach(heap.clone()).expect("attached");
    let numbers = heap.copy(&[1_i64, 2, 39]).expect("room");
    let established = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&established);
    pool.establish(move |_: &Process| {
        count.fetch_add(1, Relaxed);
        Ok(())
    })
    .expect("established");
    let with_rate = dylib.function::<extern "C" fn(f64) -> f64>("with_rate");
    let sum = dylib.function::<extern "C" fn(ExecutorAddr, i64) -> i64>("sum");
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    for round in 1..=2 {
        for number in 0..EXECUTORS {
            let (with_rate, sum) = (with_rate.on(number), sum.on(number));
            let (with_rate, sum) = (with_rate.expect("there"), sum.expect("there"));
            assert_eq!(with_rate.call((2.0,)).expect("the handler answers"), 2.5);
            assert_eq!(sum.call((numbers.address(), 3)).expect("the region is there"), 42);
        }
        assert_eq!(established.load(Relaxed), round * EXECUTORS as u64);
        assert_eq!(HashSet::<i32>::from_iter(pids(&pool)).len(), EXECUTORS);
        for number in 0..EXECUTORS {
            let here = crash.on(number).expect("there");
            assert!(here.call((0,)).expect_err("a crash").death().is_some());
        }
    }
    assert!(crash.on(EXECUTORS).is_none() && pool.on(EXECUTORS).is_none());
    dylib.clear().expect("cleared");
    assert_eq!(crash.call((11,)).expect_err("gone").kind(), ErrorKind::SymbolsNotFound);
}

/// More threads than executors call, and one call in ten crashes. No call gets a death but those that crash.
#[test]
fn a_crash_costs_one_call() {
    const CRASHES: u64 = 120;
    let (pool, dylib) = start(RestartPolicy::new());
    let (deaths, crashed, answered) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    pool.on_death(move |_| _ = count.fetch_add(1, Relaxed)).expect("added");
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    thread::scope(|scope| {
        for number in 0..8 {
            let crash = crash.clone();
            let (deaths, crashed, answered) = (&deaths, &crashed, &answered);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                while crashed.load(Relaxed) < CRASHES {
                    let kind = if random.u64(..10) == 0 {
                        random.i64(0..KINDS)
                    } else {
                        random.i64(KINDS..1 << 40)
                    };
                    match crash.call((kind,)) {
                        Ok(answer) => {
                            assert_eq!(answer, kind);
                            answered.fetch_add(1, Relaxed);
                        }
                        Err(error) => {
                            assert!(kind < KINDS, "a call of {kind} got another's death: {error}");
                            assert!(is_death(&error), "{kind}: {error}");
                            deaths.fetch_add(1, Relaxed);
                            crashed.fetch_add(1, Relaxed);
                        }
                    }
                }
            });
        }
    });
    let (deaths, answered) = (deaths.load(Relaxed), answered.load(Relaxed));
    println!("pool: {} cases, {deaths} of them crashes", deaths + answered);
    assert!(deaths >= CRASHES && answered > 0);
    pids(&pool);
    assert_eq!(told.load(Relaxed), deaths, "each death is told once");
}

#[test]
fn calls_wait_for_a_free_executor_in_turn() {
    let (pool, dylib) = start(RestartPolicy::new().kill_on_timeout());
    let spin = dylib.function::<extern "C" fn()>("spin");
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    let long = Duration::from_secs(2);
    thread::scope(|scope| {
        let spin = || {
            spin.call_with(&CallOptions::new().timeout(long).on_deadline(OnDeadline::Abandon), ())
                .expect_err("it spins")
                .kind()
        };
        let spins: Vec<_> = (0..EXECUTORS).map(|_| scope.spawn(spin)).collect();
        // Until all of them spin, one is free.
        until("none is free", || {
            crash.call_with(&CallOptions::new().timeout(long / 20), (11,)).is_err_and(|error| {
                error.kind() == ErrorKind::Timeout && error.to_string().contains("free")
            })
        });
        let here = crash.on(0).expect("there is one");
        assert_eq!(here.call((11,)).expect("it does not wait"), 11);
        assert_eq!(crash.call((12,)).expect("behind a time-out"), 12);
        assert!(spins.into_iter().all(|spin| spin.join().expect("no panic") == ErrorKind::Timeout));
    });
    let spun = pool.processes();
    assert_eq!(spun, EXECUTORS);
}

#[test]
fn a_handler_calls_the_executor_that_called_it() {
    let pool =
        launch::builder().processes(1).restart(RestartPolicy::new()).start().expect("an executor");
    let dylib = pool.library("supervised");
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    let weak = Arc::new(Mutex::new(Some(crash)));
    let of_handler = Arc::clone(&weak);
    let rate = move |amount: f64| -> Result<f64, Error> {
        let crash = of_handler.lock().expect("no panic").clone().expect("set");
        Ok(crash.call((40,))? as f64 + amount)
    };
    dylib.define_handler("rate", rate).expect("defined");
    dylib.add_object(&object()).expect("added");
    let with_rate = dylib.function::<extern "C" fn(f64) -> f64>("with_rate");
    assert_eq!(with_rate.call((1.0,)).expect("the one executor is taken"), 42.0);
    // The handler would keep the pool.
    weak.lock().expect("no panic").take();
}

#[test]
fn an_executor_that_may_not_start_again_is_left_out() {
    let (pool, dylib) = start(RestartPolicy::new().at_most(0, Duration::from_secs(60)));
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    for left in (1..=EXECUTORS).rev() {
        assert_eq!(crash.call((11,)).expect("others live"), 11, "{left}");
        assert!(crash.call((0,)).expect_err("a crash").death().is_some());
    }
    for _ in 0..EXECUTORS + 2 {
        let error = crash.call((11,)).expect_err("none is left");
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    }
    drop(pool);
}

#[test]
fn an_executor_has_one_process_to_256() {
    for processes in [0, PROCESSES_MAX + 1, usize::MAX] {
        let refused = launch::builder().processes(processes).restart(RestartPolicy::new()).start();
        let error = refused.expect_err("it has no such number");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let words = format!("an executor of {processes} processes: it has 1 to 256");
        assert!(error.to_string().starts_with(&words), "{error}");
    }
    // The number is right, and the empty name is refused.
    let error = launch::builder().processes(PROCESSES_MAX).publish("").start();
    let error = error.expect_err("no name").to_string();
    assert!(!error.contains("processes"), "{error}");
}

#[test]
fn objects_added_among_crashes_are_in_each_executor() {
    let (pool, dylib) = start(RestartPolicy::new());
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    let done = AtomicU64::new(0);
    let others: Vec<Library> = thread::scope(|scope| {
        for seed in 0..2 {
            let (crash, done) = (crash.clone(), &done);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while done.load(Relaxed) == 0 {
                    let _ = crash.call((random.i64(0..KINDS * 4),));
                }
            });
        }
        let add = |number| {
            let other = pool.library(format!("other {number}"));
            let add = || -> farcall::Result<()> {
                other.define_handler("rate", move |amount: f64| amount + f64::from(number))?;
                other.add_object(&object())
            };
            while let Err(error) = add() {
                // The first executor has died meanwhile.
                assert!(is_death(&error), "{error}");
                other
                    .clear()
                    .or_else(|error| if is_death(&error) { Ok(()) } else { Err(error) })
                    .expect("cleared");
            }
            other
        };
        let others = (0..20).map(add).collect();
        done.store(1, Relaxed);
        others
    });
    for (number, other) in (0_i32..).zip(&others) {
        let with_rate = other.function::<extern "C" fn(f64) -> f64>("with_rate");
        for executor in 0..EXECUTORS {
            let here = with_rate.on(executor).expect("there is one");
            let result = here.call((2.0,)).or_else(|_| here.call((2.0,)));
            assert_eq!(result.expect("it was added"), 4.0 + f64::from(number), "{executor}");
        }
    }
    println!("pool: {} cases", others.len() * EXECUTORS);
}
