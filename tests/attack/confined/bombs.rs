//! Code that uses up what it has, under limits: the error names the limit, and others are not harmed.

use std::thread;
use std::time::{Duration, Instant};

use farcall::controller::Confinement;
use nix::sys::resource::{Resource, setrlimit};

use super::{NONE, death, start};
use crate::apart::{Apart, within};

const MEMORY: u64 = 256 << 20;
const BOUND: Duration = Duration::from_secs(60);

fn limited() -> Confinement {
    Confinement::strict().memory_bytes_max(MEMORY).cpu_seconds_max(2).descriptors_max(64)
}

#[test]
fn a_memory_bomb_ends_at_the_limit_and_is_named_so() {
    Apart::within(90).run(|| {
        for confinement in [limited(), Confinement::new().memory_bytes_max(MEMORY)] {
            let message = within(BOUND, "the bomb", move || death(confinement, "memory_bomb"));
            let expected = format!("executor died by SIGABRT, memory limit of {MEMORY} bytes");
            assert!(message.starts_with(&expected), "{message}");
            assert!(message.contains("memory_bomb"), "{message}");
        }
    });
}

#[test]
fn a_crash_with_memory_to_spare_names_no_limit() {
    Apart::within(60).run(|| {
        let message = death(limited(), "null");
        assert!(message.starts_with("executor died by SIGSEGV, fault address 0x0"), "{message}");
        assert!(!message.contains("limit"), "{message}");
    });
}

#[test]
fn no_kind_of_memory_escapes_the_limit() {
    Apart::within(60).run(|| {
        let most = 4 * MEMORY;
        let session = start(limited());
        let had = session.call("other_memory", &[most]).expect("an answer");
        assert_eq!(had, 0, "shared memory without a file, or memory files");
        let session = start(Confinement::strict());
        let had = session.call("other_memory", &[MEMORY]).expect("an answer");
        assert_eq!(had, MEMORY, "without the limit, session and code may make memory files");
    });
}

#[test]
fn a_busy_loop_ends_by_its_cpu_time_and_is_named_so() {
    Apart::within(90).run(|| {
        for (bomb, expected) in [
            ("busy_loop", "executor died by SIGXCPU, CPU limit of 2 s"),
            ("stubborn_loop", "executor died by SIGKILL"),
        ] {
            let start = Instant::now();
            let message = within(BOUND, bomb, move || death(limited(), bomb));
            assert_eq!(message, expected, "{bomb}");
            assert!(start.elapsed() >= Duration::from_secs(2), "{bomb}: {:?}", start.elapsed());
        }
    });
}

#[test]
fn a_descriptor_bomb_costs_no_lane() {
    Apart::within(60).run(|| {
        let session = start(limited());
        let had = session.call("descriptor_bomb", NONE).expect("an answer");
        assert!((1..64).contains(&had), "{had}");
        let other = session.clone();
        let sum = within(BOUND, "a call over a new lane", move || other.call("add", &[2, 3]));
        assert_eq!(sum.expect("the thread that opens lanes has descriptors of its own"), 5);
        assert_eq!(session.call("add", &[4, 5]).expect("the lane is open"), 9);
    });
}

#[test]
fn a_fork_bomb_starts_no_process() {
    Apart::within(60).run(|| {
        let session = start(limited());
        assert_eq!(session.call("fork_bomb", &[1000]).expect("an answer"), 0);
        assert_eq!(session.call("add", &[2, 3]).expect("it goes on"), 5);
    });
}

/// A user that has no processes in other tests.
const OTHER_USER: u32 = 65533;

/// A6: with all threads that one executor can have, the host still starts executors and threads.
#[test]
fn a_thread_bomb_leaves_threads_for_the_host() {
    let Some(apart) = Apart::within(60).for_user(OTHER_USER) else { return };
    apart.run(|| {
        setrlimit(Resource::RLIMIT_NPROC, 400, 400).expect("a lower limit");
        let session = start(Confinement::strict());
        let had = session.call("thread_bomb", &[10_000]).expect("an answer");
        assert!((100..350).contains(&had), "{had} threads of 400");
        let spawned = within(BOUND, "a thread of the host", || thread::Builder::new().spawn(|| 5));
        assert_eq!(spawned.expect("the host has threads").join().expect("no panic"), 5);
        let another = || start(Confinement::new()).call("add", &[2, 3]);
        let sum = within(BOUND, "another executor", another);
        assert_eq!(sum.expect("it has threads"), 5);
    });
}

/// A6: timers count for the user, as signals that wait do.
#[test]
fn a_timer_bomb_leaves_timers_for_the_host() {
    let Some(apart) = Apart::within(60).for_user(OTHER_USER) else { return };
    apart.run(|| {
        setrlimit(Resource::RLIMIT_SIGPENDING, 1000, 1000).expect("a lower limit");
        let session = start(Confinement::strict());
        let had = session.call("timer_bomb", &[10_000]).expect("an answer");
        assert!((100..900).contains(&had), "{had} timers of 1000");
        let other = start(Confinement::new()).call("timer_bomb", &[10]);
        assert_eq!(other.expect("an answer"), 10, "timers of others");
    });
}

#[test]
fn a_stack_bomb_is_a_stack_overflow() {
    Apart::within(60).run(|| {
        let message = death(limited(), "stack_bomb");
        assert!(message.starts_with("executor died by SIGSEGV, stack overflow"), "{message}");
    });
}

#[test]
fn a_bomb_of_output_ends_at_the_limit_and_is_named_so() {
    Apart::within(60).run(|| {
        let message = death(limited().file_bytes_max(1 << 20), "file_bomb");
        assert_eq!(message, format!("executor died by SIGXFSZ, file limit of {} bytes", 1 << 20));
    });
}

#[test]
fn bombs_in_one_executor_do_not_disturb_another() {
    Apart::within(120).run(|| {
        let neighbour = start(Confinement::strict());
        let bombs = ["memory_bomb", "busy_loop", "stack_bomb"];
        let bombs = bombs.map(|bomb| thread::spawn(move || death(limited(), bomb)));
        let mut calls = 0;
        while !bombs.iter().all(thread::JoinHandle::is_finished) {
            assert_eq!(neighbour.call("add", &[calls, 1]).expect("it lives"), calls + 1);
            calls += 1;
        }
        assert!(calls > 100, "{calls}");
        for bomb in bombs {
            bomb.join().expect("a death");
        }
    });
}
