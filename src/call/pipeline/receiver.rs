//! Receiving for all waiting threads: what the leader does.

use std::sync::Arc;
use std::task::Waker;

use super::completion::{Completion, State, Waiter};
use super::progress::Progress;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::Ordering;
use crate::transport::pipeline::{EMPTY_LINE, Inbound, Received};
use crate::transport::{Moment, Polling};
use crate::wire::pipeline::{Record, WORD_BYTES, next_sequence, sequence_after};

/// Receptions of results between two looks at the clock.
const RECEPTIONS_PER_LOOK: u32 = if cfg!(model) { 1 } else { 64 };
/// Polls after the parker was made and before the kernel is asked. An executor that starts the next call at this moment may
/// have missed that a thread parks. By then what it has sent before is here.
const LAST_POLLS: u32 = if cfg!(model) { 1 } else { 100 };

/// How many lines ahead of the next one are fetched when results of a batch have come.
const PREFETCH_LINES: u64 = 2;

/// The reading half of the controller's end.
#[derive(Debug)]
pub(super) struct Receiver {
    inbound: Inbound,
    polling: Polling,
    /// The number that the next result must have.
    sequence: u64,
    /// Results received, and calls submitted as last seen. The first is never larger than the second.
    received: u64,
    submitted: u64,
    /// The oldest run that misses results; the runs behind it are in `runs`.
    run: Option<Run>,
    runs: rtrb::Consumer<Run>,
    long: Vec<u8>,
    /// Tasks that have their results, to be woken when the lead is over.
    pub(super) wakers: Vec<Waker>,
}

/// Calls in a row that share a completion.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) completion: Arc<Completion>,
    pub(super) calls: usize,
}

impl Receiver {
    pub(super) fn new(
        inbound: Inbound,
        polling: Polling,
        runs: rtrb::Consumer<Run>,
        last_sequence: u64,
    ) -> Self {
        Self {
            inbound,
            polling,
            sequence: next_sequence(last_sequence),
            received: 0,
            submitted: 0,
            run: None,
            runs,
            long: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// Receives until `is_enough`, whose argument says whether something came. Also ends when the deadline passes, the lead
    /// `is_wanted`, tasks are to be woken, or nothing will ever come. Polls for a while, then sleeps between results.
    pub(super) fn lead(
        &mut self,
        progress: &Progress,
        is_wanted: impl Fn() -> bool,
        deadline: Deadline,
        mut is_enough: impl FnMut(bool) -> bool,
    ) {
        if is_enough(true) {
            return;
        }
        let mut receptions: u32 = 0;
        loop {
            let came = self.receive(progress) > 0;
            if is_enough(came) || !self.wakers.is_empty() || progress.has_ended() {
                return;
            }
            if !came {
                self.wait(progress, &is_wanted, deadline, &mut is_enough);
            }
            receptions = receptions.wrapping_add(1);
            let is_due = !came || receptions.is_multiple_of(RECEPTIONS_PER_LOOK);
            if is_wanted() || is_due && deadline.has_passed() {
                return;
            }
        }
    }

    /// Waits until there is something to receive or another reason to look.
    fn wait(
        &mut self,
        progress: &Progress,
        is_wanted: impl Fn() -> bool,
        deadline: Deadline,
        mut is_enough: impl FnMut(bool) -> bool,
    ) {
        let inbound = &self.inbound;
        let has_news = || !inbound.is_empty() || progress.has_ended() || is_wanted();
        self.polling.wait(deadline, |moment| match moment {
            Moment::Poll => {
                inbound.pause();
                (has_news() || is_enough(false)).then_some(())
            }
            Moment::Look => {
                progress.look_after_executor();
                deadline.has_passed().then_some(())
            }
            Moment::Sleep { shares_cpu } => {
                // An executor on this CPU starts nothing meanwhile.
                let last_polls = if shares_cpu { 1 } else { LAST_POLLS };
                let poll = || {
                    std::hint::spin_loop();
                    has_news()
                };
                inbound.sleep_unless(deadline, || {
                    is_enough(true) || (0..last_polls).any(|_| poll()) || is_enough(true)
                });
                None
            }
        });
    }

    /// Receives what has arrived, and returns the number of results. A violation of the protocol ends the pipeline. Once the
    /// pipeline has ended, every call still under way fails.
    pub(super) fn receive(&mut self, progress: &Progress) -> usize {
        // Read first: records that were published before the end are then received in this call.
        let had_ended = progress.has_ended();
        let before = self.received;
        if let Err(error) = self.drain(progress) {
            progress.end(&error);
            self.fail_all(progress);
        }
        if had_ended {
            self.fail_all(progress);
        }
        if self.received != before {
            // [CAP] Release: pairs with the submitters' look.
            progress.received.store(self.received, Ordering::Release);
        }
        usize::try_from(self.received.wrapping_sub(before)).unwrap_or(usize::MAX)
    }

    fn drain(&mut self, progress: &Progress) -> Result<()> {
        while !self.inbound.is_empty() {
            let Some(mut run) = self.next_run() else {
                return Err(self.unexpected());
            };
            let Run { completion, calls } = &mut run;
            let mut state = completion.lock();
            let outcome = self.fill(progress, calls, &mut state);
            completion.show(&state);
            self.tell(progress, &mut state);
            drop(state);
            if run.calls > 0 {
                self.run = Some(run);
            }
            if !outcome? {
                break;
            }
        }
        if self.inbound.take_room_news() {
            progress.wake_executor();
        }
        Ok(())
    }

    /// The oldest run that misses results. It was noted before its calls were sent.
    #[inline]
    fn next_run(&mut self) -> Option<Run> {
        self.run.take().or_else(|| self.runs.pop().ok())
    }

    /// Counts `came` results that were due.
    #[inline(always)]
    fn advance(&mut self, calls: &mut usize, came: usize) {
        *calls -= came;
        self.sequence = sequence_after(self.sequence, came as u64);
        self.received += came as u64;
    }

    /// True when the next `results` results are of calls that were made.
    #[inline(always)]
    fn are_due(&mut self, progress: &Progress, results: usize) -> bool {
        if self.submitted - self.received < results as u64 {
            // Relaxed: the sender stored it before it published the calls that this record answers.
            self.submitted = progress.submitted.load(Ordering::Relaxed);
        }
        self.submitted - self.received >= results as u64
    }

    /// Receives results of `calls` calls. False when no more are there now.
    #[inline]
    fn fill(&mut self, progress: &Progress, calls: &mut usize, state: &mut State) -> Result<bool> {
        while *calls > 0 {
            let received = self.inbound.receive_results(state.next_line(), &mut self.long);
            if let Ok(Received::Words(piece)) = &received {
                let results = piece.bytes() / WORD_BYTES;
                let before = piece.taken / WORD_BYTES;
                let is_next = sequence_after(piece.sequence(), before as u64) == self.sequence;
                // All of them must answer calls of this submission, since they answer calls of one record.
                if !is_next || results > *calls || !self.are_due(progress, results) {
                    state.put_back();
                    return Err(self.not_due(Some(Record::Results), piece.sequence()));
                }
                if state.is_expired {
                    state.put_back();
                    state.drop_late(results);
                    progress.late.fetch_add(results as u64, Ordering::Relaxed);
                } else {
                    state.put_words(results);
                }
                self.advance(calls, results);
                if *calls > 0 {
                    self.inbound.prefetch(PREFETCH_LINES);
                }
                continue;
            }
            if let Ok(Received::Line(head)) = &received
                && head.kind() == Record::Result as u8
                && head.sequence == self.sequence
                && self.are_due(progress, 1)
                && !state.is_expired
            {
                if *calls > 1 {
                    self.inbound.prefetch(PREFETCH_LINES);
                }
                state.put_line(head.payload_bytes(), false);
                self.advance(calls, 1);
                continue;
            }
            let judged = match &received {
                Ok(Received::Line(head)) => self.judge(progress, head.kind(), head.sequence),
                Ok(Received::Long(head)) => self.judge(progress, head.kind, head.sequence),
                _ => Ok(false),
            };
            match (received, judged) {
                (Ok(Received::Line(_) | Received::Long(_)), Ok(_)) if state.is_expired => {
                    state.put_back();
                    state.drop_late(1);
                    progress.late.fetch_add(1, Ordering::Relaxed);
                }
                (Ok(Received::Line(head)), Ok(is_failure)) => {
                    state.put_line(head.payload_bytes(), is_failure);
                }
                (Ok(Received::Long(_)), Ok(is_failure)) => {
                    state.put_long(std::mem::take(&mut self.long), is_failure);
                }
                (Ok(Received::Nothing | Received::Words(_)), _) => {
                    state.put_back();
                    return Ok(false);
                }
                (Ok(Received::Closed), _) => {
                    state.put_back();
                    return Err(Error::disconnected("the executor closed the pipeline"));
                }
                (Err(error), _) | (_, Err(error)) => {
                    state.put_back();
                    return Err(error);
                }
            }
            self.advance(calls, 1);
        }
        Ok(true)
    }

    /// Checks that the record answers the call that is due. True for a failure, false for a result.
    #[inline(always)]
    fn judge(&mut self, progress: &Progress, kind: u8, sequence: u64) -> Result<bool> {
        let is_due = self.are_due(progress, 1);
        let kind = Record::from_bits(kind);
        if sequence == self.sequence && is_due {
            match kind {
                Some(Record::Result) => return Ok(false),
                Some(Record::Failure) => return Ok(true),
                _ => {}
            }
        }
        Err(self.not_due(kind, sequence))
    }

    #[cold]
    fn not_due(&self, kind: Option<Record>, sequence: u64) -> Error {
        Error::violation(format!(
            "{kind:?} of call {:#x}, where {} results have come of {} calls and that of call {:#x} was due",
            sequence, self.received, self.submitted, self.sequence
        ))
    }

    /// The error for a record that comes while no call is under way.
    #[cold]
    fn unexpected(&mut self) -> Error {
        let mut line = EMPTY_LINE;
        match self.inbound.receive_results(&mut line, &mut self.long) {
            Ok(Received::Closed) => Error::disconnected("the executor closed the pipeline"),
            Ok(other) => Error::violation(format!(
                "{other:x?}, and call {:#x} was never made",
                self.sequence
            )),
            Err(error) => error,
        }
    }

    fn fail_all(&mut self, progress: &Progress) {
        let reason = progress.reason();
        while let Some(run) = self.next_run() {
            let mut state = run.completion.lock();
            state.end(&reason);
            run.completion.show(&state);
            self.tell(progress, &mut state);
        }
    }

    /// Wakes the waiter of a completion, if it has enough results.
    #[inline]
    fn tell(&mut self, progress: &Progress, state: &mut State) {
        let enough = match &state.waiter {
            None => return,
            Some(Waiter::Thread(_, enough)) => *enough,
            Some(Waiter::Task(_)) => usize::MAX,
        };
        if !state.has(enough) {
            return;
        }
        match state.waiter.take() {
            Some(Waiter::Thread(follower, _)) => follower.call(),
            Some(Waiter::Task(waker)) => {
                progress.count_task(false);
                self.wakers.push(waker);
            }
            None => {}
        }
    }
}
