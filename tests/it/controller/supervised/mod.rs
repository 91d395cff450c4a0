//! Executor sessions: what the host has put into an executor is there again in the next one.

mod many;
mod pool;
mod redirectable;
mod submitted;
mod watched;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use farcall::controller::region::{Access, Region, RegionHeap};
use farcall::controller::{CallOptions, Executor, Function, Library, OnDeadline, RestartPolicy};
use farcall::link::ObjectFile;
use farcall::{Error, ErrorKind, ExecutorAddr};

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::held::Held;
use crate::testkit::launch;
use crate::testkit::process::until;
use crate::testkit::processor::TRAP;

const KINDS: i64 = 10;

/// A supervised session with `supervised.c`, and a handler.
struct Session {
    supervised: Executor,
    dylib: Library,
    crash: Function<extern "C" fn(i64) -> i64>,
}

impl Session {
    fn start(policy: RestartPolicy) -> Self {
        let supervised = launch::builder().restart(policy).start().expect("an executor");
        let dylib = supervised.library("supervised");
        dylib.define_handler("rate", |amount: f64| amount / 4.0).expect("defined");
        dylib.add_object(&object()).expect("added");
        let crash = dylib.function("crash");
        Self { supervised, dylib, crash }
    }
}

fn object() -> ObjectFile {
    let bytes = std::fs::read(corpus::object("supervised.c", PLAIN)).expect("just compiled");
    ObjectFile::parse("supervised.o", bytes).expect("an object")
}

#[test]
fn handles_stay_valid_after_a_crash() {
    let session = Session::start(RestartPolicy::new());
    let heap = RegionHeap::new(Region::new(4096, Access::ReadWrite).expect("a region"));
    session.supervised.attach(heap.clone()).expect("attached");
    let numbers = heap.copy(&[1_i64, 2, 39]).expect("room");
    let count = session.dylib.function::<extern "C" fn() -> i64>("count_calls");
    let with_rate = session.dylib.function::<extern "C" fn(f64) -> f64>("with_rate");
    let sum = session.dylib.function::<extern "C" fn(ExecutorAddr, i64) -> i64>("sum");
    let signature = "long sum(const long *, long)".parse().expect("a prototype");
    let by_values = session.dylib.function_with("sum", &signature).expect("placed");
    for kind in 0..KINDS {
        for calls in 1..=2 {
            assert_eq!(count.call(()).expect("it counts"), calls, "variables begin anew: {kind}");
        }
        assert_eq!(with_rate.call((2.0,)).expect("the handler answers"), 2.5);
        assert_eq!(sum.call((numbers.address(), 3)).expect("the region is there"), 42);
        let values = [numbers.address().into(), 3_i64.into()];
        assert_eq!(by_values.call(&values).expect("it sums"), 42_i64.into());
        assert_eq!(sum.submit((numbers.address(), 2)).and_then(|sum| sum.wait()).expect("3"), 3);
        let two = count.batch([(), ()]).expect("submitted").collect::<farcall::Result<Vec<_>>>();
        assert_eq!(two.expect("both count"), [3, 4]);
        let error = session.crash.call((kind,)).expect_err("a crash");
        assert!(error.death().is_some(), "{kind}: {error}");
    }
    assert_eq!(session.crash.call((KINDS,)).expect("no crash"), KINDS);
}

/// Calls from eight threads, of which one in `one_in` crashes. Each call must end once, with its answer or with a death.
fn crash_among_eight_threads(session: &Session, crashes: u64, one_in: u64) {
    let (crashed, answered) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for number in 0..8 {
            let crash = session.crash.clone();
            let (crashed, answered) = (&crashed, &answered);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(number);
                while crashed.load(Relaxed) < crashes {
                    let kind = if random.u64(..one_in) == 0 {
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
                            assert!(is_death(&error), "{kind}: {error}");
                            crashed.fetch_add(u64::from(kind < KINDS), Relaxed);
                        }
                    }
                }
            });
        }
    });
    assert!(answered.load(Relaxed) > 0);
    assert_eq!(session.crash.call((77,)).expect("the next executor"), 77);
}

/// True for a call that has ended with its executor, of whichever death.
fn is_death(error: &Error) -> bool {
    error.death().is_some() || error.is_disconnected()
}

#[test]
fn each_call_of_eight_threads_ends_once() {
    crash_among_eight_threads(&Session::start(RestartPolicy::new()), 100, 20);
}

#[test]
#[ignore = "takes minutes"]
fn soak_crashes_leave_nothing_in_the_host() {
    let of_host = || Held::of(std::process::id().cast_signed());
    let session = Session::start(RestartPolicy::new());
    crash_among_eight_threads(&session, 500, 10);
    let before = of_host();
    let begun = Instant::now();
    crash_among_eight_threads(&session, 10_000, 10);
    // The threads of the last executors' sessions may be ending.
    until("their threads have ended", || of_host().threads <= before.threads + 8);
    let after = of_host();
    println!(
        "soak: 10500 crashes, the last 10000 in {:?}: {before:?}, then {after:?}",
        begun.elapsed()
    );
    assert!(after.descriptors() <= before.descriptors() + 16, "{before:?}, {after:?}");
    assert!(after.resident_bytes <= before.resident_bytes + (8 << 20), "{before:?}, {after:?}");
}

#[test]
fn code_that_fills_an_executor_runs_again_after_a_notice() {
    let session = Session::start(RestartPolicy::new());
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (of_deaths, of_starts) = (Arc::clone(&order), Arc::clone(&order));
    session
        .supervised
        .on_death(move |death| {
            let signal = death.death().and_then(|death| death.signal);
            of_deaths.lock().expect("no panic").push(format!("died by {signal:?}"));
        })
        .expect("added");
    let establish = move |process: &farcall::controller::Process| {
        assert!(process.process_info().is_ok());
        of_starts.lock().expect("no panic").push("filled".to_owned());
        Ok(())
    };
    session.supervised.establish(establish).expect("it is alive");
    assert!(session.crash.call((1,)).is_err());
    assert_eq!(*order.lock().expect("no panic"), ["filled"], "by the next call, not before");
    assert_eq!(session.crash.call((11,)).expect("the next executor"), 11);
    let died = format!("died by {:?}", Some(TRAP as i32));
    assert_eq!(*order.lock().expect("no panic"), ["filled", &died, "filled"]);
}

#[test]
fn the_session_in_what_fills_its_executor_is_an_error() {
    let session = Session::start(RestartPolicy::new());
    let (supervised, crash) = (session.supervised.clone(), session.crash.clone());
    let is_first = AtomicU64::new(0);
    let used = move |_: &farcall::controller::Process| {
        if is_first.fetch_add(1, Relaxed) == 0 {
            return Ok(());
        }
        supervised.process()?;
        crash.call((11,)).map(drop)
    };
    session.supervised.establish(used).expect("it is alive");
    assert!(session.crash.call((1,)).is_err());
    let error = session.crash.call((11,)).expect_err("it would wait for itself");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn an_object_that_ends_each_executor_is_not_added() {
    let session = Session::start(RestartPolicy::new());
    let killed = session.supervised.establish(|process| {
        process.kill();
        process.process_info().map(drop)
    });
    assert!(killed.expect_err("it died").death().is_some());
    assert_eq!(session.crash.call((11,)).expect("the next executor, without that"), 11);
}

#[test]
fn failed_and_cleared_contents_are_not_remembered() {
    let session = Session::start(RestartPolicy::new());
    let count = session.dylib.function::<extern "C" fn() -> i64>("count_calls");
    assert_eq!(count.call(()).expect("linked"), 1);
    assert!(session.dylib.add_object(&object()).is_err(), "its names are defined");
    let failing = session.supervised.establish(|_| Err(Error::other("not now")));
    assert!(failing.expect_err("it fails").to_string().contains("not now"));
    let other = session.supervised.library("other");
    other.define_handler("rate", |amount: f64| amount).expect("defined");
    other.add_object(&object()).expect("added");
    assert!(session.crash.call((0,)).is_err());
    assert_eq!(count.call(()).expect("the next executor"), 1);
    let other_count = other.function::<extern "C" fn() -> i64>("count_calls");
    assert_eq!(other_count.call(()).expect("linked"), 1);
    other.clear().expect("cleared");
    assert!(session.crash.call((0,)).is_err());
    let error = other_count.call(()).expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::SymbolsNotFound, "{error}");
    // Objects that are added while the executor is dead go to the next one.
    assert!(session.crash.call((0,)).is_err());
    other.define_handler("rate", |amount: f64| amount).expect("defined");
    other.add_object(&object()).expect("added");
    assert_eq!(other_count.call(()).expect("linked"), 1);
}

#[test]
fn a_policy_pauses_stops_and_kills() {
    let minute = Duration::from_secs(60);
    let session = Session::start(RestartPolicy::new().at_most(3, minute));
    for _ in 0..4 {
        assert_eq!(session.crash.call((11,)).expect("an executor"), 11);
        assert!(session.crash.call((0,)).is_err());
    }
    for _ in 0..2 {
        let error = session.crash.call((11,)).expect_err("no fifth executor");
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
        assert!(error.to_string().contains("SIGSEGV"), "the last death: {error}");
    }

    let pause = Duration::from_secs(2);
    let session = Session::start(RestartPolicy::new().back_off(pause, minute));
    // The pause begins with the death, which this thread may learn of later.
    let alive = Instant::now();
    assert!(session.crash.call((0,)).is_err());
    let error = session
        .crash
        .call_with(&CallOptions::new().timeout(pause / 100), (11,))
        .expect_err("it pauses");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(session.crash.call((11,)).expect("behind the pause"), 11);
    assert!(alive.elapsed() >= pause, "{:?}", alive.elapsed());

    let session = Session::start(RestartPolicy::new().kill_on_timeout());
    let spin = session.dylib.function::<extern "C" fn()>("spin");
    let before = session.supervised.process().expect("alive").pid();
    let error = spin
        .call_with(
            &CallOptions::new().timeout(Duration::from_millis(50)).on_deadline(OnDeadline::Abandon),
            (),
        )
        .expect_err("it spins");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert_eq!(session.crash.call((11,)).expect("the next executor, at once"), 11);
    assert_ne!(session.supervised.process().expect("alive").pid(), before);
}

/// The processes whose environment has this entry.
fn processes_with(entry: &str) -> Vec<i32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let pid = |process: std::fs::DirEntry| {
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        let has_it = environment.split(|byte| *byte == 0).any(|one| one == entry.as_bytes());
        has_it.then(|| process.file_name().to_str()?.parse().ok()).flatten()
    };
    all.filter_map(pid).collect()
}

#[test]
fn the_next_process_stands_by() {
    let (name, value) = ("FARCALL_TEST_STANDBY", format!("of {}", std::process::id()));
    let entry = format!("{name}={value}");
    let count = || processes_with(&entry).len();
    let builder = launch::builder().env(name, value);
    let supervised = builder.restart(RestartPolicy::new().standby()).start().expect("an executor");
    let dylib = supervised.library("supervised");
    dylib.define_handler("rate", |amount: f64| amount / 4.0).expect("defined");
    dylib.add_object(&object()).expect("added");
    let crash = dylib.function::<extern "C" fn(i64) -> i64>("crash");
    let mut cases = 0;
    // A death is told before its process is gone.
    let mut dead = Vec::new();
    for kind in 0..KINDS {
        assert_eq!(crash.call((11,)).expect("alive"), 11);
        let present = supervised.process().expect("alive").pid();
        dead.push(present);
        let other = || processes_with(&entry).into_iter().find(|pid| !dead.contains(pid));
        until("the next process has started", || other().is_some());
        let standby = other().expect("it stands by");
        assert!(crash.call((kind,)).expect_err("a crash").death().is_some());
        if kind % 3 == 2 {
            // It is not needed for the start to succeed.
            let killed = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(standby),
                nix::sys::signal::Signal::SIGKILL,
            );
            killed.expect("it runs");
            until("it has ended", || !processes_with(&entry).contains(&standby));
        }
        assert_eq!(crash.call((11,)).expect("the next executor"), 11);
        let next = supervised.process().expect("alive").pid();
        assert_eq!(next == standby, kind % 3 != 2, "{kind}: {next}");
        cases += 1;
    }
    drop((crash, dylib, supervised));
    until("no process is left", || count() == 0);
    println!("standby: {cases} cases");
}
