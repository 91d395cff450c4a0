//! The executor at the other end of a pipeline: it answers calls in order, as far as its [`Behaviour`] lets it.
//!
//! Invariant: like a lane's peer, it acts only when the controller reads a word or sleeps on one, and it dies after a while.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::Totals;
use super::behaviour::Behaviour;
use super::cells::Cells;
use super::random::Random;
use crate::call::pipeline::Caller;
use crate::error::Error;
use crate::limits::{CHUNK_BYTES_MAX, PAYLOAD_BYTES_MAX, RING_LINES};
use crate::ring::{Consumer, Head, LINE_WORDS, Popped, Producer, ring_words};
use crate::shm::Segment;
use crate::sync::hostile::{Liar, aside};
use crate::sync::{AtomicU64, Ordering};
use crate::wire::pipeline::{
    CALLS_WORD, CONTROLLER_PARKER_WORD, RESULTS_WORD, Record, SEGMENT_WORDS, WORD_BYTES,
    sequence_after,
};

/// Results in one case.
const ACTS_MAX: u32 = 300;
/// Reads after which the executor dies.
const LIFE_LOOKS: u64 = 50_000;
/// Reads in one case; more than any case needs.
const LOOKS_MAX: u64 = 200_000;

pub(super) struct PipelinePeer(RefCell<State>);

struct State {
    random: Random,
    behaviour: Behaviour,
    segment: Arc<Segment>,
    caller: Weak<Caller>,
    from: Consumer<Cells>,
    to: Producer<Cells>,
    /// Numbers of calls to answer, and how many calls of the same record follow.
    owed: VecDeque<(u64, usize)>,
    /// The rest of a result for which there was no room.
    rest: Option<(Record, u64, Vec<u8>)>,
    /// Results that were sent: the bytes, or `None` for a failure.
    sent: VecDeque<Option<Vec<u8>>>,
    is_dead: bool,
    acts: u32,
    looks: u64,
    lies: u64,
    /// The time when each word was last read and was not zero.
    seen: Vec<u64>,
    now: u64,
}

impl PipelinePeer {
    pub(super) fn new(
        segment: &Arc<Segment>,
        position: u64,
        random: Random,
        behaviour: Behaviour,
    ) -> Self {
        let cells = |start| Cells(segment.view(start..start + ring_words(RING_LINES)));
        Self(RefCell::new(State {
            random,
            behaviour,
            segment: Arc::clone(segment),
            caller: Weak::new(),
            from: Consumer::new(cells(CALLS_WORD), RING_LINES, position),
            to: Producer::new(cells(RESULTS_WORD), RING_LINES, position),
            owed: VecDeque::new(),
            rest: None,
            sent: VecDeque::new(),
            is_dead: false,
            acts: 0,
            looks: 0,
            lies: 0,
            seen: vec![0; SEGMENT_WORDS],
            now: 1,
        }))
    }

    /// Gives the peer the caller to tell when the executor dies.
    pub(super) fn meet(&self, caller: &Arc<Caller>) {
        self.0.borrow_mut().caller = Arc::downgrade(caller);
    }

    /// Checks a result that the controller received, `None` for a failure: an honest peer has sent it.
    pub(super) fn check(&self, result: Option<&[u8]>) {
        let mut state = self.0.borrow_mut();
        let sent = state.sent.pop_front();
        let is_it = sent.as_ref().is_some_and(|sent| sent.as_deref() == result);
        assert!(state.behaviour.may_break() || is_it, "another result");
    }

    pub(super) fn count(&self, totals: &mut Totals) {
        let state = self.0.borrow();
        totals.looks += state.looks;
        totals.lies += state.lies;
    }
}

impl Liar for PipelinePeer {
    fn look(&self, number: usize, word: &AtomicU64) -> u64 {
        let (value, death) = aside(|| {
            let mut state = self.0.borrow_mut();
            let value = state.look(number, word);
            (value, state.take_death())
        });
        tell(death);
        value
    }

    fn written(&self, number: usize) {
        // The controller has checked and taken a record.
        if number == RESULTS_WORD {
            self.0.borrow_mut().now += 1;
        }
    }

    fn asleep(&self, number: usize) {
        let death = aside(|| {
            let mut state = self.0.borrow_mut();
            let before = state.to.position();
            if number == CONTROLLER_PARKER_WORD {
                state.act();
            }
            if state.to.position() == before {
                // No thread would wake the controller.
                state.is_dead = true;
            }
            state.take_death()
        });
        tell(death);
    }
}

/// The work of a supervisor when it has seen the executor end.
fn tell(death: Option<Arc<Caller>>) {
    if let Some(caller) = death {
        aside(|| caller.end(&Error::disconnected("the peer is gone")));
    }
}

impl State {
    fn take_death(&mut self) -> Option<Arc<Caller>> {
        self.is_dead.then(|| std::mem::take(&mut self.caller).upgrade()).flatten()
    }

    fn look(&mut self, number: usize, word: &AtomicU64) -> u64 {
        self.looks += 1;
        assert!(
            self.looks <= LOOKS_MAX,
            "{} looks, and no end: word {number} is {:#x}, dead {}, {} acts",
            self.looks,
            word.load(Ordering::Relaxed),
            self.is_dead,
            self.acts
        );
        self.is_dead |= self.looks > LIFE_LOOKS;
        if self.random.one_in(8) {
            self.act();
        }
        let mut value = word.load(Ordering::Relaxed);
        if !self.is_dead && self.behaviour.lies(&mut self.random) {
            self.lies += 1;
            value = self.random.nonsense(value, self.to.position());
        }
        self.judge(number, value);
        value
    }

    /// Checks that a word of a record is read once, its first word until it is there.
    fn judge(&mut self, number: usize, value: u64) {
        let records = RESULTS_WORD + 2 * LINE_WORDS..RESULTS_WORD + ring_words(RING_LINES);
        if !records.contains(&number) || number.is_multiple_of(LINE_WORDS) {
            return;
        }
        assert!(self.seen[number] != self.now, "word {number} of a record was looked at twice");
        if value != 0 {
            self.seen[number] = self.now;
        }
    }

    fn breaks_rules(&mut self) -> bool {
        self.behaviour.breaks_rules(&mut self.random)
    }

    /// Takes calls and answers one.
    fn act(&mut self) {
        if self.is_dead {
            return;
        }
        self.acts += 1;
        let may_die = self.behaviour.may_break() && self.random.one_in(100);
        if self.acts > ACTS_MAX || may_die {
            self.is_dead = true;
            return;
        }
        let mut args = Vec::new();
        while let Popped::Record(head) = self.from.pop(&mut args) {
            let calls = match Record::from_bits(head.kind) {
                Some(Record::Call) => 1,
                Some(Record::Calls) => args.len() / WORD_BYTES,
                _ => 0,
            };
            let number = |at: usize| sequence_after(head.sequence, at as u64);
            self.owed.extend((0..calls).map(|at| (number(at), calls - 1 - at)));
            args.clear();
        }
        if self.rest.is_some() {
            return self.resume();
        }
        if self.breaks_rules() {
            return self.misbehave();
        }
        let Some((sequence, behind)) = self.owed.pop_front() else { return };
        if self.random.one_in(2) {
            return self.answer_word(sequence, behind == 0);
        }
        let kind = if self.random.one_in(8) { Record::Failure } else { Record::Result };
        let length = self.random.length();
        let bytes = self.random.bytes(length);
        self.sent.push_back((kind == Record::Result).then(|| bytes.clone()));
        self.rest = Some((kind, sequence, bytes));
        self.resume();
    }

    /// Sends a result that may share a line with others.
    fn answer_word(&mut self, sequence: u64, is_last: bool) {
        let bytes = self.random.bytes(WORD_BYTES);
        self.sent.push_back(Some(bytes.clone()));
        let head = Head { kind: Record::Results as u8, sequence, target: 0 };
        let word = std::array::from_fn(|at| bytes[at]);
        if self.to.push_word(head, word, is_last).is_err() {
            self.rest = Some((Record::Result, sequence, bytes));
        }
    }

    /// Sends as much of a result as there is room for, in parts as an executor does.
    fn resume(&mut self) {
        self.to.complete(Record::Results as u8);
        let Some((kind, sequence, mut bytes)) = self.rest.take() else { return };
        let part = Head { kind: Record::Part as u8, sequence: 0, target: 0 };
        while bytes.len() > CHUNK_BYTES_MAX {
            if self.to.push(part, &bytes[..CHUNK_BYTES_MAX]).is_err() {
                self.rest = Some((kind, sequence, bytes));
                return;
            }
            bytes.drain(..CHUNK_BYTES_MAX);
        }
        let head = Head { kind: kind as u8, sequence, target: 0 };
        if self.to.push(head, &bytes).is_err() {
            self.rest = Some((kind, sequence, bytes));
        }
    }

    /// Sends a wrong or unrequested result, closes the ring, or overwrites a word of the segment.
    fn misbehave(&mut self) {
        let choice = self.random.below(7);
        let sequence = match self.owed.front() {
            Some((due, _)) if choice > 1 => *due,
            Some((due, _)) => due.wrapping_add(self.random.below(3) as u64),
            None => self.random.next(),
        };
        let kind = 1 + self.random.next().to_le_bytes()[0] % 7;
        match choice {
            0..=2 => {
                self.to.complete(kind);
                let length = self.random.below(CHUNK_BYTES_MAX);
                let bytes = self.random.bytes(length);
                // A full ring does as well.
                let _ = self.to.push(Head { kind, sequence, target: 9 }, &bytes);
            }
            3 => {
                // More bytes than a payload may have.
                let most = usize::try_from(PAYLOAD_BYTES_MAX).unwrap_or(0) + CHUNK_BYTES_MAX;
                self.rest = Some((Record::Result, sequence, vec![1; most]));
                self.resume();
            }
            4 => self.to.close(),
            5 => {
                // Results of other calls, of another kind, or more of them than there are calls.
                let head = Head {
                    kind: if self.random.one_in(2) { 7 } else { kind },
                    sequence,
                    target: 9,
                };
                let is_last = self.random.one_in(4);
                let _ = self.to.push_word(head, sequence.to_le_bytes(), is_last);
            }
            _ => {
                let number = match self.random.below(4) {
                    0 => CALLS_WORD + self.random.below(2) * LINE_WORDS,
                    1 => RESULTS_WORD + self.random.below(ring_words(RING_LINES)),
                    _ => self.random.below(SEGMENT_WORDS),
                };
                let word = &self.segment.words()[number];
                let value = word.load(Ordering::Relaxed);
                let value = self.random.nonsense(value, self.to.position());
                word.store(value, Ordering::Relaxed);
            }
        }
    }
}
