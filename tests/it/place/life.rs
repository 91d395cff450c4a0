//! The end of executors in this process.
#![allow(unsafe_code, reason = "passes an address of the host to linked code")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use farcall::controller::{ExecutorBuilder, Function};
use farcall::{ErrorKind, ExecutorAddr};

use super::{Number, executor, library, maps};
use crate::alone;

fn address_of(word: &AtomicI64) -> ExecutorAddr {
    ExecutorAddr::new(word.as_ptr() as u64)
}

#[test]
fn the_last_handle_runs_finalizers_and_releases_the_memory() {
    alone::run("place::life::the_last_handle_runs_finalizers_and_releases_the_memory", || {
        let ends = AtomicI64::new(0);
        let run = || {
            let executor = executor();
            let library = library(&executor, 0);
            let tell = library.function::<extern "C" fn(ExecutorAddr)>("tell_end");
            tell.call((address_of(&ends),)).expect("told");
            let next = library.function::<Number>("next");
            assert_eq!(next.submit(()).expect("submitted").wait().expect("a result"), 6);
        };
        run();
        assert_eq!(ends.load(Ordering::Relaxed), 1, "its finalizer has run");
        let of_farcall = || maps().into_iter().filter(|line| line.contains("farcall-")).count();
        assert_eq!(of_farcall(), 0, "{:#?}", maps());
        let files = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
        let (before, files_before) = (maps().len(), files());
        (0..50).for_each(|_| run());
        assert_eq!(ends.load(Ordering::Relaxed), 51);
        assert_eq!((of_farcall(), files()), (0, files_before));
        // The C library keeps some stacks and heaps of threads.
        assert!(maps().len() < before + 40, "{:#?}", maps());
    });
}

#[test]
fn a_closed_session_refuses_calls_and_keeps_its_memory() {
    let executor = executor();
    let library = library(&executor, 0);
    let next = library.function::<Number>("next").bind().expect("bound");
    let process = executor.process().expect("a process");
    let counter = library.lookup("counter").expect("defined");
    process.close();
    let error = next.call(()).expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    assert!(process.has_ended() && process.death().is_none());
    assert_eq!(process.pid(), 0);
    // The host may still read what it has shared.
    assert!(process.shared_memory(counter).is_some());
    drop(library);
}

#[test]
fn a_session_closed_under_a_call_ends_with_its_last_handle() {
    let ends = AtomicI64::new(0);
    let resume = AtomicI64::new(0);
    let executor = executor();
    let library = library(&executor, 0);
    let tell = library.function::<extern "C" fn(ExecutorAddr)>("tell_end");
    tell.call((address_of(&ends),)).expect("told");
    let wait: Function<extern "C" fn(ExecutorAddr)> =
        library.function("wait_for").bind().expect("bound");
    thread::scope(|scope| {
        let under_way = scope.spawn(|| wait.call((address_of(&resume),)));
        while wait.process().expect("a process").stats().calls < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(10));
        executor.close();
        assert!(tell.call((ExecutorAddr::NULL,)).is_err(), "it is over");
        assert_eq!(ends.load(Ordering::Relaxed), 0, "a call is under way");
        resume.store(1, Ordering::Release);
        under_way.join().expect("no panic").expect("it returns");
    });
    drop((executor, library, tell, wait));
    assert_eq!(ends.load(Ordering::Relaxed), 1);
}

#[test]
fn a_kill_closes_the_session_and_says_why() {
    let executor = executor();
    let library = library(&executor, 0);
    let next = library.function::<Number>("next").bind().expect("bound");
    executor.process().expect("a process").kill();
    let error = next.call(()).expect_err("it is over");
    assert_eq!(error.kind(), ErrorKind::Disconnected);
    for words in
        ["a kill needs a process of the executor's own", "without ExecutorBuilder::in_process"]
    {
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(error.death().is_none());
}

#[test]
fn a_submitted_call_that_goes_on_keeps_the_memory() {
    let resume = Box::leak(Box::new(AtomicI64::new(0)));
    let ends = Box::leak(Box::new(AtomicI64::new(0)));
    let executor = ExecutorBuilder::new().in_process().start().expect("an executor");
    let library = library(&executor, 0);
    let tell = library.function::<extern "C" fn(ExecutorAddr)>("tell_end");
    tell.call((address_of(ends),)).expect("told");
    let wait = library.function::<extern "C" fn(ExecutorAddr)>("wait_for");
    let pending = wait.submit((address_of(resume),)).expect("submitted");
    thread::sleep(Duration::from_millis(20));
    drop((pending, executor, library, tell, wait));
    assert_eq!(ends.load(Ordering::Relaxed), 0, "the call goes on");
    resume.store(1, Ordering::Release);
    crate::testkit::process::until("its thread ends the session", || {
        ends.load(Ordering::Relaxed) == 1
    });
}
