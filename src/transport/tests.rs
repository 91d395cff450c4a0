//! Both ends of a lane in one process, one of them closed or writing nonsense. `call/tests` tests lanes that work.

#[cfg(feature = "named-segment")]
mod named;
mod shared;

use crate::deadline::Deadline;
use std::sync::Arc;
use std::thread;

use super::{Incoming, Lane, Side, Transport};
use crate::error::ErrorKind;
use crate::limits::RING_LINES;
use crate::shm::Segment;
use crate::sync::Ordering;
use crate::wire::baton::HOP_SHIFT;
use crate::wire::{Kind, layout};

fn lanes() -> (Lane, Lane, Arc<Segment>) {
    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    let segment = Arc::new(Segment::create(c"test", bytes, false).expect("memory"));
    let controller = Lane::new(&segment, Side::Controller);
    (controller, Lane::new(&segment, Side::Executor), segment)
}

/// Receives a message; returns it with its payload.
fn receive(lane: &mut Lane) -> crate::Result<(Incoming, Vec<u8>)> {
    let mut message = Incoming::new();
    lane.receive(Deadline::SESSION_END, &mut message)?;
    let payload = message.payload().bytes().into_owned();
    Ok((message, payload))
}

#[test]
fn closing_ends_a_wait_now_and_later() {
    let (mut lane, mut other, _segment) = lanes();
    let closer = lane.closer();
    other.send(Kind::Setup, 0, b"last words", Deadline::SESSION_END).expect("sent");
    closer.close();
    assert_eq!(receive(&mut lane).expect("handed over before").1, b"last words");
    for _ in 0..2 {
        lane.send(Kind::Call, 0, &[], Deadline::SESSION_END).expect("nobody reads it");
        assert!(receive(&mut lane).expect_err("closed").is_disconnected());
    }

    let (mut lane, _other, _segment) = lanes();
    let closer = lane.closer();
    let waiter = thread::spawn(move || receive(&mut lane).map(drop));
    // Long enough for the waiter to be asleep most of the time; right in either case.
    thread::sleep(std::time::Duration::from_millis(5));
    closer.close();
    assert!(waiter.join().expect("no panic").expect_err("closed").is_disconnected());
}

#[test]
fn nonsense_in_the_baton_is_a_violation() {
    let words = (0..64).map(|bit| 1 << bit).chain((0..512).map(|low| 1 << HOP_SHIFT | low << 1));
    let mut refused = 0;
    for word in words {
        let (mut lane, _other, segment) = lanes();
        let baton = &segment.words()[layout::BATON_WORD..];
        baton[2].store(word, Ordering::Relaxed);
        let closer = lane.closer();
        baton[0].store(word, Ordering::Release);
        closer.close();
        match receive(&mut lane) {
            Ok((message, payload)) => {
                assert!(payload.len() <= 48 || word >> 4 & 63 == 63, "{word:#x}: {message:?}");
            }
            Err(error) => {
                assert!(error.is_disconnected(), "{word:#x}: {error}");
                refused += usize::from(error.kind() == ErrorKind::Violation);
            }
        }
    }
    assert!(refused > 150, "{refused} refused");
}

#[test]
fn a_ring_position_that_lies_is_a_violation() {
    for position in [1, 7, RING_LINES as u64, RING_LINES as u64 + 1, u64::MAX, 1 << 63] {
        let (mut lane, _other, segment) = lanes();
        let baton = &segment.words()[layout::BATON_WORD..];
        baton[2].store(position, Ordering::Relaxed);
        // Hop 1, a result, with the ring bit.
        baton[0].store(1 << HOP_SHIFT | (Kind::Result as u64) << 1 | 1, Ordering::Release);
        assert!(
            receive(&mut lane).expect_err("a lie").kind() == ErrorKind::Violation,
            "{position:#x}"
        );
    }
}
