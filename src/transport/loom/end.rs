//! The end of a lane, by each of its signs, and the news that wakes a sleeper beside it.
//!
//! What a peer handed over before the sign is received, though the peer passed no fence in between.

use super::*;
use crate::error::ErrorKind;
use crate::sync::AtomicBool;
use crate::sys::futex::{self, OWNER_DIED};

/// What says that nothing more will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// The supervisor announces the end in the memory of this process.
    End,
    /// The peer closes its own end of the lane.
    Closed,
    /// The kernel marks the word of the peer's thread.
    Thread,
}

/// A peer hands a message over; then the sign comes. The controller receives the message, then the end.
fn behind_a_message(sign: Sign, planted: Planted) {
    explore(&format!("{sign:?} behind a message, {planted:?}"), 3, move |met| {
        let segment = segment();
        let word = |at| segment.view(at..at + 1);
        let (thread, process) = (word(layout::HOLDER_WORD), word(layout::PROCESS_HOLDER_WORD));
        let lifeline = Lifeline::new(End::new()).with_holders(thread, process);
        let (end, controller) =
            (lifeline.end().clone(), Lane::starting_at(&segment, Side::Controller, lifeline, 0, 0));
        // Not dropped when the model fails: the words are gone then.
        let (mut controller, executor) =
            (ManuallyDrop::new(controller), ManuallyDrop::new(Lane::new(&segment, Side::Executor)));
        let closer = executor.closer();
        let peer = thread::spawn(move || {
            let word = Word {
                hop: 1,
                kind: Kind::Setup,
                inline_bytes: 0,
                bulk: false,
                ring: false,
                fresh: false,
            };
            let words = segment.words();
            words[layout::BATON_WORD].store(word.encode(), Ordering::Release);
            match sign {
                Sign::End => end.announce(),
                Sign::Closed if planted == Planted::NoWake => {
                    words[layout::CLOSED_WORD].store(1, Ordering::Release);
                }
                Sign::Closed => closer.close(),
                Sign::Thread => {
                    words[layout::HOLDER_WORD].store(OWNER_DIED, Ordering::Release);
                    if planted != Planted::NoWake {
                        futex::wake(&words[layout::HOLDER_WORD]);
                    }
                }
            }
        });
        assert_eq!(receive(&mut controller).expect("lost").0, Kind::Setup);
        let error = receive(&mut controller).expect_err("nothing more was sent");
        assert_eq!(error.kind() == ErrorKind::ThreadGone, sign == Sign::Thread, "{error}");
        assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error}");
        count(met, true);
        peer.join().unwrap();
    });
}

#[test]
fn what_was_handed_over_before_the_end_is_received() {
    behind_a_message(Sign::End, Planted::Nothing);
}

#[test]
fn what_a_peer_handed_over_before_it_closed_is_received() {
    behind_a_message(Sign::Closed, Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_peer_that_closes_and_wakes_nobody_is_found() {
    behind_a_message(Sign::Closed, Planted::NoWake);
}

#[test]
fn what_a_thread_handed_over_before_it_died_is_received() {
    behind_a_message(Sign::Thread, Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_death_that_wakes_nobody_is_found() {
    behind_a_message(Sign::Thread, Planted::NoWake);
}

/// A sleeper looks at the end, then for a reason to stay awake, and sleeps. Another thread gives it a reason and nudges.
fn nudge(planted: Planted) {
    explore(&format!("nudge, {planted:?}"), 3, move |met| {
        let (end, segment, reason) = (End::new(), segment(), Arc::new(AtomicBool::new(false)));
        let (lifeline, given) = (Lifeline::new(end.clone()), Arc::clone(&reason));
        let other = thread::spawn(move || match planted {
            Planted::NoWake => given.store(true, Ordering::Relaxed),
            Planted::TooEarly => {
                end.nudge();
                given.store(true, Ordering::Relaxed);
            }
            _ => {
                given.store(true, Ordering::Relaxed);
                end.nudge();
            }
        });
        loop {
            let seen = lifeline.end().look();
            if reason.load(Ordering::Relaxed) {
                break;
            }
            count(met, true);
            // No thread changes this word.
            let word = &segment.words()[layout::SETTLED_WORD];
            lifeline.sleep(word, 0, seen, Deadline::SESSION_END);
        }
        other.join().unwrap();
    });
}

#[test]
fn who_was_nudged_sees_why() {
    nudge(Planted::Nothing);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_missing_nudge_is_found() {
    nudge(Planted::NoWake);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_nudge_that_comes_too_early_is_found() {
    nudge(Planted::TooEarly);
}
