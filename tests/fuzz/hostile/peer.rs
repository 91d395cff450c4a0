//! The executor at the other end: it follows the protocol as far as its [`Behaviour`] lets it.
//!
//! Invariant: the peer acts only when the controller reads a word or sleeps on one, so a case is the same every time. It dies
//! after a while, and the supervisor learns of that, so every wait ends.

use std::cell::RefCell;
use std::sync::Arc;

use super::Totals;
use super::behaviour::Behaviour;
use super::cells::Cells;
use super::random::Random;
use crate::limits::{CHUNK_BYTES_MAX, PAYLOAD_BYTES_MAX, RING_LINES};
use crate::ring::{Consumer, Head, LINE_WORDS, Popped, Producer, ring_words};
use crate::shm::{Segment, Words};
use crate::sync::hostile::{Liar, aside};
use crate::sync::{AtomicU64, Ordering};
use crate::transport::Closer;
use crate::wire::Kind;
use crate::wire::baton::{
    HOP_SHIFT, INLINE_BYTES_MAX, INLINE_BYTES_MAX_WITH_RING, Word, hop_of, next_hop,
};
use crate::wire::layout::{
    BATON_WORD, CLOSED_WORD, PARKER_WORDS, RING_TO_CONTROLLER_WORD, RING_TO_EXECUTOR_WORD,
    SEGMENT_WORDS, SETTLED_WORD,
};

/// Messages in one case.
const ACTS_MAX: u32 = 300;
/// Reads in one case; more than any case needs.
const LOOKS_MAX: u64 = 200_000;
/// Reads of the baton that a slow peer lets pass before it acts.
const DELAY: u32 = 100;

#[derive(Debug)]
pub(super) struct Peer(RefCell<State>);

#[derive(Debug)]
struct State {
    random: Random,
    behaviour: Behaviour,
    segment: Arc<Segment>,
    baton: Words,
    settled: Words,
    /// The supervisor's handle to end the lane.
    supervisor: Option<Closer>,
    from: Consumer<Cells>,
    to: Producer<Cells>,
    /// The hop that the peer wrote last; none at first.
    hop: Option<u64>,
    /// Calls that the peer has to answer.
    owed: u32,
    /// The last call that was posted to the peer.
    posted: u64,
    /// The rest of a message for which there was no room.
    rest: Option<(Kind, u64, Vec<u8>)>,
    /// Sends empty calls ahead for ever.
    floods: bool,
    is_dead: bool,
    /// The last result and the last call, as they were sent.
    result: Vec<u8>,
    call: Vec<u8>,
    /// Reads of the baton that it still lets pass.
    delay: u32,
    acts: u32,
    looks: u64,
    lies: u64,
    /// The time when each word was last read and was not zero.
    seen: Vec<u64>,
    /// The word of a message that was read last.
    last: usize,
    now: u64,
}

impl Peer {
    pub(super) fn new(segment: &Arc<Segment>, random: Random, behaviour: Behaviour) -> Self {
        let cells = |start| Cells(segment.view(start..start + ring_words(RING_LINES)));
        Self(RefCell::new(State {
            random,
            behaviour,
            segment: Arc::clone(segment),
            baton: segment.view(BATON_WORD..BATON_WORD + LINE_WORDS),
            settled: segment.view(SETTLED_WORD..SETTLED_WORD + 1),
            supervisor: None,
            from: Consumer::new(cells(RING_TO_EXECUTOR_WORD), RING_LINES, 0),
            to: Producer::new(cells(RING_TO_CONTROLLER_WORD), RING_LINES, 0),
            hop: None,
            owed: 0,
            posted: 0,
            rest: None,
            floods: false,
            is_dead: false,
            result: Vec::new(),
            call: Vec::new(),
            delay: 0,
            acts: 0,
            looks: 0,
            lies: 0,
            seen: vec![0; SEGMENT_WORDS],
            last: 0,
            now: 1,
        }))
    }

    /// Gives the peer the handle by which the supervisor ends the lane when the peer dies.
    pub(super) fn is_supervised_by(&self, closer: Closer) {
        self.0.borrow_mut().supervisor = Some(closer);
    }

    /// Checks a result that the controller received: an honest peer has sent it.
    pub(super) fn check(&self, result: &[u8]) {
        let state = self.0.borrow();
        assert!(state.behaviour.may_break() || *state.result == *result, "another result");
    }

    /// Checks the arguments of a call that the controller served.
    pub(super) fn check_call(&self, args: &[u8]) {
        let state = self.0.borrow();
        assert!(state.behaviour.may_break() || *state.call == *args, "another call");
    }

    pub(super) fn count(&self, totals: &mut Totals) {
        let state = self.0.borrow();
        totals.looks += state.looks;
        totals.lies += state.lies;
    }
}

impl Liar for Peer {
    fn look(&self, number: usize, word: &AtomicU64) -> u64 {
        aside(|| self.0.borrow_mut().look(number, word))
    }

    fn written(&self, number: usize) {
        let mut state = self.0.borrow_mut();
        // The controller has checked and used what it received.
        if number == BATON_WORD || number == RING_TO_CONTROLLER_WORD {
            state.now += 1;
        }
    }

    fn asleep(&self, number: usize) {
        aside(|| self.0.borrow_mut().asleep(number));
    }
}

impl State {
    fn look(&mut self, number: usize, word: &AtomicU64) -> u64 {
        self.looks += 1;
        assert!(
            self.looks <= LOOKS_MAX,
            "{} looks, and no end: word {number} is {:#x}, hop {:?}, dead {}, {} acts",
            self.looks,
            word.load(Ordering::Relaxed),
            self.hop,
            self.is_dead,
            self.acts
        );
        if number == BATON_WORD && self.has_turn() {
            if self.delay > 0 {
                self.delay -= 1;
            } else {
                self.delay = if self.random.one_in(16) { DELAY } else { 0 };
                self.act();
            }
        }
        if number == SETTLED_WORD && self.random.one_in(4) {
            self.settle();
        }
        let mut value = word.load(Ordering::Relaxed);
        if !self.is_dead && self.behaviour.lies(&mut self.random) {
            self.lies += 1;
            value = self.nonsense(value);
        }
        self.judge(number, value);
        value
    }

    /// Checks that a word of a message is read once, or until it is there.
    fn judge(&mut self, number: usize, value: u64) {
        let ring = RING_TO_CONTROLLER_WORD + 2 * LINE_WORDS
            ..RING_TO_CONTROLLER_WORD + ring_words(RING_LINES);
        let line = BATON_WORD + 1..BATON_WORD + LINE_WORDS;
        if number == RING_TO_CONTROLLER_WORD + LINE_WORDS {
            // Behind the closed flag, one more read decides whether nothing came.
            self.seen[self.last] = 0;
        }
        if !ring.contains(&number) && !line.contains(&number) {
            return;
        }
        self.last = number;
        // Behind new code the target is prefetched, whatever it is, and not used.
        if number != BATON_WORD + 1 {
            assert!(
                self.seen[number] != self.now,
                "word {number} of a message was looked at twice"
            );
        }
        if value != 0 {
            self.seen[number] = self.now;
        }
    }

    fn asleep(&mut self, number: usize) {
        if number == PARKER_WORDS[0] && self.has_turn() {
            self.act();
        } else if number == SETTLED_WORD && !self.is_dead && !self.random.one_in(16) {
            self.drain();
            self.settle();
        } else {
            self.die();
        }
    }

    fn has_turn(&self) -> bool {
        !self.is_dead && self.hop != Some(hop_of(self.baton[0].load(Ordering::Relaxed)))
    }

    /// Dies, and does what a supervisor does then.
    fn die(&mut self) {
        self.is_dead = true;
        self.segment.words()[CLOSED_WORD].store(1, Ordering::Release);
        if let Some(closer) = &self.supervisor {
            closer.close();
        }
    }

    /// Takes what the controller has posted.
    fn drain(&mut self) {
        while let Popped::Record(head) = self.from.pop(&mut Vec::new()) {
            if head.kind == Kind::Call as u8 {
                self.posted = head.sequence;
            }
        }
    }

    fn settle(&mut self) {
        if self.is_dead {
            return;
        }
        let mut word = self.posted << 1;
        if self.breaks_rules() {
            word = self.nonsense(word);
        }
        self.settled[0].store(word, Ordering::Release);
    }

    fn breaks_rules(&mut self) -> bool {
        self.behaviour.breaks_rules(&mut self.random)
    }

    /// Reads what the controller has handed over, and answers.
    fn act(&mut self) {
        self.acts += 1;
        if self.acts > ACTS_MAX || self.behaviour.may_break() && self.random.one_in(100) {
            return self.die();
        }
        let word = self.baton[0].load(Ordering::Acquire);
        self.drain();
        self.settle();
        let kind = Word::decode(word).map(|word| word.kind);
        if self.hop.is_none() {
            let setup = self.random.length();
            let setup = self.random.bytes(setup);
            return self.send(Kind::Setup, 0, setup);
        }
        match kind {
            Some(Kind::Part | Kind::Continue) if self.floods => self.flood(),
            Some(Kind::Part) if self.breaks_rules() && self.random.one_in(2) => self.flood(),
            Some(Kind::Part) if !self.breaks_rules() => {
                self.hand_over(Kind::Continue, 0, &[], false)
            }
            Some(Kind::Continue) if self.rest.is_some() => self.resume(),
            Some(Kind::Hangup) => self.die(),
            _ => {
                self.owed += u32::from(kind == Some(Kind::Call));
                self.answer();
            }
        }
    }

    fn answer(&mut self) {
        let length = self.random.length();
        let mut payload = self.random.bytes(length);
        if self.breaks_rules() && self.random.one_in(8) {
            // More bytes than a payload may have.
            payload.resize(usize::try_from(PAYLOAD_BYTES_MAX).unwrap_or(0) + 500, 1);
        }
        let choice = self.random.below(16);
        match choice {
            0 | 1 => {
                self.owed = self.owed.saturating_sub(1);
                self.send(Kind::Failure, 0, payload);
            }
            2..=5 => {
                self.call.clone_from(&payload);
                let target = self.random.next() % 16;
                self.send(Kind::Call, target, payload);
            }
            6 if self.breaks_rules() => self.flood(),
            7 if self.breaks_rules() => {
                let kind = Kind::from_bits(1 + self.random.next().to_le_bytes()[0] % 7);
                self.send(kind.unwrap_or(Kind::Part), 1, payload);
            }
            8 => {
                // A posted call, which never fails.
                let head = Head { kind: Kind::Call as u8, sequence: 1, target: 2 };
                self.call.clone_from(&payload);
                payload.truncate(CHUNK_BYTES_MAX);
                self.call.truncate(CHUNK_BYTES_MAX);
                if self.to.push(head, &payload).is_err() {
                    return self.hand_over(Kind::Part, 0, &[], true);
                }
                self.finish(Vec::new());
            }
            _ => self.finish(payload),
        }
    }

    /// Answers a call with a result.
    fn finish(&mut self, payload: Vec<u8>) {
        self.owed = self.owed.saturating_sub(1);
        self.result.clone_from(&payload);
        self.send(Kind::Result, 0, payload);
    }

    /// Posts calls for ever, as many as there is room for, and never another message.
    fn flood(&mut self) {
        self.floods = true;
        let head = Head { kind: Kind::Call as u8, sequence: 2, target: 2 };
        while self.to.push(head, &[]).is_ok() {}
        self.hand_over(Kind::Part, 0, &[], true);
    }

    fn send(&mut self, kind: Kind, target: u64, payload: Vec<u8>) {
        // Posted calls are in the ring.
        let ring = self.random.one_in(4) || self.to.position() != 0;
        let most = if ring { INLINE_BYTES_MAX_WITH_RING } else { INLINE_BYTES_MAX };
        if payload.len() <= most {
            self.hand_over(kind, target, &payload, ring);
        } else {
            self.rest = Some((kind, target, payload));
            self.resume();
        }
    }

    /// Sends as much of a long message as there is room for.
    fn resume(&mut self) {
        let Some((kind, target, mut payload)) = self.rest.take() else { return };
        let head = Head { kind: Kind::Part as u8, sequence: 0, target: 0 };
        while !payload.is_empty() {
            let part = payload.len().min(1 + self.random.below(CHUNK_BYTES_MAX));
            if self.to.push(head, &payload[..part]).is_err() {
                self.rest = Some((kind, target, payload));
                return self.hand_over(Kind::Part, 0, &[], true);
            }
            payload.drain(..part);
        }
        self.hand_over(kind, target, &[], true);
    }

    fn hand_over(&mut self, kind: Kind, target: u64, inline: &[u8], ring: bool) {
        let mut words = vec![target];
        if ring {
            words.push(self.to.position());
        }
        for chunk in inline.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            words.push(u64::from_le_bytes(word));
        }
        for (word, value) in self.baton[1..].iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        let hop = next_hop(hop_of(self.baton[0].load(Ordering::Relaxed)));
        let fresh = self.random.one_in(8);
        let mut word =
            Word { hop, kind, inline_bytes: inline.len(), bulk: false, ring, fresh }.encode();
        if self.breaks_rules() {
            for _ in 0..1 + self.random.below(3) {
                self.damage();
            }
            if self.random.one_in(3) {
                word = self.nonsense(word);
            }
        }
        self.hop = Some(hop_of(word));
        self.baton[0].store(word, Ordering::Release);
    }

    /// Writes nonsense into a word of the segment, most likely a word in use.
    fn damage(&mut self) {
        let next = usize::try_from(self.from.position()).unwrap_or(0) % RING_LINES;
        let ahead = usize::try_from(self.to.position()).unwrap_or(0) + RING_LINES - 2;
        let record = 2 * LINE_WORDS + (ahead + self.random.below(3)) % RING_LINES * LINE_WORDS;
        let number = match self.random.below(8) {
            0 => BATON_WORD + 1 + self.random.below(LINE_WORDS - 1),
            1 | 2 => BATON_WORD + 2,
            3 | 4 => RING_TO_CONTROLLER_WORD + record,
            5 => RING_TO_EXECUTOR_WORD + self.random.below(2) * LINE_WORDS,
            6 => RING_TO_EXECUTOR_WORD + 2 * LINE_WORDS + next * LINE_WORDS,
            _ => self.random.below(SEGMENT_WORDS),
        };
        let value = self.segment.words()[number].load(Ordering::Relaxed);
        let value = self.nonsense(value);
        self.segment.words()[number].store(value, Ordering::Relaxed);
    }

    /// A value other than `value`; now and then a plausible word of the baton.
    fn nonsense(&mut self, value: u64) -> u64 {
        if self.random.one_in(8) {
            return (hop_of(value) << HOP_SHIFT) | (self.random.next() % (1 << HOP_SHIFT));
        }
        self.random.nonsense(value, self.to.position())
    }
}
