//! Receiving for everybody: what the thread that has the turn does.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use super::completion::{State, Waiter};
use super::{Caller, Completion};
use crate::error::{Error, Result};
use crate::limits::SPIN_NS;
use crate::sync::Ordering;
use crate::transport::pipe::{EMPTY_LINE, Inbound, Line, Received};
use crate::wire::pipe::{Record, next_sequence};

/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;
/// Polls after the bed was made and before the kernel is asked. An executor that goes on with the next call at this very
/// moment may have missed that somebody lies down; by then what it has sent before is here.
const LAST_POLLS: u32 = 100;

/// The reading half of the controller's end.
#[derive(Debug)]
pub(super) struct Receiver {
    inbound: Inbound,
    /// The number that the next result must have.
    sequence: u64,
    /// Results received, and calls submitted as last seen: there are never more of those than of these.
    received: u64,
    submitted: u64,
    /// The oldest run that misses results.
    run: Option<Run>,
    long: Vec<u8>,
    /// Tasks that have their results, to be woken when the turn is over.
    pub(super) wakers: Vec<Waker>,
}

/// Calls in a row whose results go to one place.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) completion: Arc<Completion>,
    pub(super) calls: usize,
}

impl Receiver {
    pub(super) fn new(inbound: Inbound, last_sequence: u64) -> Self {
        Self {
            inbound,
            sequence: next_sequence(last_sequence),
            received: 0,
            submitted: 0,
            run: None,
            long: Vec::new(),
            wakers: Vec::new(),
        }
    }

    /// Receives until `is_enough`, which is told whether something came, or until the time is over, somebody wants the turn,
    /// tasks are to be woken, or nothing will ever come. Polls for a while, then sleeps between results.
    pub(super) fn lead(
        &mut self,
        caller: &Caller,
        until: Option<Instant>,
        mut is_enough: impl FnMut(bool) -> bool,
    ) {
        if is_enough(true) {
            return;
        }
        let mut sleepy_at = None;
        let mut polls = 0;
        loop {
            let came = self.receive(caller) > 0;
            if is_enough(came) || !self.wakers.is_empty() || caller.has_ended() {
                return;
            }
            polls += 1;
            if came {
                sleepy_at = None;
            } else {
                if caller.turn.is_wanted() {
                    return;
                }
                std::hint::spin_loop();
            }
            if polls % POLLS_PER_LOOK > 0 {
                continue;
            }
            let now = Instant::now();
            if until.is_some_and(|until| now >= until) {
                return;
            }
            let spin = Duration::from_nanos(SPIN_NS);
            if now >= *sleepy_at.get_or_insert(now + spin) {
                self.sleep(caller, until.map(|until| until - now), || is_enough(true));
                sleepy_at = None;
            }
        }
    }

    fn sleep(
        &self,
        caller: &Caller,
        timeout: Option<Duration>,
        mut is_enough: impl FnMut() -> bool,
    ) {
        let has_cause = || {
            is_enough()
                || (0..LAST_POLLS).any(|_| {
                    std::hint::spin_loop();
                    !self.inbound.is_empty() || caller.has_ended() || caller.turn.is_wanted()
                })
                || is_enough()
        };
        self.inbound.sleep_unless(timeout, has_cause);
    }

    /// Receives what is there, and returns how many results that were. What cannot be right ends the pipeline. When it has
    /// ended, everything that is still under way is told so.
    pub(super) fn receive(&mut self, caller: &Caller) -> usize {
        // Who ends it has seen everything published before.
        let had_ended = caller.has_ended();
        let before = self.received;
        if let Err(error) = self.drain(caller) {
            caller.end(&error);
            self.fail_all(caller);
        }
        if had_ended {
            self.fail_all(caller);
        }
        if self.received != before {
            // [CAP] Release: pairs with the submitters' look.
            caller.received.store(self.received, Ordering::Release);
        }
        usize::try_from(self.received.wrapping_sub(before)).unwrap_or(usize::MAX)
    }

    fn drain(&mut self, caller: &Caller) -> Result<()> {
        let mut line = EMPTY_LINE;
        while !self.inbound.is_empty() {
            let Some(mut run) = self.run.take().or_else(|| caller.next_run()) else {
                return Err(self.unexpected());
            };
            let completion = Arc::clone(&run.completion);
            let mut state = completion.lock();
            let outcome = self.fill(caller, &mut run, &mut state, &mut line);
            self.tell(caller, &mut state);
            if run.calls > 0 {
                self.run = Some(run);
            }
            if !outcome? {
                break;
            }
        }
        if self.inbound.take_room_news() {
            caller.wake_executor();
        }
        Ok(())
    }

    /// Receives results of `run`. False when there are no more now.
    #[inline]
    fn fill(
        &mut self,
        caller: &Caller,
        run: &mut Run,
        state: &mut State,
        line: &mut Line,
    ) -> Result<bool> {
        while run.calls > 0 {
            let received = self.inbound.receive(line, &mut self.long)?;
            let (kind, sequence) = match &received {
                Received::Line(head) => (head.kind(), head.sequence),
                Received::Long(head) => (head.kind, head.sequence),
                Received::Nothing => return Ok(false),
                Received::Closed => {
                    return Err(Error::disconnected("the executor closed the pipeline"));
                }
            };
            let is_failure = self.judge(caller, kind, sequence)?;
            match received {
                _ if state.is_expired => {
                    state.drop_late();
                    caller.late.fetch_add(1, Ordering::Relaxed);
                }
                Received::Line(head) => state.put_line(line, head.payload_bytes(), is_failure),
                _ => state.put(&mut self.long, is_failure),
            }
            run.calls -= 1;
            self.sequence = next_sequence(self.sequence);
            self.received += 1;
        }
        Ok(true)
    }

    /// True when the record is a failure, false when it is a result; of the call that is due.
    #[inline(always)]
    fn judge(&mut self, caller: &Caller, kind: u8, sequence: u64) -> Result<bool> {
        if self.received == self.submitted {
            // Relaxed: it was stored before the call was published that this record answers.
            self.submitted = caller.submitted.load(Ordering::Relaxed);
        }
        let kind = Record::from_bits(kind);
        if sequence == self.sequence && self.received != self.submitted {
            match kind {
                Some(Record::Result) => return Ok(false),
                Some(Record::Failure) => return Ok(true),
                _ => {}
            }
        }
        Err(Error::violation(format!(
            "{kind:?} of call {:#x}, where {} results have come of {} calls and that of call {:#x} was due",
            sequence, self.received, self.submitted, self.sequence
        )))
    }

    /// What is wrong when something comes while no call is under way.
    #[cold]
    fn unexpected(&mut self) -> Error {
        let mut line = EMPTY_LINE;
        match self.inbound.receive(&mut line, &mut self.long) {
            Ok(Received::Closed) => Error::disconnected("the executor closed the pipeline"),
            Ok(other) => Error::violation(format!(
                "{other:x?}, and call {:#x} was never made",
                self.sequence
            )),
            Err(error) => error,
        }
    }

    fn fail_all(&mut self, caller: &Caller) {
        let reason = caller.reason();
        while let Some(run) = self.run.take().or_else(|| caller.next_run()) {
            let mut state = run.completion.lock();
            state.end(&reason);
            self.tell(caller, &mut state);
        }
    }

    /// Tells who waits for a completion, if it is time.
    #[inline]
    fn tell(&mut self, caller: &Caller, state: &mut State) {
        let enough = match &state.waiter {
            None => return,
            Some(Waiter::Thread(_, enough)) => *enough,
            Some(Waiter::Task(_)) => usize::MAX,
        };
        if !state.has(enough) {
            return;
        }
        match state.waiter.take() {
            Some(Waiter::Thread(seat, _)) => seat.call(),
            Some(Waiter::Task(waker)) => {
                caller.count_task(false);
                self.wakers.push(waker);
            }
            None => {}
        }
    }
}
