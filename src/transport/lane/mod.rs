//! One lane: a baton, a bulk buffer and two rings in a shared segment, and one order over all of them.
//!
//! The holder of the baton sends: it fills the line and stores the baton's first word, which hands the baton over. The other
//! side polls that word. A payload that does not fit the line is copied to the bulk buffer, and the line says where. *Posted*
//! messages, which are sent without waiting for the answer, go through the sender's ring, and so does what does not fit the
//! buffer. The baton then carries the ring position up to which the receiver drains before it acts. So posted messages and
//! calls of a lane have one order.
//!
//! Arguments stay in the bulk buffer, untouched, until their call is answered; those of nested calls lie behind them. Each side
//! knows where free memory begins, because it has sent or received every call under way.
//!
//! A ring is drained only when a baton says so, by a side that is waiting for the baton anyway. When a ring is full, its
//! writer hands the baton over with [`Kind::Part`], and gets it back with [`Kind::Continue`] when there is room. So the ring's
//! size does not limit payloads, and no side blocks on a ring that is not drained.

mod inbox;
mod outbox;
mod receiving;
#[cfg(not(model))]
pub(crate) mod segment;

use std::sync::Arc;

use self::inbox::Inbox;
use self::outbox::Outbox;
use super::Transport;
use super::cells::Cells;
use super::message::Incoming;
use super::side::Side;
use super::wait::closer::Closer;
use super::wait::cpu_hints::CpuHints;
#[cfg(not(model))]
use super::wait::lifeline::process_holder;
use super::wait::lifeline::{End, Lifeline};
use super::wait::parker::SharedParker;
use super::wait::poll_policy::PollPolicy;
use super::wait::polling::Polling;
use super::wait::settled::Settled;
use super::wait::waiter::Waiter;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::RING_LINES;
use crate::ring::{Head, LINE_WORDS, ring_words};
use crate::shm::{BulkBuffer, Segment, Words};
use crate::sleep;
#[cfg(any(not(model), loom))]
use crate::sleep::Doorbell;
use crate::sync::Ordering;
use crate::sys::cpu;
use crate::wire::baton::{
    INLINE_BYTES_MAX, INLINE_BYTES_MAX_WITH_RING, Word, encode_place, next_hop,
};
use crate::wire::{Kind, layout};

/// Bytes that are copied to the bulk buffer between two looks at the clock.
const PIECE_BYTES: usize = 1 << 20;

/// Payloads in the bulk buffer begin at lines.
const LINE_BYTES: usize = LINE_WORDS * 8;

/// Turns ([`cpu::spin`]) that this side waits longer when the peer will run new code, which the peer has to fetch.
const TURNS_FRESH: usize = 40;

/// Words that say how far one side of a lane has come.
#[cfg(not(model))]
pub(crate) const PROGRESS_WORDS: usize = 7;

/// One end of a lane. Owned by one thread at a time.
#[derive(Debug)]
pub(crate) struct Lane {
    baton: Words,
    /// Which posted calls have run.
    settled: Settled,
    /// One word: not 0 when the side that wrote it has closed its end.
    closed: Words,
    lifeline: Lifeline,
    /// The first word of the baton as this side last wrote or saw it.
    word: u64,
    hop: u64,
    bulk: BulkBuffer,
    /// Where in the bulk buffer no arguments of a call under way lie any more.
    free: usize,
    outbox: Outbox,
    inbox: Inbox,
    /// Code was written since the last message.
    fresh: bool,
    /// What this side waits with.
    waiter: Waiter,
    /// What the sides sleep on, this one first.
    parkers: [SharedParker; 2],
}

impl Lane {
    /// This process's end of the lane in `segment`.
    ///
    /// # Panics
    ///
    /// When the segment is smaller than [`layout::SEGMENT_WORDS`].
    pub(crate) fn new(segment: &Arc<Segment>, side: Side) -> Self {
        Self::starting_at(segment, side, Lifeline::new(End::new()), 0, 0)
    }

    /// The controller's end of the lane in `segment`. Its waits also end with the executor's thread at the other end, and with
    /// the executor's process, which holds a lock in `first`.
    #[cfg(not(model))]
    pub(crate) fn of_executor(segment: &Arc<Segment>, first: &Arc<Segment>) -> Self {
        let thread = segment.view(layout::HOLDER_WORD..layout::HOLDER_WORD + 1);
        let lifeline = Lifeline::new(End::new()).with_holders(thread, process_holder(first));
        Self::starting_at(segment, Side::Controller, lifeline, 0, 0)
    }

    /// As [`Lane::new`], behind this hop and from this position of both rings on.
    pub(super) fn starting_at(
        segment: &Arc<Segment>,
        side: Side,
        lifeline: Lifeline,
        hop: u64,
        start: u64,
    ) -> Self {
        let cells = |start| Cells(segment.view(start..start + ring_words(RING_LINES)));
        let to_executor = cells(layout::RING_TO_EXECUTOR_WORD);
        let to_controller = cells(layout::RING_TO_CONTROLLER_WORD);
        let word = |word| segment.view(word..word + 1);
        let [controller, executor] =
            layout::PARKER_WORDS.map(|parker| SharedParker::new(word(parker), lifeline.clone()));
        let (outbound, inbound, parkers) = match side {
            Side::Controller => (to_executor, to_controller, [controller, executor]),
            Side::Executor => (to_controller, to_executor, [executor, controller]),
        };
        let closed = word(layout::CLOSED_WORD);
        let cpu_hints = CpuHints::new(segment, layout::CPU_HINT_WORDS, side);
        let policy = PollPolicy::load(&segment.words()[layout::SPIN_NS_WORD]);
        let [_, executor_cpu] = layout::CPU_HINT_WORDS.map(word);
        Self {
            baton: segment.view(layout::BATON_WORD..layout::BATON_WORD + LINE_WORDS),
            settled: Settled::new(
                word(layout::SETTLED_WORD),
                lifeline.clone(),
                policy,
                executor_cpu,
            ),
            word: 0,
            hop,
            bulk: BulkBuffer::new(segment, layout::FIXED_WORDS * 8..layout::SEGMENT_WORDS * 8),
            free: 0,
            outbox: Outbox::new(outbound, start),
            inbox: Inbox::new(inbound, start),
            fresh: false,
            waiter: Waiter::new(
                parkers[0].clone(),
                closed.clone(),
                lifeline.clone(),
                Polling::new(policy, cpu_hints),
            ),
            closed,
            lifeline,
            parkers,
        }
    }

    /// From now on both sides sleep by a doorbell.
    #[cfg(any(not(model), loom))]
    pub(super) fn sleep_by(&mut self, doorbell: Arc<dyn Doorbell>) {
        self.parkers =
            self.parkers.each_ref().map(|parker| parker.with_doorbell(Arc::clone(&doorbell)));
        self.waiter.sleep_on(self.parkers[0].clone());
    }

    /// What ends all waits of [`Transport::receive`] from another thread.
    pub(crate) fn closer(&self) -> Closer {
        Closer::new(self.lifeline.end().clone(), self.closed.clone(), self.parkers[1].clone())
    }

    /// What ends this side's waits from another thread without telling the peer.
    pub(crate) fn end(&self) -> &End {
        self.lifeline.end()
    }

    /// How far this side has come, for [`Lane::go_on_from`].
    #[cfg(not(model))]
    pub(crate) fn progress(&self) -> [u64; PROGRESS_WORDS] {
        let [position, consumed, stale, told] = self.outbox.positions();
        [self.word, self.hop, position, consumed, stale, told, self.inbox.position()]
    }

    /// Goes on from where this side had come before it lost its memory of it. No message is kept, and no record is half read.
    #[cfg(not(model))]
    pub(crate) fn go_on_from(&mut self, progress: [u64; PROGRESS_WORDS]) {
        let [word, hop, position, consumed, stale, told, inbound] = progress;
        (self.word, self.hop) = (word, hop);
        self.outbox.go_on_from([position, consumed, stale, told]);
        self.inbox.go_on_from(inbound);
    }

    /// What other threads wait with until posted calls of this lane have run.
    pub(crate) fn settled(&self) -> Settled {
        self.settled.clone()
    }
}

impl Transport for Lane {
    fn code_written(&mut self) {
        self.fresh = true;
    }

    #[inline(always)]
    fn send(&mut self, kind: Kind, target: u64, payload: &[u8], deadline: Deadline) -> Result<()> {
        if kind == Kind::Call && !self.inbox.is_quiet() {
            return self.send_inside(target, payload, deadline);
        }
        let untold = self.outbox.is_untold();
        let most = if untold { INLINE_BYTES_MAX_WITH_RING } else { INLINE_BYTES_MAX };
        if payload.len() <= most {
            self.hand_over(kind, target, payload, untold, false);
            return Ok(());
        }
        self.send_long(kind, target, payload, untold, deadline)
    }

    fn post(
        &mut self,
        kind: Kind,
        sequence: u64,
        target: u64,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<()> {
        let last = self.send_parts(payload, deadline)?;
        self.push(Head { kind: kind as u8, sequence, target }, last, deadline)
    }

    #[inline(always)]
    fn receive(&mut self, deadline: Deadline, message: &mut Incoming) -> Result<bool> {
        if !self.inbox.is_quiet() {
            return self.receive_inside(deadline, message);
        }
        self.receive_next(deadline, message)
    }

    #[inline]
    fn mark(&self) -> usize {
        self.free
    }

    #[inline]
    fn release(&mut self, mark: usize) {
        self.free = mark;
    }

    fn settle(&mut self, sequence: u64) {
        self.settled.cover(sequence);
    }

    fn is_cut_off(&self) -> bool {
        self.lifeline.end().has_come()
    }
}

impl Lane {
    /// Sends a call while messages are kept, which wait for its answer.
    #[cold]
    fn send_inside(&mut self, target: u64, payload: &[u8], deadline: Deadline) -> Result<()> {
        let untold = self.outbox.is_untold();
        if payload.len() <= INLINE_BYTES_MAX_WITH_RING {
            self.hand_over(Kind::Call, target, payload, untold, false);
        } else {
            self.send_long(Kind::Call, target, payload, untold, deadline)?;
        }
        self.inbox.call_was_sent();
        Ok(())
    }

    /// Sends a payload that does not fit the line.
    fn send_long(
        &mut self,
        kind: Kind,
        target: u64,
        payload: &[u8],
        untold: bool,
        deadline: Deadline,
    ) -> Result<()> {
        let start = self.free;
        if payload.len() > self.bulk.bytes() - start {
            let last = self.send_parts(payload, deadline)?;
            self.push(Head { kind: Kind::Part as u8, sequence: 0, target: 0 }, last, deadline)?;
            self.hand_over(kind, target, &[], true, false);
            return Ok(());
        }
        for (number, piece) in payload.chunks(PIECE_BYTES).enumerate() {
            if kind == Kind::Call && number > 0 && deadline.has_passed() {
                return Err(Error::timeout(
                    "the arguments were not copied in time; nothing was sent",
                ));
            }
            self.bulk.write(start + number * PIECE_BYTES, piece)?;
        }
        if kind == Kind::Call {
            self.free = (start + payload.len()).next_multiple_of(LINE_BYTES);
        }
        let place = encode_place(start / LINE_BYTES, payload.len());
        self.hand_over(kind, target, &place.to_le_bytes(), untold, true);
        Ok(())
    }

    /// Pushes all but the last part of a payload; returns the last part.
    fn send_parts<'a>(&mut self, payload: &'a [u8], deadline: Deadline) -> Result<&'a [u8]> {
        let (parts, last) = outbox::parts(payload)?;
        for part in parts {
            self.push(Head { kind: Kind::Part as u8, sequence: 0, target: 0 }, part, deadline)?;
        }
        Ok(last)
    }

    /// Pushes one record. When the ring is full, hands the baton over and waits for it to come back. A deadline that passes
    /// meanwhile ends the lane, since half of a message is in the ring.
    fn push(&mut self, head: Head, bytes: &[u8], deadline: Deadline) -> Result<()> {
        if self.outbox.push(head, bytes)? {
            return Ok(());
        }
        self.make_room(deadline)?;
        if self.outbox.push(head, bytes)? {
            return Ok(());
        }
        Err(Error::violation("the peer says that there is room, and has made none"))
    }

    #[cold]
    fn make_room(&mut self, deadline: Deadline) -> Result<()> {
        // A peer that is quick makes each wait short, and not their sum.
        if deadline.has_passed() {
            return Err(self.cut_off());
        }
        self.hand_over(Kind::Part, 0, &[], true, false);
        let mut message = Incoming::new();
        loop {
            match self.take_message(deadline, &mut message)? {
                Some(true) => break,
                // The peer wanted room as well, and has it now.
                Some(false) => {}
                None => return Err(self.cut_off()),
            }
        }
        match message.kind {
            Kind::Continue => Ok(()),
            kind => Err(Error::violation(format!("{kind:?} where room in the ring was due"))),
        }
    }

    /// Ends the lane, over which a part of a message has gone.
    fn cut_off(&self) -> Error {
        self.closer().close();
        Error::timeout("not all of the message was sent in time")
    }

    #[inline(always)]
    fn hand_over(&mut self, kind: Kind, target: u64, inline: &[u8], ring: bool, bulk: bool) {
        let line = &*self.baton;
        line[1].store(target, Ordering::Relaxed);
        let mut first = 2;
        if ring {
            line[2].store(self.outbox.tell(), Ordering::Relaxed);
            first = 3;
        }
        let (whole, rest) = inline.as_chunks();
        for (bytes, word) in whole.iter().zip(&line[first..]) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            line[first + whole.len()].store(u64::from_le_bytes(last), Ordering::Relaxed);
        }
        self.hop = next_hop(self.hop);
        let fresh = std::mem::take(&mut self.fresh);
        let word = Word { hop: self.hop, kind, inline_bytes: inline.len(), bulk, ring, fresh };
        self.word = word.encode();
        // [HOP] Release: the peer that acquires this word sees the line and the ring up to the position told.
        line[0].store(self.word, Ordering::Release);
        // [PARK] SeqCst: as in `sleep::wake`. The fence waits for the store to leave, so that the first poll counts from there.
        cpu::fence();
        if sleep::wake_seen(&self.parkers[1]) {
            self.waiter.woke();
        }
        if fresh {
            cpu::spin(TURNS_FRESH);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.lifeline.end().origin().is_own() {
            self.outbox.close();
            self.inbox.close();
        }
    }
}
