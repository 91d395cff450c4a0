//! How other threads end a lane.

use super::lifeline::End;
use super::parker::SharedParker;
use crate::shm::Words;
use crate::sleep;
use crate::sync::Ordering;

/// Ends the waits of this side of a lane from another thread, and asks the other side to end.
#[derive(Debug)]
pub(crate) struct Closer {
    end: End,
    /// The word that tells the peer of the end.
    closed: Words,
    /// What the peer sleeps on.
    peer: SharedParker,
}

impl Closer {
    pub(in crate::transport) fn new(end: End, closed: Words, peer: SharedParker) -> Self {
        Self { end, closed, peer }
    }

    /// Ends the waits of this side, now and later, and tells the other side nothing.
    pub(crate) fn end_waits(&self) {
        self.end.announce();
    }

    /// Ends the lane: a waiter of this side, now or later, learns that the peer is gone. Messages that were handed over before
    /// are still received.
    ///
    /// Does nothing in a forked child, which has no part in the lane.
    pub(crate) fn close(&self) {
        if !self.end.origin().is_own() {
            return;
        }
        self.end.announce();
        // [CLOSE] Release: a peer that sees it sees what was handed over before.
        self.closed[0].store(1, Ordering::Release);
        // Whatever the word of the peer's parker says: its owner may have written there.
        sleep::wake_anyway(&self.peer);
    }
}
