//! What goes through a lane's ring, and how much of it the peer knows of.

use super::cells::Cells;
use crate::error::{Error, Result};
use crate::limits::{CHUNK_BYTES_MAX, PAYLOAD_BYTES_MAX, RING_LINES};
use crate::ring::{Head, Producer, PushError};

/// The side of a lane's ring that records go in at.
#[derive(Debug)]
pub(super) struct Outbox {
    outbound: Producer<Cells>,
    /// The position that the peer was told.
    told: u64,
}

impl Outbox {
    /// Of the ring in these cells, from this position on.
    pub(super) fn new(outbound: Cells, start: u64) -> Self {
        Self { outbound: Producer::new(outbound, RING_LINES, start), told: start }
    }

    /// Whether there is anything that the peer was not told of.
    #[inline(always)]
    pub(super) fn is_untold(&self) -> bool {
        self.outbound.position() != self.told
    }

    /// Up to where the peer may drain. It is told now.
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

    /// Nothing more comes.
    pub(super) fn close(&mut self) {
        self.outbound.close();
    }
}

/// What of a payload goes into each record, the last apart.
///
/// # Errors
///
/// When it is too long.
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
