//! One end of a pipeline: a ring each way, used at the same time, and a parker for each side to sleep on.
//!
//! The sides do not alternate. A record is published when it is pushed, and a peer that polls sees it at once. A peer that may
//! sleep has to be woken behind the last record of a batch ([`Outbound::wake`]). That costs one fence for the batch; a record
//! needs none.

use std::sync::Arc;

use super::cells::Cells;
use super::wait::lifeline::Lifeline;
use super::wait::parker::SharedParker;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::{CHUNK_BYTES_MAX, PAYLOAD_BYTES_MAX, RING_LINES};
use crate::ring::{
    Consumer, Head, LINE_PAYLOAD_BYTES, LineHead, Piece, Popped, Producer, PushError, ring_words,
};
use crate::shm::Segment;
use crate::sleep;
use crate::sync::Ordering;
use crate::sys::cpu;
use crate::transport::Side;
#[cfg(not(model))]
use crate::transport::lane::segment;
use crate::transport::wait::cpu_hints::CpuHints;
#[cfg(not(model))]
use crate::transport::wait::lifeline::{End, process_holder};
use crate::transport::wait::poll_policy::PollPolicy;
use crate::transport::wait::polling::Polling;
use crate::wire::pipeline::{
    CALLS_WORD, CONTROLLER_PARKER_WORD, CPU_HINT_WORDS, EXECUTOR_PARKER_WORD, HEADER, HOLDER_WORD,
    RESULTS_WORD, Record, SEGMENT_WORDS, SPIN_NS_WORD, WORD_BYTES,
};

/// A line's bytes of payload. Those behind the payload of its record mean nothing.
pub(crate) type Line = [u8; LINE_PAYLOAD_BYTES];

/// A line to receive into.
pub(crate) const EMPTY_LINE: Line = [0; LINE_PAYLOAD_BYTES];

/// Turns ([`cpu::spin`]) between polls for results: the executor fills a line in about that time.
const TURNS_BETWEEN_RESULTS: usize = 150;

/// How far ahead lines are fetched that will be written: further than the peer that polls has come.
const PREFETCH_LINES: u64 = 8;

/// The writing half of an end. Owned by one thread at a time.
#[derive(Debug)]
pub(crate) struct Outbound {
    ring: Producer<Cells>,
    peer: SharedParker,
}

/// The reading half of an end. Owned by one thread at a time.
#[derive(Debug)]
pub(crate) struct Inbound {
    side: Side,
    ring: Consumer<Cells>,
    own: SharedParker,
    /// Payload parts that came ahead of their record.
    parts: Vec<u8>,
    /// Records of several lines were taken, so the writer may be waiting for their room.
    is_room_news: bool,
}

/// What [`Inbound::receive`] found.
#[derive(Debug)]
pub(crate) enum Received {
    /// A record with its payload in the line.
    Line(LineHead),
    /// Results of [`WORD_BYTES`] each, at least one, in the line; more of the record may come.
    Words(Piece),
    /// A record with a longer payload, in the buffer.
    Long(Head),
    /// Nothing yet.
    Nothing,
    /// The peer closed its end, and everything before was received.
    Closed,
}

/// Memory for a pipeline, to be shared with the executor; both sides poll by this policy.
///
/// # Errors
///
/// When memory runs out.
pub(crate) fn create_segment(policy: PollPolicy) -> Result<Segment> {
    let bytes = SEGMENT_WORDS as u64 * 8;
    let segment = Segment::create(c"farcall-pipeline", bytes, false)?;
    segment.back(0, bytes)?;
    for (word, value) in segment.words().iter().zip(HEADER) {
        word.store(value, Ordering::Release);
    }
    policy.store(&segment.words()[SPIN_NS_WORD]);
    Ok(segment)
}

/// Refuses a received segment that is not the segment of a pipeline of this version.
///
/// # Errors
///
/// `ErrorKind::Violation`, with both versions where the segment has one.
#[cfg(not(model))]
pub(crate) fn check(segment: &Segment) -> Result<()> {
    segment::check(segment, HEADER, SEGMENT_WORDS, "the segment of a pipeline")
}

/// What ends the controller's waits at a pipeline: `end`, the death of the executor's thread at the other side, and the death
/// of its process. The process holds a lock in `first`, the segment of the first lane.
#[cfg(not(model))]
pub(crate) fn lifeline(segment: &Arc<Segment>, end: End, first: &Arc<Segment>) -> Lifeline {
    let thread = segment.view(HOLDER_WORD..HOLDER_WORD + 1);
    Lifeline::new(end).with_holders(thread, process_holder(first))
}

/// This process's end of a pipeline: both halves, and how it waits for the other. The rings begin at `position`, on both sides the same.
///
/// # Panics
///
/// When the segment is smaller than [`SEGMENT_WORDS`].
pub(crate) fn end(
    segment: &Arc<Segment>,
    side: Side,
    lifeline: &Lifeline,
    position: u64,
) -> (Outbound, Inbound, Polling) {
    let cells = |start| Cells(segment.view(start..start + ring_words(RING_LINES)));
    let parker = |word| SharedParker::new(segment.view(word..word + 1), lifeline.clone());
    let (calls, results) = (cells(CALLS_WORD), cells(RESULTS_WORD));
    let (executor, controller) = (parker(EXECUTOR_PARKER_WORD), parker(CONTROLLER_PARKER_WORD));
    let (from, to, own, peer) = match side {
        Side::Controller => (results, calls, controller, executor),
        Side::Executor => (calls, results, executor, controller),
    };
    let outbound = Outbound { ring: Producer::new(to, RING_LINES, position), peer };
    let ring = Consumer::new(from, RING_LINES, position);
    let ring = if side == Side::Controller { ring.of_growing() } else { ring };
    let policy = PollPolicy::load(&segment.words()[SPIN_NS_WORD]);
    let polling = Polling::new(policy, CpuHints::new(segment, CPU_HINT_WORDS, side));
    let inbound = Inbound { side, ring, own, parts: Vec::new(), is_room_news: false };
    (outbound, inbound, polling)
}

impl Outbound {
    /// Sends a record, or as much of it as there is room for. `sent` counts the payload bytes that were sent. True when
    /// nothing is left; otherwise call again with the same arguments.
    ///
    /// # Errors
    ///
    /// When the peer broke the protocol, or closed its end.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        kind: Record,
        sequence: u64,
        target: u64,
        payload: &[u8],
        sent: &mut usize,
    ) -> Result<bool> {
        while payload.len() - *sent > CHUNK_BYTES_MAX {
            let part = &payload[*sent..*sent + CHUNK_BYTES_MAX];
            let head = Head { kind: Record::Part as u8, sequence: 0, target: 0 };
            if !pushed(self.ring.push(head, part))? {
                return Ok(false);
            }
            *sent += CHUNK_BYTES_MAX;
        }
        let head = Head { kind: kind as u8, sequence, target };
        pushed(self.ring.push(head, &payload[*sent..]))
    }

    /// Sends a result of one word, in a line with the results of the calls before it. If this is not the last of them
    /// (`is_last`), [`Outbound::complete`] must follow before any other record. False when there is no room.
    ///
    /// # Errors
    ///
    /// As [`Outbound::send`].
    #[inline(always)]
    pub(crate) fn send_word(
        &mut self,
        sequence: u64,
        word: [u8; WORD_BYTES],
        is_last: bool,
    ) -> Result<bool> {
        let head = Head { kind: Record::Results as u8, sequence, target: 0 };
        pushed(self.ring.push_word(head, word, is_last))
    }

    /// Completes the line of results: no more are added to it.
    #[inline]
    pub(crate) fn complete(&mut self) {
        self.ring.complete(Record::Results as u8);
    }

    /// True when [`Outbound::send`] could send more of a payload of which `payload_bytes` bytes are left.
    pub(crate) fn has_room(&mut self, payload_bytes: usize) -> bool {
        self.ring.is_ready(payload_bytes.min(CHUNK_BYTES_MAX))
    }

    /// A hint that many records will be sent.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        self.ring.prefetch(PREFETCH_LINES);
    }

    /// Wakes the peer if it sleeps. It then sees all records sent before.
    #[inline]
    pub(crate) fn wake(&self) {
        sleep::wake(&self.peer);
    }

    /// Wakes the peer if it is seen asleep, without a fence. [`Outbound::wake`] must follow at some time.
    #[inline]
    pub(crate) fn wake_seen(&self) {
        sleep::wake_seen(&self.peer);
    }

    /// What the peer sleeps on, for others to wake it.
    pub(crate) fn peer_parker(&self) -> SharedParker {
        self.peer.clone()
    }

    /// Ends this direction behind the records sent so far.
    pub(crate) fn close(&mut self) {
        self.ring.close();
        self.wake();
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        if self.peer.lifeline().end().origin().is_own() {
            self.close();
        }
    }
}

impl Inbound {
    /// Takes the next record. A payload of one line goes to `line`, a longer one to `long`, in place of what was there.
    ///
    /// # Errors
    ///
    /// When the peer broke the protocol.
    #[inline(always)]
    pub(crate) fn receive(&mut self, line: &mut Line, long: &mut Vec<u8>) -> Result<Received> {
        if self.parts.is_empty()
            && let Some(head) = self.ring.pop_line(line)
        {
            if head.kind() <= Record::Failure as u8 || head.kind() == Record::Calls as u8 {
                return Ok(Received::Line(head));
            }
            self.parts.extend_from_slice(&line[..head.payload_bytes()]);
            self.join(head.kind())?;
        }
        self.receive_long(long)
    }

    /// As [`Inbound::receive`], for the side that receives results.
    #[inline(always)]
    pub(crate) fn receive_results(
        &mut self,
        line: &mut Line,
        long: &mut Vec<u8>,
    ) -> Result<Received> {
        if self.parts.is_empty()
            && let Some(piece) = self.ring.pop_piece(line)
        {
            let (kind, bytes) = (piece.kind(), piece.bytes());
            if kind == Record::Results as u8 && bytes > 0 && bytes.is_multiple_of(WORD_BYTES) {
                return Ok(Received::Words(piece));
            }
            match piece.whole() {
                Some(head) if kind <= Record::Failure as u8 => return Ok(Received::Line(head)),
                _ => return self.judge(kind, &line[..bytes]),
            }
        }
        self.receive_long(long)
    }

    /// Handles a record of one line that is no result.
    #[cold]
    fn judge(&mut self, kind: u8, payload: &[u8]) -> Result<Received> {
        self.parts.extend_from_slice(payload);
        if self.join(kind)? {
            return Err(Error::violation(format!(
                "{:?}, {} bytes of it, in the ring of results",
                Record::from_bits(kind),
                payload.len()
            )));
        }
        Ok(Received::Nothing)
    }

    #[inline(never)]
    fn receive_long(&mut self, long: &mut Vec<u8>) -> Result<Received> {
        loop {
            let head = match self.ring.pop(&mut self.parts) {
                Popped::Record(head) => head,
                Popped::Empty if self.parts.is_empty() || !self.ring.is_growing() => {
                    return Ok(Received::Nothing);
                }
                Popped::Empty => {
                    let bytes = self.parts.len();
                    return Err(Error::violation(format!("small results behind {bytes} bytes")));
                }
                Popped::Closed => return Ok(Received::Closed),
                Popped::Corrupt(word) => {
                    let at = self.ring.position();
                    return Err(Error::violation(format!("pipeline record {word:#x} at {at:#x}")));
                }
            };
            self.is_room_news = true;
            if self.join(head.kind)? {
                long.clear();
                std::mem::swap(long, &mut self.parts);
                return Ok(Received::Long(head));
            }
        }
    }

    /// True when the record of this kind, which has just been added to the parts, completes a message.
    fn join(&mut self, kind: u8) -> Result<bool> {
        let bytes = self.parts.len();
        if bytes as u64 > PAYLOAD_BYTES_MAX {
            return Err(Error::violation(format!(
                "{bytes} bytes came in a pipeline, at most {PAYLOAD_BYTES_MAX} may"
            )));
        }
        match (Record::from_bits(kind), self.side) {
            (Some(Record::Call | Record::Calls | Record::Result | Record::Failure), _) => Ok(true),
            // All parts have this size, so their number has a bound: that of the longest payload.
            (Some(Record::Part), _) if bytes > 0 && bytes.is_multiple_of(CHUNK_BYTES_MAX) => {
                Ok(false)
            }
            (Some(Record::Fresh), Side::Executor) if bytes == 0 => {
                cpu::serialize();
                Ok(false)
            }
            _ => Err(Error::violation(format!(
                "pipeline record of kind {kind} behind {bytes} bytes"
            ))),
        }
    }

    /// A hint that many records are there: fetches the line `lines` behind the next one.
    #[inline(always)]
    pub(crate) fn prefetch(&self, lines: u64) {
        self.ring.prefetch(lines);
    }

    /// True when there is nothing to receive, not even the end.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// True once after records were taken for the room of which the peer may be waiting: the caller must wake it.
    #[inline]
    pub(crate) fn take_room_news(&mut self) -> bool {
        std::mem::take(&mut self.is_room_news)
    }

    /// Passes the time between two polls for results. A poll takes the line away from the executor, which is about to add to it.
    #[inline]
    pub(crate) fn pause(&self) {
        cpu::spin(TURNS_BETWEEN_RESULTS);
    }

    /// Sleeps until the peer or another thread unparks this side, unless `has_cause` to stay awake. Returns early for any
    /// reason.
    pub(crate) fn sleep_unless(&self, deadline: Deadline, has_cause: impl FnOnce() -> bool) {
        sleep::sleep_unless(&self.own, deadline, has_cause);
    }

    /// What ends this side's waits.
    pub(crate) fn lifeline(&self) -> &Lifeline {
        self.own.lifeline()
    }
}

impl Drop for Inbound {
    fn drop(&mut self) {
        if self.lifeline().end().origin().is_own() {
            self.ring.close();
        }
    }
}

#[inline(always)]
fn pushed(result: std::result::Result<(), PushError>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(PushError::Full) => Ok(false),
        Err(PushError::Closed) => {
            Err(Error::disconnected("the peer closed its end of the pipeline"))
        }
        Err(PushError::Corrupt(position)) => {
            Err(Error::violation(format!("pipeline read up to {position:#x}")))
        }
    }
}
