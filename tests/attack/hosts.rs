//! Hosts that live under limits, collect or ignore what they start, block signals, or fork, run sessions or are told why they cannot.

use std::thread;
use std::time::Duration;

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::wait::{WaitPidFlag, waitpid};

use crate::apart::{Apart, within};
use crate::counts::{Counts, expect_no_children};
use crate::session::{Session, bytes, launch};

const BOUND: Duration = Duration::from_secs(10);

/// Sessions that work. The end of one leaves what this thread had of it until its next call, and of the next one nothing more.
fn works(what: &str) {
    one_works(what);
    let before = Counts::now();
    for _ in 0..3 {
        one_works(what);
    }
    before.expect_nothing_more(what);
}

/// Starts a session, calls on three threads, and ends it on another thread than this.
fn one_works(what: &str) {
    let session = Session::start("ends");
    let add = session.function("add");
    let sum = within(BOUND, what, move || {
        let inner = thread::scope(|scope| {
            let other = scope.spawn(|| session.process.call(add, &bytes(&[1, 1])));
            other.join().expect("no panic")
        });
        inner.and_then(|_| session.call("add", &[2, 3]))
    });
    assert_eq!(sum.expect(what), 5, "{what}");
}

/// Under a limit, sessions are started until one is refused, or there are enough; returns how many there were.
fn as_many_as_there_is_room_for(most: usize) -> usize {
    let mut sessions = Vec::new();
    while sessions.len() < most {
        match within(BOUND, "a start", || Session::try_start(&launch(), "ends")) {
            Ok(session) => sessions.push(session),
            Err(error) => {
                println!("attack: session {} is refused: {error}", sessions.len() + 1);
                let text = error.to_string();
                assert!(!text.is_empty() && !text.contains("status -1"), "{text}");
                break;
            }
        }
    }
    // Those that there are go on.
    for session in &sessions {
        assert_eq!(session.call("add", &[2, 3]).expect("it was started"), 5);
    }
    sessions.len()
}

/// Limits a resource, fills it with sessions, releases them, and makes a session once more.
fn under_a_limit(resource: Resource, limit: u64, least: usize) {
    // Now everything is made that a process makes once.
    works("without a limit");
    setrlimit(resource, limit, limit).expect("a limit");
    let before = Counts::now();
    let count = as_many_as_there_is_room_for(40);
    println!("attack: {resource:?} of {limit}: {count} sessions");
    assert!(count >= least, "{count} sessions, {least} are possible");
    before.expect_nothing_more("sessions under a limit");
    assert!(as_many_as_there_is_room_for(1) >= least.min(1), "nothing was given back");
}

#[test]
fn a_host_with_few_descriptors() {
    Apart::within(60).run(|| under_a_limit(Resource::RLIMIT_NOFILE, 64, 1));
}

#[test]
fn a_host_with_no_descriptors_to_spare() {
    Apart::within(60).run(|| {
        for limit in (6..30).rev() {
            setrlimit(Resource::RLIMIT_NOFILE, limit, 1024).expect("a limit");
            as_many_as_there_is_room_for(2);
        }
        setrlimit(Resource::RLIMIT_NOFILE, 1024, 1024).expect("a limit");
        works("with its descriptors back");
    });
}

#[test]
fn a_host_with_little_address_space() {
    Apart::within(60).run(|| under_a_limit(Resource::RLIMIT_AS, 8 << 30, 1));
}

#[test]
fn a_host_with_too_little_address_space() {
    Apart::within(60).run(|| under_a_limit(Resource::RLIMIT_AS, 700 << 20, 0));
}

#[test]
fn a_host_with_a_limit_for_files() {
    Apart::within(60).run(|| under_a_limit(Resource::RLIMIT_FSIZE, 1 << 20, 0));
}

#[test]
fn a_host_that_may_have_no_more_processes() {
    // Root has no such limit.
    let starter = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    Apart::within(60).started_by(&starter).run(|| under_a_limit(Resource::RLIMIT_NPROC, 12, 0));
}

#[test]
fn a_host_that_collects_all_children() {
    Apart::within(60).run(|| {
        thread::spawn(|| {
            loop {
                if waitpid(None, Some(WaitPidFlag::__WALL)).is_err() {
                    thread::sleep(Duration::from_micros(100));
                }
            }
        });
        thread::sleep(Duration::from_millis(10));
        for _ in 0..5 {
            works("beside a thread that collects children");
        }
        expect_no_children();
    });
}

#[test]
fn a_host_that_ignores_its_children() {
    Apart::within(60).started_by(&["env", "--ignore-signal=CHLD"]).run(|| works("ignoring"));
}

#[test]
fn a_host_that_ignores_every_signal_that_can_be() {
    let starter = ["env", "--ignore-signal"];
    Apart::within(60).started_by(&starter).run(|| {
        works("ignoring signals");
        let session = Session::start("ends");
        let outcome = within(BOUND, "the call", move || session.call("crash", &[]));
        let error = outcome.expect_err("it is dead");
        assert_eq!(error.death().and_then(|death| death.signal), Some(11), "{error}");
    });
}

#[test]
fn a_host_that_blocks_every_signal() {
    Apart::within(60).run(|| {
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None).expect("a mask");
        works("blocking signals");
        let session = Session::start("ends");
        let outcome = within(BOUND, "the call", move || session.call("crash", &[]));
        let error = outcome.expect_err("it is dead");
        assert_eq!(error.death().and_then(|death| death.signal), Some(11), "{error}");
    });
}

#[test]
fn a_host_that_ends_its_executor_by_itself() {
    Apart::within(60).run(|| {
        for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGSEGV, Signal::SIGABRT] {
            let session = Session::start("ends");
            session.signal(signal);
            let outcome = within(BOUND, "the call", move || session.call("rest", &[3000]));
            let error = outcome.expect_err("it is dead");
            println!("attack: {signal}: {error}");
            assert_eq!(error.death().and_then(|death| death.signal), Some(signal as i32));
        }
        works("behind them");
    });
}
