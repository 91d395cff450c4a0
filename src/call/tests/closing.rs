//! A lane that ends in the middle of nested calls.

use crate::deadline::Deadline;
use std::sync::Arc;

use crate::call::{Endpoint, Handler};
use crate::shm::Segment;
use crate::sync::Ordering;
use crate::transport::{Closer, Lane, Payload, Side, Transport};
use crate::wire::baton::Word;
use crate::wire::{Kind, layout};

/// A handler that sees the lane end, and calls back nevertheless.
struct CallsBack<'a>(&'a Endpoint<Lane>, Closer);

impl Handler<Lane> for CallsBack<'_> {
    type Reply = Vec<u8>;

    fn handle(&self, _: u64, _: Payload<'_>, spare: Vec<u8>) -> Result<Vec<u8>, String> {
        self.1.close();
        let outcome = self.0.call(self, Deadline::SESSION_END, 2, &[], |_| ());
        let error = outcome.expect_err("it is over");
        assert!(error.is_disconnected(), "{error}");
        // As a handler does that does not need the result.
        Ok(spare)
    }
}

#[test]
fn who_lost_the_lane_in_a_nested_call_sends_nothing_more() {
    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    let segment = Arc::new(Segment::create(c"test", bytes, false).expect("memory"));
    let ours = Endpoint::new(Lane::new(&segment, Side::Controller));
    let theirs = Endpoint::new(Lane::new(&segment, Side::Executor));
    theirs.send_setup(&[]).expect("sent");
    ours.receive_setup(Deadline::SESSION_END).expect("a setup");
    ours.with_transport(|lane| lane.send(Kind::Call, 1, &[], Deadline::SESSION_END)).expect("sent");
    let handler = CallsBack(&theirs, theirs.with_transport(|lane| lane.closer()));
    let error = theirs.serve(&handler).expect_err("the end");
    assert!(error.is_disconnected(), "{error}");
    // This side may not send: the call back, its last message, is still in the line.
    let word = segment.words()[layout::BATON_WORD].load(Ordering::Acquire);
    assert_eq!(Word::decode(word).expect("a message").kind, Kind::Call);
}
