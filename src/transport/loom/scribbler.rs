//! A peer that writes what it likes over the words that both sides know, while the controller's side goes to sleep.
//!
//! When the session ends no thread waits for such a peer any more: no sleep rests on shared words alone.

use super::*;
use crate::error::ErrorKind;

/// A peer that never hands anything over stores these values, one after the other, into a word of the waiter, and the
/// supervisor closes. All of that happens at any moment while the waiter goes to sleep.
fn scribble(name: &str, word: usize, values: &'static [u64]) {
    explore(&format!("scribbled {name}, {values:?}"), 3, move |met| {
        let (controller, executor, segment) = lanes();
        // Not dropped when the model fails: the words are gone then.
        let (mut controller, _executor) =
            (ManuallyDrop::new(controller), ManuallyDrop::new(executor));
        let closer = controller.closer();
        let peer = thread::spawn(move || {
            for value in values {
                segment.words()[word].store(*value, Ordering::Relaxed);
            }
        });
        let supervisor = thread::spawn(move || closer.close());
        let error = receive(&mut controller).expect_err("nothing was sent");
        assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{error}");
        count(met, true);
        peer.join().unwrap();
        supervisor.join().unwrap();
    });
}

#[test]
fn the_end_wakes_a_waiter_whose_parker_says_that_it_is_awake() {
    scribble("parker", layout::PARKER_WORDS[0], &[0]);
}

#[test]
fn the_end_wakes_a_waiter_whose_parker_changes_all_the_time() {
    scribble("parker", layout::PARKER_WORDS[0], &[0, sleep::ASLEEP, 0]);
}

#[test]
fn the_end_wakes_a_waiter_whose_parker_holds_something_else() {
    scribble("parker", layout::PARKER_WORDS[0], &[u64::MAX]);
}

#[test]
fn the_end_stays_though_the_peer_says_that_nothing_was_closed() {
    scribble("end", layout::CLOSED_WORD, &[0]);
}

/// The same for a thread that waits for posted calls, and says in the word itself that it sleeps.
#[test]
fn the_end_wakes_a_thread_that_waits_for_posted_calls() {
    explore("scribbled settled", 3, |met| {
        let (controller, _executor, segment) = lanes();
        let (settled, closer) = (controller.settled(), controller.closer());
        let peer = thread::spawn(move || {
            segment.words()[layout::SETTLED_WORD].store(0, Ordering::Relaxed);
        });
        let waiter = thread::spawn(move || settled.wait(2, Deadline::SESSION_END));
        closer.close();
        let ended = waiter.join().unwrap().expect_err("the second never runs");
        assert!(ended.is_disconnected());
        count(met, true);
        peer.join().unwrap();
    });
}
