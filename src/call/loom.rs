//! Posted calls and two lanes, in every order that loom finds.
//!
//! Invariant: the model also runs with an executor that says too early that a call has run, and fails then.

mod code;

use std::sync::Arc;
use std::sync::atomic::Ordering as CountOrdering;

use crate::deadline::Deadline;
use ::loom::thread;

use super::endpoint::Endpoint;
use super::endpoint::LaneEnd;
use super::posts::Posts;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::transport::loom::{Planted, explore, segment};
use crate::transport::{Incoming, Lane, Side, Transport};
use crate::wire::Kind;

/// A thread posts a call and takes it along on its lane; another, which learns of it, calls on its own lane. The posted call
/// has run before that call is sent, or goes ahead of it.
fn overtake(planted: Planted) {
    explore(&format!("posts, {planted:?}"), 2, move |met| {
        let (posts, pushed, ran) = (
            Arc::new(Posts::default()),
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let (first, second) = (segment(), segment());
        let mut executor = Lane::new(&first, Side::Executor);
        executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
        let other = thread::spawn({
            let (posts, pushed, ran) = (Arc::clone(&posts), Arc::clone(&pushed), Arc::clone(&ran));
            let end: LaneEnd = Endpoint::new(Lane::new(&second, Side::Controller));
            let mut executor = Lane::new(&second, Side::Executor);
            move || {
                if !pushed.load(Ordering::Acquire) {
                    return false;
                }
                posts.go_ahead(&end, Deadline::SESSION_END).expect("open");
                let took = end.counters().calls() == 1;
                assert!(took || ran.load(Ordering::Relaxed) == 1, "overtaken");
                if took {
                    executor.settle(end.counters().calls());
                }
                !took
            }
        });
        let executor = thread::spawn({
            let ran = Arc::clone(&ran);
            move || {
                let mut message = Incoming::new();
                executor.receive(Deadline::SESSION_END, &mut message).expect("open");
                if let Some(sequence) = message.posted {
                    if planted == Planted::TooEarly {
                        executor.settle(sequence);
                    }
                    ran.store(1, Ordering::Relaxed);
                    executor.settle(sequence);
                }
            }
        });
        let end: LaneEnd = Endpoint::new(Lane::new(&first, Side::Controller));
        end.receive_setup(Deadline::SESSION_END).expect("setup");
        posts.push(9, Vec::new());
        pushed.store(true, Ordering::Release);
        posts.go_ahead(&end, Deadline::SESSION_END).expect("open");
        end.with_transport(|lane| lane.send(Kind::Call, 1, &[], Deadline::SESSION_END))
            .expect("sent");
        let waited = other.join().unwrap();
        met.fetch_add(u64::from(waited), CountOrdering::Relaxed);
        executor.join().unwrap();
    });
}

#[test]
fn no_call_overtakes_what_was_posted() {
    overtake(Planted::Nothing);
}

#[test]
#[should_panic(expected = "overtaken")]
fn a_posted_call_that_settles_too_early_is_found() {
    overtake(Planted::TooEarly);
}

/// A thread posts a call, takes it along, and looks whether it has run before it makes a call of its own. Another thread that
/// sees no posted call left sees what the posted call did.
#[test]
fn a_thread_that_sees_that_all_has_run_sees_what_it_did() {
    explore("posts, looked at", 3, |met| {
        let (posts, pushed, ran) = (
            Arc::new(Posts::default()),
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let segment = segment();
        let mut executor = Lane::new(&segment, Side::Executor);
        let other = thread::spawn({
            let (posts, pushed, ran) = (Arc::clone(&posts), Arc::clone(&pushed), Arc::clone(&ran));
            move || {
                let has_run = pushed.load(Ordering::Acquire) && posts.are_settled();
                assert!(!has_run || ran.load(Ordering::Relaxed) == 1, "not seen");
                has_run
            }
        });
        executor.send(Kind::Setup, 0, &[], Deadline::SESSION_END).expect("sent");
        let end: LaneEnd = Endpoint::new(Lane::new(&segment, Side::Controller));
        end.receive_setup(Deadline::SESSION_END).expect("setup");
        posts.push(9, Vec::new());
        pushed.store(true, Ordering::Release);
        posts.go_ahead(&end, Deadline::SESSION_END).expect("open");
        let executor = thread::spawn(move || {
            ran.store(1, Ordering::Relaxed);
            executor.settle(1);
            executor
        });
        posts.look();
        let has_run = other.join().unwrap();
        met.fetch_add(u64::from(has_run), CountOrdering::Relaxed);
        executor.join().unwrap();
    });
}
