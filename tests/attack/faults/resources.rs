//! Requests and messages of linked code, and resources that it uses up, cost the host little (D4, D5, D8, D11, D13, D14).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};

use crate::apart::{Apart, within};
use crate::counts::Counts;
use crate::filter;
use crate::session::{Session, bytes, launch};

const BOUND: Duration = Duration::from_secs(10);

#[test]
fn d04_a_call_that_asks_for_lanes_gets_few_of_the_hosts_threads() {
    Apart::within(40).run(|| {
        let session = Session::start("sockets");
        let before = Counts::now();
        let is_over = Arc::new(AtomicBool::new(false));
        let watches = Arc::clone(&is_over);
        let watcher = thread::spawn(move || {
            let mut most = Counts::now();
            while !watches.load(Ordering::Relaxed) {
                most = most.most(Counts::now());
                thread::sleep(Duration::from_millis(5));
            }
            most
        });
        let caller = Arc::clone(&session);
        let outcome = within(BOUND, "the call", move || caller.call("ask_for_lanes", &[2000]));
        is_over.store(true, Ordering::Relaxed);
        let most = watcher.join().expect("no panic");
        println!("attack: {outcome:?}: {before:?} became {most:?}");
        // One thread is the watcher.
        assert!(most.threads <= before.threads + 2 + 64, "threads: {most:?}");
        assert!(most.descriptors <= before.descriptors + 16, "descriptors: {most:?}");
        assert!(most.size_mib <= before.size_mib + 16 * 1024, "address space: {most:?}");
    });
}

#[test]
fn d05_descriptors_that_linked_code_sends_do_not_stay() {
    const SESSIONS: usize = 50;
    Apart::within(120).run(|| {
        let attack = |files: u64| {
            let session = Session::start("sockets");
            // The session may end of it.
            let outcome =
                within(BOUND, "the call", move || session.call("send_descriptors", &[files]));
            outcome.is_ok()
        };
        attack(1);
        let before = Counts::now();
        let sizes = [8, 9, 16, 60].into_iter().cycle().take(SESSIONS);
        let survived = sizes.filter(|files| attack(*files)).count();
        println!("attack: {SESSIONS} sessions, {survived} of which survived");
        println!("attack: {before:?} became {:?}", Counts::now());
        before.expect_nothing_more("descriptors over the sockets");
    });
}

#[test]
fn d08_a_program_without_descriptors_loses_one_lane_only() {
    Apart::within(30).run(|| {
        let session = Session::start("limits");
        assert_eq!(session.call("use_up_descriptors", &[]).expect("a limit"), 0);
        let (caller, add) = (Arc::clone(&session), session.function("add"));
        let outcome = within(BOUND, "a call on a new thread", move || {
            caller.process.call(add, &bytes(&[1, 2]))
        });
        println!("attack: on a new thread: {outcome:?}");
        if let Err(error) = outcome {
            assert!(!error.is_disconnected(), "the session goes on: {error}");
        }
        assert_eq!(session.call("add", &[2, 3]).expect("it goes on"), 5);
    });
}

/// Where the kernel gives the thread that opens lanes no table of descriptors of its own, the lane is refused.
#[test]
fn d08_a_lane_without_a_descriptor_is_refused_and_does_not_hang() {
    Apart::within(30).run(|| {
        let shared = filter::launch_refusing(launch(), &[libc::SYS_close_range], Errno::EPERM);
        let session = Arc::new(Session::try_start(&shared, "limits").expect("an executor"));
        assert_eq!(session.call("use_up_descriptors", &[]).expect("a limit"), 0);
        let caller = Arc::clone(&session);
        let outcome = within(BOUND, "a call on a new thread", move || caller.call("add", &[1, 2]));
        let error = outcome.expect_err("there is no descriptor for the lane");
        assert!(error.to_string().contains("limit of open files"), "{error}");
        assert_eq!(session.call("add", &[2, 3]).expect("it goes on"), 5);
    });
}

#[test]
fn d11_a_result_over_the_limit_is_an_error_and_no_end() {
    Apart::within(30).run(|| {
        let session = Session::start("ends");
        for size in [(1_u64 << 30) + 1, 3 << 30] {
            let caller = Arc::clone(&session);
            let outcome = within(BOUND, "the call", move || caller.call("long_result", &[size]));
            let error = outcome.expect_err("it is too long");
            println!("attack: a result of {size} bytes: {error}");
            assert!(!error.is_disconnected(), "the session goes on: {error}");
            assert_eq!(session.call("add", &[2, 3]).expect("it goes on"), 5);
        }
    });
}

#[test]
fn d13_a_host_with_a_limit_for_files_gets_an_error_and_lives() {
    Apart::within(30).run(|| {
        setrlimit(Resource::RLIMIT_FSIZE, 1 << 20, 1 << 20).expect("a limit");
        let outcome = within(BOUND, "the start", || Session::try_start(&launch(), "ends"));
        println!("attack: {:?}", outcome.as_ref().map(drop));
        if let Ok(session) = outcome {
            assert_eq!(session.call("add", &[2, 3]).expect("a sum"), 5);
        }
    });
}

#[test]
fn d14_an_executor_has_none_of_the_hosts_descriptors() {
    Apart::within(30).run(|| {
        let file = tempfile::Builder::new().prefix("private-to-the-host").tempfile();
        let file = file.expect("a file");
        fcntl(file.as_file(), FcntlArg::F_SETFD(FdFlag::empty())).expect("a descriptor");
        let session = Session::start("ends");
        let count = session.function("count_files");
        let open = session.process.call(count, b"private-to-the-host").expect("a number");
        assert_eq!(open, bytes(&[0]), "open in the executor");
    });
}
