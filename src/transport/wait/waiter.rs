//! Waiting for a word to change: poll first, as [`Polling`] does, then sleep in the kernel.
//!
//! The sender stores the word and does not swap it. So the message and the word that announces it leave the processor
//! together, and no poll comes between them. A sleeper says that it sleeps in a word of its own ([`sleep`]). The sender reads
//! that word behind a fence.

use super::lifeline::Lifeline;
use super::parker::SharedParker;
use super::polling::{Moment, Polling};
use crate::deadline::Deadline;
use crate::error::Result;
use crate::shm::Words;
use crate::sleep::{self, Parker};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::cpu;

/// What one side waits with.
#[derive(Debug)]
pub(in crate::transport) struct Waiter {
    sleeper: Sleeper,
    polling: Polling,
}

/// What one side sleeps with.
#[derive(Debug)]
struct Sleeper {
    /// What it sleeps on.
    parker: SharedParker,
    /// Not 0 when the peer has closed its end.
    closed: Words,
    lifeline: Lifeline,
}

impl Waiter {
    pub(in crate::transport) fn new(
        parker: SharedParker,
        closed: Words,
        lifeline: Lifeline,
        polling: Polling,
    ) -> Self {
        Self { sleeper: Sleeper { parker, closed, lifeline }, polling }
    }

    /// From now on the waiter sleeps on `parker`.
    #[cfg(any(not(model), loom))]
    pub(in crate::transport) fn sleep_on(&mut self, parker: SharedParker) {
        self.sleeper.parker = parker;
    }

    /// Tells that the peer was woken: its answer takes longer this time.
    pub(in crate::transport) fn woke(&mut self) {
        self.polling.peer_was_woken();
    }

    /// Waits until `word` holds anything but `current`, and returns what it holds. `None` when it has not changed by the
    /// deadline; a doorbell, if there is one, is rung when it changes.
    ///
    /// # Errors
    ///
    /// When the lifeline was cut or the peer closed its end, and the word has not changed before.
    #[inline(always)]
    pub(in crate::transport) fn for_change(
        &mut self,
        word: &AtomicU64,
        current: u64,
        deadline: Deadline,
    ) -> Result<Option<u64>> {
        // The quick polls have a closure of their own. The values of the other closure lie in memory for the cold loop. With `current`
        // there the compiler keeps the loop of quick polls rolled, and its one branch is mispredicted.
        if let Some(found) = self.polling.quickly(|| poll(word, current)) {
            return Ok(Some(found));
        }
        let sleeper = &self.sleeper;
        self.polling.slowly(deadline, move |moment| match moment {
            Moment::Poll => poll(word, current).map(|found| Ok(Some(found))),
            Moment::Look if !sleeper.is_closed() => None,
            Moment::Look => Some(sleeper.sleep(word, current, deadline, false)),
            Moment::Sleep { shares_cpu } => {
                Some(sleeper.sleep(word, current, deadline, shares_cpu))
            }
        })
    }
}

impl Sleeper {
    /// Sleeps as [`Waiter::for_change`] waits; at first only briefly.
    #[cold]
    fn sleep(
        &self,
        word: &AtomicU64,
        current: u64,
        deadline: Deadline,
        mut is_brief: bool,
    ) -> Result<Option<u64>> {
        loop {
            let is_alone = !self.parker.drain();
            let seen = self.parker.look();
            sleep::mark(&self.parker);
            // What was handed over before the end is still found.
            let is_closed = is_alone || self.is_closed();
            if let Some(found) = poll(word, current) {
                sleep::unmark(&self.parker);
                return Ok(Some(found));
            }
            if is_closed {
                sleep::unmark(&self.parker);
                return Err(self.lifeline.why());
            }
            if deadline.has_passed() {
                return Ok(None);
            }
            if std::mem::take(&mut is_brief) {
                self.parker.park_briefly(sleep::ASLEEP, deadline);
            } else {
                self.parker.park(sleep::ASLEEP, seen, deadline);
            }
        }
    }

    fn is_closed(&self) -> bool {
        // [CLOSE] Acquire: pairs with the store of the peer that closes.
        self.lifeline.is_cut() || self.closed[0].load(Ordering::Acquire) != 0
    }
}

/// The value of `word` when it differs from `current`.
///
/// The prefetch asks for the line in order to write it. So the line arrives in exclusive state, and the answer is stored into
/// it without another transfer. The load that follows waits for the line. A compare-exchange would fetch it in the same state,
/// but no instruction behind it begins before it has ended. Behind a load the processor goes on speculatively.
#[inline(always)]
fn poll(word: &AtomicU64, current: u64) -> Option<u64> {
    #[cfg(not(model))]
    cpu::prefetch_to_write(std::ptr::from_ref(word).expose_provenance() as u64);
    // [HOP] Acquire: pairs with the sender's store.
    let found = word.load(Ordering::Acquire);
    (found != current).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::error::ErrorKind;
    use crate::shm::Segment;
    use crate::sys::futex::{self, OWNER_DIED};
    use crate::transport::Side;
    use crate::transport::wait::cpu_hints::CpuHints;
    use crate::transport::wait::lifeline::End;
    use crate::transport::wait::poll_policy::PollPolicy;

    const SPIN: Duration = Duration::from_micros(50);

    fn parker(segment: &Arc<Segment>) -> SharedParker {
        SharedParker::new(segment.view(1..2), Lifeline::new(End::new()))
    }

    /// A waiter for the first word of a segment. Word 4 of it is the CPU hint of the peer.
    fn waiter(spin: Duration, shares_cpu: bool) -> (Arc<Segment>, Waiter) {
        let segment = Arc::new(Segment::create(c"test", 4096, false).expect("memory"));
        let view = |word| segment.view(word..word + 1);
        let cpu_hints = CpuHints::new(&segment, [3, 4], Side::Controller);
        let lifeline = Lifeline::new(End::new());
        segment.words()[4].store(if shares_cpu { cpu::current() } else { 0 }, Ordering::Relaxed);
        let parker = SharedParker::new(view(1), lifeline.clone());
        let polling = Polling::new(PollPolicy::new(spin), cpu_hints);
        let waiter = Waiter::new(parker, view(2), lifeline, polling);
        (segment, waiter)
    }

    #[test]
    fn an_answer_is_found_by_polling_by_yielding_and_in_sleep() {
        for (spin, shares_cpu) in
            [(SPIN, false), (Duration::MAX, false), (Duration::ZERO, false), (SPIN, true)]
        {
            let (segment, mut waiter) = waiter(spin, shares_cpu);
            let (word, parker) = (&segment.words()[0], parker(&segment));
            let found = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(2));
                    // With no limit to polling, a side sleeps only if other threads want its CPU; otherwise it does at last.
                    while spin != Duration::MAX && parker.word().load(Ordering::Relaxed) == 0 {
                        std::thread::yield_now();
                    }
                    word.store(16, Ordering::Release);
                    assert!(sleep::wake(&parker) || spin == Duration::MAX, "{spin:?}");
                });
                waiter.for_change(word, 0, Deadline::SESSION_END)
            });
            assert_eq!(found.expect("open"), Some(16));
        }
    }

    #[test]
    fn nobody_waits_longer_than_asked() {
        for (spin, shares_cpu) in [(SPIN, false), (Duration::MAX, false), (Duration::ZERO, true)] {
            let (segment, mut waiter) = waiter(spin, shares_cpu);
            let start = Instant::now();
            let deadline = Deadline::after(Duration::from_millis(2));
            let found = waiter.for_change(&segment.words()[0], 0, deadline);
            assert_eq!(found.expect("open"), None);
            assert!(start.elapsed() >= Duration::from_millis(2));
        }
    }

    #[test]
    fn the_end_is_seen_awake_and_asleep_despite_the_peers_words() {
        for (spin, scribbles) in
            [(Duration::MAX, false), (Duration::ZERO, false), (Duration::ZERO, true)]
        {
            let (segment, mut waiter) = waiter(spin, false);
            let (end, words) = (waiter.sleeper.lifeline.end().clone(), segment.words());
            let ended = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let start = Instant::now();
                    while scribbles && start.elapsed() < Duration::from_millis(2) {
                        words[1].store(sleep::ASLEEP, Ordering::Relaxed);
                        words[2].store(0, Ordering::Relaxed);
                    }
                    std::thread::sleep(Duration::from_millis(2));
                    end.announce();
                });
                waiter.for_change(&words[0], 0, Deadline::SESSION_END)
            });
            assert!(ended.expect_err("the end").is_disconnected());
        }
    }

    #[test]
    fn a_peer_that_closes_and_one_whose_holder_died_are_seen() {
        for (closes, spin) in
            [(true, SPIN), (true, Duration::MAX), (false, SPIN), (false, Duration::MAX)]
        {
            let (segment, mut waiter) = waiter(spin, false);
            let words = segment.words();
            let holder = segment.view(5..6);
            let sleeper = &mut waiter.sleeper;
            sleeper.lifeline = sleeper.lifeline.clone().with_holders(holder, segment.view(6..7));
            sleeper.parker = SharedParker::new(segment.view(1..2), sleeper.lifeline.clone());
            let ended = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(2));
                    let (at, value) = if closes { (2, 1) } else { (5, OWNER_DIED) };
                    words[at].store(value, Ordering::Release);
                    // As the kernel does for a thread that ends, and a peer for its own end.
                    futex::wake(&words[5]);
                    sleep::wake(&parker(&segment));
                });
                waiter.for_change(&words[0], 0, Deadline::SESSION_END)
            });
            assert_eq!(ended.expect_err("the end").kind() == ErrorKind::ThreadGone, !closes);
        }
    }
}
