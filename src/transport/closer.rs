//! How other threads end a lane.

use super::bed::SharedBed;
use super::lifeline::End;
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
    peer: SharedBed,
}

impl Closer {
    pub(super) fn new(end: End, closed: Words, peer: SharedBed) -> Self {
        Self { end, closed, peer }
    }

    /// Ends the lane: a waiter of this side, now or later, learns that the peer is gone. Messages that were handed over before
    /// are still received.
    pub(crate) fn close(&self) {
        self.end.announce();
        // [CLOSE] Release: a peer that sees it sees what was handed over before.
        self.closed[0].store(1, Ordering::Release);
        // Wakes the peer whatever its word says: the peer may have written nonsense there.
        sleep::rouse(&self.peer);
    }
}
