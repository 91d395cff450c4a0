//! Refusals of an executor in this process: each is an error that says what to do.

use std::time::Duration;

use farcall::controller::calls::PendingCall;
use farcall::controller::{
    CallOptions, Confinement, Executor, ExecutorBuilder, RestartPolicy, Snapshot,
};
use farcall::{Error, ErrorKind, Result};

use super::{Number, executor, library};

/// Checks that this was refused by its name.
#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T>, what: &str) {
    let error = outcome.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let text = error.to_string();
    assert!(text.contains(what), "{text}");
    assert!(text.contains("start it without ExecutorBuilder::in_process"), "{text}");
}

#[test]
fn builders_name_what_needs_a_process() {
    let builder = || ExecutorBuilder::new().in_process();
    let start =
        |builder: ExecutorBuilder| builder.start().map(|executor: Executor| executor.pids());
    refused(start(builder().confine(Confinement::isolated())), "ExecutorBuilder::confine");
    refused(start(builder().restart(RestartPolicy::new())), "ExecutorBuilder::restart");
    refused(start(builder().processes(2)), "ExecutorBuilder::processes");
    refused(start(builder().env("A", "1")), "ExecutorBuilder::env");
    let timeout = Duration::from_secs(1);
    refused(start(builder().link_timeout(timeout)), "ExecutorBuilder::link_timeout");
    let elsewhere = builder().program("/nowhere").start_timeout(timeout).inherit_descriptors();
    let pids = start(elsewhere.spin(Duration::ZERO)).expect("the program is not started");
    assert_eq!(pids, [std::process::id().cast_signed()]);
}

#[test]
fn calls_with_an_end_are_refused_and_do_not_run() {
    let executor = executor();
    let library = library(&executor, 0);
    let next = library.function::<Number>("next");
    let timeout = CallOptions::new().timeout(Duration::from_secs(1));
    let watch = || Err(Error::other("no"));
    let watched = CallOptions::new().watch(Duration::from_millis(1), &watch);
    for options in [timeout, watched] {
        refused(next.call_with(&options, ()), "a call with a timeout or a watch");
        refused(
            next.bind().expect("bound").call_with(&options, ()),
            "a call with a timeout or a watch",
        );
    }
    assert_eq!(next.call_with(&CallOptions::new(), ()).expect("no end"), 6);
    let wait = library.function::<extern "C" fn(farcall::ExecutorAddr)>("wait_for");
    let word = Box::leak(Box::new(std::sync::atomic::AtomicI64::new(0)));
    let address = farcall::ExecutorAddr::new(word.as_ptr() as u64);
    let pending: PendingCall<_> = wait.submit((address,)).expect("submitted");
    refused(pending.cancel(), "ending a call");
    refused(executor.interrupt_all(Duration::ZERO), "ending calls");
    word.store(1, std::sync::atomic::Ordering::Release);
    pending.wait().expect("it returns");
}

#[test]
fn ends_copies_and_the_process_itself_are_refused() {
    let executor = executor();
    let library = library(&executor, 0);
    let process = executor.process().expect("a process");
    refused(process.exit(0), "Process::exit");
    refused(process.allow_executable_stacks(), "executable stacks");
    refused(library.run_start("next", [b"a"]), "Library::run_start");
    refused(executor.library("first").precede_libraries(), "Library::precede_libraries");
    refused(Snapshot::take(executor.clone()), "a snapshot");
    let error = executor.restart().expect_err("no policy");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(library.function::<Number>("next").call(()).expect("all goes on"), 6);
}
