//! One lane: a baton and two rings in a shared segment, and one order over all three.
//!
//! The holder of the baton sends: it fills the line and swaps the baton's first word, which hands the baton over. The
//! other side polls that word. What does not fit the line goes through the sender's ring first, and so does
//! what was *posted*, that is, sent without waiting for the answer; the baton then carries the ring position up to which
//! the receiver drains before it acts. So posted messages and calls of a lane have one order.
//!
//! A ring is drained only when a baton says so, by a side that is waiting for the baton anyway. When it is full, its
//! writer hands the baton over with [`Kind::Part`], and gets it back with [`Kind::Continue`] when there is room:
//! payloads are not limited by the ring's size, and no side ever blocks on a ring that nobody drains.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Payload, wait};
use crate::error::{Error, Result};
use crate::limits::{CHUNK_BYTES_MAX, PAYLOAD_BYTES_MAX, RING_LINES};
use crate::ring::{Backing, Consumer, Head, LINE_WORDS, Popped, Producer, PushError, ring_words};
use crate::shm::{Segment, Words};
use crate::sync::Ordering;
use crate::sys::{cpu, futex};
use crate::wire::baton::{
    CLOSED, INLINE_BYTES_MAX, INLINE_BYTES_MAX_WITH_RING, WAITER, Word, hop_of, next_hop,
};
use crate::wire::{Kind, layout};

/// Which end of a lane this process is. The executor holds the baton first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Controller,
    Executor,
}

/// One end of a lane. Owned by one thread at a time.
#[derive(Debug)]
pub(crate) struct Lane {
    baton: Words,
    /// The first word of the baton as this side last wrote or saw it.
    word: u64,
    hop: u64,
    outbound: Producer<Cells>,
    /// The position of `outbound` that the peer was told.
    told: u64,
    inbound: Consumer<Cells>,
    /// Payload parts that came ahead of their message.
    parts: Vec<u8>,
    /// Messages that came, in order, and were not yet handed out.
    inbox: VecDeque<Incoming>,
    inbox_bytes: usize,
    /// Code was written since the last message.
    fresh: bool,
}

/// A message that came in.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) kind: Kind,
    /// Function address, handler tag, or what the kind says.
    pub(crate) target: u64,
    /// The call's number, when the message was posted; the baton's own calls have none.
    pub(crate) posted: Option<u64>,
    pub(crate) payload: Payload,
}

/// Ends the waiting of one side of a lane from another thread.
#[derive(Debug)]
pub(crate) struct Closer(Words);

impl Lane {
    /// This process's end of the lane in `segment`.
    ///
    /// # Panics
    ///
    /// When the segment is smaller than [`layout::SEGMENT_WORDS`].
    pub(crate) fn new(segment: &Arc<Segment>, side: Side) -> Self {
        let cells = |start| Cells(segment.view(start..start + ring_words(RING_LINES)));
        let to_executor = cells(layout::RING_TO_EXECUTOR_WORD);
        let to_controller = cells(layout::RING_TO_CONTROLLER_WORD);
        let (outbound, inbound) = match side {
            Side::Controller => (to_executor, to_controller),
            Side::Executor => (to_controller, to_executor),
        };
        Self {
            baton: segment.view(layout::BATON_WORD..layout::BATON_WORD + LINE_WORDS),
            word: 0,
            hop: 0,
            outbound: Producer::new(outbound, RING_LINES, 0),
            told: 0,
            inbound: Consumer::new(inbound, RING_LINES, 0),
            parts: Vec::new(),
            inbox: VecDeque::new(),
            inbox_bytes: 0,
            fresh: false,
        }
    }

    /// The next message tells the peer that code was written.
    pub(crate) fn code_written(&mut self) {
        self.fresh = true;
    }

    /// What ends the waiting of [`Lane::receive`] for good.
    pub(crate) fn closer(&self) -> Closer {
        Closer(self.baton.clone())
    }

    /// Sends a message and hands the baton over. The caller must hold the baton.
    ///
    /// # Errors
    ///
    /// When the payload is longer than [`PAYLOAD_BYTES_MAX`], or the peer broke the protocol or is gone.
    #[inline]
    pub(crate) fn send(&mut self, kind: Kind, target: u64, payload: &[u8]) -> Result<()> {
        let untold = self.outbound.position() != self.told;
        let most = if untold { INLINE_BYTES_MAX_WITH_RING } else { INLINE_BYTES_MAX };
        if payload.len() <= most {
            self.hand_over(kind, target, payload, untold);
        } else {
            let last = self.send_parts(payload)?;
            self.push(Head { kind: Kind::Part as u8, sequence: 0, target: 0 }, last)?;
            self.hand_over(kind, target, &[], true);
        }
        Ok(())
    }

    /// Sends a message that goes ahead of the next one sent, without handing the baton over (unless the ring is full,
    /// then it comes back). The caller must hold the baton.
    ///
    /// # Errors
    ///
    /// As [`Lane::send`].
    pub(crate) fn post(
        &mut self,
        kind: Kind,
        sequence: u64,
        target: u64,
        payload: &[u8],
    ) -> Result<()> {
        let last = self.send_parts(payload)?;
        self.push(Head { kind: kind as u8, sequence, target }, last)
    }

    /// Waits for the next message. After a message that was not posted the caller holds the baton.
    ///
    /// # Errors
    ///
    /// When the peer broke the protocol, or the lane was closed; the lane is of no use then.
    #[inline]
    pub(crate) fn receive(&mut self) -> Result<Incoming> {
        if let Some(message) = self.inbox.pop_front() {
            self.inbox_bytes -= message.payload.len();
            return Ok(message);
        }
        loop {
            let message = self.take_baton()?;
            if self.inbox.is_empty() {
                match message {
                    Some(message) => return Ok(message),
                    None => continue,
                }
            }
            if let Some(message) = message {
                self.keep(message)?;
            }
            return self.receive();
        }
    }

    /// Waits for the baton and drains the inbound ring as far as it says. `None` when the peer only wanted room in its
    /// ring, which it has then; the baton is back with it.
    #[inline]
    fn take_baton(&mut self) -> Result<Option<Incoming>> {
        let found = wait::for_change(&self.baton[0], self.word);
        let expected = next_hop(self.hop);
        if hop_of(found) != expected {
            return Err(if found & CLOSED != 0 {
                Error::disconnected("the peer is gone")
            } else {
                Error::violation(format!("baton hop {:#x}, not {expected:#x}", hop_of(found)))
            });
        }
        let Some(word) = Word::decode(found) else {
            return Err(Error::violation(format!("baton word {found:#x}")));
        };
        self.word = found;
        self.hop = expected;
        if word.fresh {
            cpu::serialize();
        }
        let target = self.baton[1].load(Ordering::Relaxed);
        let mut bytes = [0; INLINE_BYTES_MAX];
        let first = if word.ring { 3 } else { 2 };
        let words = word.inline_bytes.div_ceil(8);
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(&self.baton[first..first + words]) {
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let mut payload = Payload::Inline(bytes, word.inline_bytes);
        if word.ring {
            let position = self.baton[2].load(Ordering::Relaxed);
            self.drain(position)?;
            if word.kind == Kind::Part {
                self.hand_over(Kind::Continue, 0, &[], self.outbound.position() != self.told);
                return Ok(None);
            }
            if !self.parts.is_empty() {
                payload = Payload::Heap(std::mem::take(&mut self.parts));
            }
        }
        Ok(Some(Incoming { kind: word.kind, target, posted: None, payload }))
    }

    /// Moves everything in the inbound ring up to `position` to the inbox.
    fn drain(&mut self, position: u64) -> Result<()> {
        let ahead = position.wrapping_sub(self.inbound.position());
        if ahead > RING_LINES as u64 {
            return Err(Error::violation(format!(
                "ring position {position:#x}: {ahead} lines ahead"
            )));
        }
        while self.inbound.position() != position {
            let head = match self.inbound.pop(&mut self.parts) {
                Popped::Record(head) => head,
                other => {
                    let at = self.inbound.position();
                    return Err(Error::violation(format!(
                        "ring at {at:#x}, told {position:#x}: {other:x?}"
                    )));
                }
            };
            if self.parts.len() as u64 > PAYLOAD_BYTES_MAX {
                return Err(too_long(self.parts.len()));
            }
            match Kind::from_bits(head.kind) {
                Some(Kind::Part) => {}
                Some(kind @ (Kind::Call | Kind::Result | Kind::Failure)) => {
                    let payload = Payload::Heap(std::mem::take(&mut self.parts));
                    let (posted, target) = (Some(head.sequence), head.target);
                    self.keep(Incoming { kind, target, posted, payload })?;
                }
                _ => return Err(Error::violation(format!("record of kind {}", head.kind))),
            }
        }
        Ok(())
    }

    fn keep(&mut self, message: Incoming) -> Result<()> {
        self.inbox_bytes += message.payload.len();
        if self.inbox_bytes as u64 > PAYLOAD_BYTES_MAX {
            return Err(too_long(self.inbox_bytes));
        }
        self.inbox.push_back(message);
        Ok(())
    }

    /// Pushes all but the last part of a payload; returns the last.
    fn send_parts<'a>(&mut self, payload: &'a [u8]) -> Result<&'a [u8]> {
        if payload.len() as u64 > PAYLOAD_BYTES_MAX {
            return Err(Error::exhausted(format!(
                "a payload of {} bytes; at most {PAYLOAD_BYTES_MAX} travel in one call",
                payload.len()
            )));
        }
        let mut rest = payload;
        while rest.len() > CHUNK_BYTES_MAX {
            let (part, others) = rest.split_at(CHUNK_BYTES_MAX);
            self.push(Head { kind: Kind::Part as u8, sequence: 0, target: 0 }, part)?;
            rest = others;
        }
        Ok(rest)
    }

    /// Pushes one record, handing the baton over and taking it back when the ring is full.
    fn push(&mut self, head: Head, bytes: &[u8]) -> Result<()> {
        loop {
            match self.outbound.push(head, bytes) {
                Ok(()) => return Ok(()),
                Err(PushError::Full) => self.make_room()?,
                Err(PushError::Closed) => {
                    return Err(Error::disconnected("the peer closed its end of the lane"));
                }
                Err(PushError::Corrupt(position)) => {
                    return Err(Error::violation(format!("ring read up to {position:#x}")));
                }
            }
        }
    }

    #[cold]
    fn make_room(&mut self) -> Result<()> {
        self.hand_over(Kind::Part, 0, &[], true);
        loop {
            match self.take_baton()? {
                // The peer wanted room as well, and has it.
                None => {}
                Some(message) if message.kind == Kind::Continue => return Ok(()),
                Some(message) => {
                    return Err(Error::violation(format!(
                        "{:?} where room in the ring was due",
                        message.kind
                    )));
                }
            }
        }
    }

    #[inline]
    fn hand_over(&mut self, kind: Kind, target: u64, inline: &[u8], ring: bool) {
        let line = &*self.baton;
        line[1].store(target, Ordering::Relaxed);
        let mut first = 2;
        if ring {
            self.told = self.outbound.position();
            line[2].store(self.told, Ordering::Relaxed);
            first = 3;
        }
        for (chunk, word) in inline.chunks(8).zip(&line[first..]) {
            let mut value = [0; 8];
            value[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
        self.hop = next_hop(self.hop);
        let fresh = std::mem::take(&mut self.fresh);
        let word = Word { hop: self.hop, kind, inline_bytes: inline.len(), ring, fresh };
        self.word = word.encode();
        // [HOP] Release: the peer that acquires this word sees the line and the ring up to the position told.
        let old = line[0].swap(self.word, Ordering::AcqRel);
        if old & (WAITER | CLOSED) != 0 {
            if old & CLOSED != 0 {
                line[0].fetch_or(CLOSED, Ordering::AcqRel);
            }
            futex::wake(&line[0]);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.outbound.close();
        self.inbound.close();
    }
}

impl Closer {
    /// Ends the lane: whoever waits on it, now or later, learns that the peer is gone. A message that was handed over
    /// before is still received.
    pub(crate) fn close(&self) {
        self.0[0].fetch_or(CLOSED, Ordering::AcqRel);
        futex::wake(&self.0[0]);
    }
}

fn too_long(bytes: usize) -> Error {
    Error::violation(format!("{bytes} bytes came in, at most {PAYLOAD_BYTES_MAX} may"))
}

/// The words of a ring in a segment.
#[derive(Debug)]
struct Cells(Words);

impl Backing for Cells {
    #[inline]
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.0[word].load(order)
    }

    #[inline]
    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.0[word].store(value, order);
    }
}
