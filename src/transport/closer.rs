//! The end of a lane, as other threads bring it about.

use super::bed::SharedBed;
use super::settled::Settled;
use crate::shm::Words;
use crate::sleep;
use crate::sync::Ordering;

/// Ends the waiting of one side of a lane from another thread.
#[derive(Debug)]
pub(crate) struct Closer {
    /// The word that says so.
    closed: Words,
    /// Those of both sides: it is not known here which waits.
    beds: [SharedBed; 2],
    settled: Settled,
}

impl Closer {
    pub(super) fn new(closed: Words, beds: [SharedBed; 2], settled: Settled) -> Self {
        Self { closed, beds, settled }
    }

    /// Ends the lane: whoever waits on it, now or later, learns that the peer is gone. A message that was handed over
    /// before is still received.
    pub(crate) fn close(&self) {
        // [CLOSE] Release: whoever sees it sees what the peer handed over before its end was known.
        self.closed[0].store(1, Ordering::Release);
        for bed in &self.beds {
            sleep::wake(bed);
        }
        self.settled.close();
    }
}
