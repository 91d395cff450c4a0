//! Hosts that collect children, fork, or may not watch them, and starts that fail (D6, D7, D12, D16, D18).
#![allow(unsafe_code, reason = "forks")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, alarm, fork};

use crate::apart::{Apart, within};
use crate::counts;
use crate::filter;
use crate::session::{Session, launch};

const BOUND: Duration = Duration::from_secs(10);

#[test]
fn d06_starts_that_fail_leave_no_zombies() {
    Apart::within(60).run(|| {
        let failed = within(BOUND, "starts", || {
            filter::refuse(&[libc::SYS_pidfd_open], Errno::EPERM);
            (0..10).filter(|_| launch().start().is_err()).count()
        });
        println!("attack: {failed} starts failed, {} zombies", counts::zombies());
        counts::expect_no_children();
    });
}

/// A crash is named and a status is right, in a host that takes the statuses of its children away.
fn statuses_are_right(rounds: usize) {
    (0..rounds).for_each(|_| status_is_right());
}

fn status_is_right() {
    let session = Session::start("ends");
    let outcome = within(BOUND, "the call", move || session.call("crash", &[]));
    let error = outcome.expect_err("it is dead");
    println!("attack: crash: {error}");
    assert_eq!(error.death().and_then(|death| death.signal), Some(11), "{error}");
    let session = Session::start("ends");
    let outcome = within(BOUND, "the exit", move || session.process.exit(9));
    println!("attack: exit(9): {outcome:?}");
    match outcome {
        Ok(status) => assert_eq!(status, 9),
        Err(error) => assert!(!error.to_string().contains("-1"), "{error}"),
    }
}

#[test]
fn d07_statuses_are_right_in_a_host_that_ignores_its_children() {
    Apart::within(40).started_by(&["env", "--ignore-signal=CHLD"]).run(|| statuses_are_right(1));
}

#[test]
fn d07_statuses_are_right_in_a_host_that_collects_all_children() {
    Apart::within(40).run(|| {
        thread::spawn(|| {
            loop {
                if waitpid(None, None).is_err() {
                    thread::sleep(Duration::from_micros(200));
                }
            }
        });
        statuses_are_right(5);
    });
}

/// Does `work` in a fork of this process; returns what it ended with: 0 where there was no panic.
fn in_a_fork(work: impl FnOnce()) -> WaitStatus {
    // SAFETY: no other thread of this process holds a lock that the child takes: all are asleep.
    match unsafe { fork() }.expect("a process") {
        ForkResult::Parent { child } => waitpid(child, None).expect("a child"),
        ForkResult::Child => {
            alarm::set(5);
            let status = i32::from(catch_unwind(AssertUnwindSafe(work)).is_err());
            // SAFETY: ends this process and nothing else.
            unsafe { libc::_exit(status) }
        }
    }
}

#[test]
fn d12_a_fork_of_the_host_may_drop_what_it_has_of_a_session() {
    Apart::within(40).run(|| {
        let session = Session::start("ends");
        assert_eq!(session.call("add", &[2, 3]).expect("a sum"), 5);
        let mut held = Some(session);
        let session = Arc::clone(held.as_ref().expect("a session"));
        let own = Arc::downgrade(&session);
        drop(session);
        let ended = in_a_fork(|| {
            drop(held.take());
            assert!(own.upgrade().is_none(), "it was the last");
        });
        println!("attack: a fork that dropped the session: {ended:?}");
        assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
        let session = held.expect("only the fork has dropped it");
        let caller = Arc::clone(&session);
        let sum = within(BOUND, "the call", move || caller.call("add", &[2, 3]));
        assert_eq!(sum.expect("the session of this process goes on"), 5);
    });
}

#[test]
fn d12_a_call_in_a_fork_of_the_host_is_refused() {
    Apart::within(40).run(|| {
        let session = Session::start("ends");
        let add = session.function("add");
        assert_eq!(session.call("add", &[2, 3]).expect("a sum"), 5);
        let ended = in_a_fork(|| {
            let outcome = session.process.call(add, &[0; 16]);
            println!("attack: a call in a fork: {outcome:?}");
            assert!(outcome.is_err());
            std::mem::forget(Arc::clone(&session));
        });
        assert!(matches!(ended, WaitStatus::Exited(_, 0)), "{ended:?}");
        let sum = within(BOUND, "the call", move || session.call("add", &[2, 3]));
        assert_eq!(sum.expect("the session of this process goes on"), 5);
    });
}

#[test]
fn d16_an_error_says_with_what_status_the_executor_ended() {
    Apart::within(20).run(|| {
        let start = || launch().program("/bin/false").start().map(drop);
        let error = within(BOUND, "the start", start).expect_err("it ends at once");
        println!("attack: {error}");
        assert!(error.to_string().contains("status 1"), "{error}");
    });
}

#[test]
fn d16_an_error_says_why_the_executor_could_not_start() {
    Apart::within(20).run(|| {
        let calls = [libc::SYS_clone, libc::SYS_clone3];
        let launch = filter::launch_refusing(launch(), &calls, Errno::EAGAIN);
        let error = within(BOUND, "the start", move || launch.start().map(drop));
        let error = error.expect_err("it has no thread");
        println!("attack: {error}");
        assert!(error.to_string().contains("thread"), "{error}");
    });
}

#[test]
fn d18_unwind_information_works_where_process_vm_readv_fails() {
    Apart::within(20).run(|| {
        let calls = [libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];
        for error in [Errno::EPERM, Errno::ENOSYS] {
            let launch = filter::launch_refusing(launch(), &calls, error);
            let sum = within(BOUND, "the call", move || {
                Session::try_start(&launch, "ends")?.call("add", &[2, 3])
            });
            println!("attack: {error}: {sum:?}");
            assert_eq!(sum.expect("a sum"), 5);
        }
    });
}
