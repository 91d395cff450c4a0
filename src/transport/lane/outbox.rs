//! The sending side of a lane's ring, and how far the peer has been told of it.

use crate::error::{Error, Result};
use crate::limits::{CHUNK_BYTES_MAX, PAYLOAD_BYTES_MAX, RING_LINES};
use crate::ring::{Head, Producer, PushError};
use crate::transport::cells::Cells;

/// The end of a lane's ring at which records go in.
#[derive(Debug)]
pub(super) struct Outbox {
    outbound: Producer<Cells>,
    /// The position that the peer was told.
    told: u64,
}

impl Outbox {
    /// The outbox of the ring in these cells, which begins at this position.
    pub(super) fn new(outbound: Cells, start: u64) -> Self {
        Self { outbound: Producer::new(outbound, RING_LINES, start), told: start }
    }

    /// The positions that this side knows, for [`Outbox::go_on_from`].
    #[cfg(not(model))]
    pub(super) fn positions(&self) -> [u64; 4] {
        let [position, consumed, stale] = self.outbound.positions();
        [position, consumed, stale, self.told]
    }

    /// Goes on from positions that this side had before it lost its memory of them.
    #[cfg(not(model))]
    pub(super) fn go_on_from(&mut self, positions: [u64; 4]) {
        let [position, consumed, stale, told] = positions;
        self.outbound.go_on_from([position, consumed, stale]);
        self.told = told;
    }

    /// True when the ring has records of which the peer was not told.
    #[inline(always)]
    pub(super) fn is_untold(&self) -> bool {
        self.outbound.position() != self.told
    }

    /// The position up to which the peer may drain. The caller tells it to the peer.
    #[inline(always)]
    pub(super) fn tell(&mut self) -> u64 {
        self.told = self.outbound.position();
        self.told
    }

    /// Adds a record; false when there is no room for it.
    ///
    /// # Errors
    ///
    /// When the peer has closed its end, or says that it has read what was never written.
    pub(super) fn push(&mut self, head: Head, bytes: &[u8]) -> Result<bool> {
        match self.outbound.push(head, bytes) {
            Ok(()) => Ok(true),
            Err(PushError::Full) => Ok(false),
            Err(PushError::Closed) => {
                Err(Error::disconnected("the peer closed its end of the lane"))
            }
            Err(PushError::Corrupt(position)) => {
                Err(Error::violation(format!("ring read up to {position:#x}")))
            }
        }
    }

    /// Tells the peer that nothing more comes.
    pub(super) fn close(&mut self) {
        self.outbound.close();
    }
}

/// Splits a payload into the parts of its records, and returns the last part separately.
///
/// # Errors
///
/// When the payload is too long.
pub(super) fn parts(payload: &[u8]) -> Result<(impl Iterator<Item = &[u8]>, &[u8])> {
    if payload.len() as u64 > PAYLOAD_BYTES_MAX {
        return Err(Error::exhausted(format!(
            "a payload of {} bytes; at most {PAYLOAD_BYTES_MAX} travel in one call",
            payload.len()
        )));
    }
    let whole = payload.len().saturating_sub(1) / CHUNK_BYTES_MAX * CHUNK_BYTES_MAX;
    let (parts, last) = payload.split_at(whole);
    Ok((parts.chunks(CHUNK_BYTES_MAX), last))
}
