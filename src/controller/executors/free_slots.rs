//! The free slots of an slot with several. A call takes a slot and gives it back; when none is free it waits in a queue.
//!
//! Two words for each 64 slots say which are free: those whose process was alive last, and those to be started. Without waiting, a call
//! costs one change of a word to take a slot and one to give it back.
//!
//! Invariant: a slot is free, taken, in the hand of one waiter, or retired; never two of these.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};

/// What is known of a slot that is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Alive,
    /// The next one has to be started.
    Dead,
    /// No other one is started any more.
    Retired,
}

/// The free slots.
#[derive(Debug)]
pub(super) struct FreeSlots {
    alive: Box<[AtomicU64]>,
    dead: Box<[AtomicU64]>,
    /// The waiters in the queue, and those about to be there.
    waiting: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    waiters: VecDeque<Arc<Waiter>>,
    /// Slots that are not retired.
    left: usize,
}

/// A call that waits for a slot.
#[derive(Debug, Default)]
struct Waiter {
    given: Mutex<Option<Given>>,
    came: Condvar,
}

#[derive(Debug, Clone, Copy)]
enum Given {
    Slot(usize),
    /// All are retired.
    Nothing,
}

/// Slots that one word is for.
const BITS: usize = u64::BITS as usize;

impl FreeSlots {
    /// A set of `count` slots, all alive and free.
    pub(super) fn new(count: usize) -> Self {
        let words = count.div_ceil(BITS);
        let full = |word: usize| match (count - word * BITS).min(BITS) {
            BITS => u64::MAX,
            some => (1 << some) - 1,
        };
        let queue = Mutex::new(Queue { left: count, ..Queue::default() });
        let alive = (0..words).map(|word| AtomicU64::new(full(word))).collect();
        let dead = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { alive, dead, waiting: AtomicU64::new(0), queue }
    }

    /// Takes a free slot, `preferred` if that is one, and those that are alive before those that are not. Waits up to the
    /// deadline while none is free; the calls that wait are served in their order.
    ///
    /// # Errors
    ///
    /// When the deadline passes. `None` when all are retired.
    pub(super) fn take(&self, preferred: usize, deadline: Deadline) -> Result<Option<usize>> {
        match self.take_free(preferred) {
            Some(slot) => Ok(Some(slot)),
            None => self.queue_up(preferred, deadline),
        }
    }

    #[inline]
    fn take_free(&self, preferred: usize) -> Option<usize> {
        take_bit(&self.alive, preferred).or_else(|| take_bit(&self.dead, preferred))
    }

    #[cold]
    fn queue_up(&self, preferred: usize, deadline: Deadline) -> Result<Option<usize>> {
        let waiter = Arc::new(Waiter::default());
        {
            let mut queue = self.queue.lock();
            // [FREE] SeqCst, before the look at the words: a thread that frees a slot afterwards sees this count.
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let found = self.take_free(preferred);
            if found.is_some() || queue.left == 0 {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                return Ok(found);
            }
            queue.waiters.push_back(Arc::clone(&waiter));
        }
        let nothing = |given: &mut Option<Given>| given.is_none();
        let given = waiter.given.lock();
        let given = match deadline.left() {
            None => waiter.came.wait_while(given, nothing),
            Some(left) => waiter.came.wait_timeout_while(given, left, nothing),
        };
        let mut outcome = *given;
        drop(given);
        if outcome.is_none() {
            let mut queue = self.queue.lock();
            let before = queue.waiters.len();
            queue.waiters.retain(|other| !Arc::ptr_eq(other, &waiter));
            if queue.waiters.len() < before {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                return Err(Error::timeout("no process of the executor was free in time"));
            }
            // It was given in the last moment, under the lock of the queue.
            outcome = *waiter.given.lock();
        }
        Ok(match outcome {
            Some(Given::Slot(slot)) => Some(slot),
            Some(Given::Nothing) | None => None,
        })
    }

    /// Gives back a slot that was taken.
    pub(super) fn give_back(&self, slot: usize, state: State) {
        if state == State::Retired {
            return self.retire();
        }
        // [FREE] SeqCst: pairs with the count in `queue_up`.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            self.free(slot, state);
            if self.waiting.load(Ordering::SeqCst) > 0 {
                let mut queue = self.queue.lock();
                while !queue.waiters.is_empty()
                    && let Some(slot) = self.take_free(slot)
                {
                    self.hand_over(&mut queue, Given::Slot(slot));
                }
            }
            return;
        }
        let mut queue = self.queue.lock();
        match queue.waiters.is_empty() {
            true => self.free(slot, state),
            false => self.hand_over(&mut queue, Given::Slot(slot)),
        }
    }

    fn free(&self, slot: usize, state: State) {
        let words = if state == State::Alive { &self.alive } else { &self.dead };
        let (word, bit) = place(slot);
        // [FREE] SeqCst: before the look at the waiters; Release for what the call has done.
        words[word].fetch_or(bit, Ordering::SeqCst);
    }

    fn hand_over(&self, queue: &mut Queue, given: Given) {
        if let Some(waiter) = queue.waiters.pop_front() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            *waiter.given.lock() = Some(given);
            waiter.came.notify_one();
        }
    }

    fn retire(&self) {
        let mut queue = self.queue.lock();
        queue.left = queue.left.saturating_sub(1);
        while queue.left == 0 && !queue.waiters.is_empty() {
            self.hand_over(&mut queue, Given::Nothing);
        }
    }
}

fn place(slot: usize) -> (usize, u64) {
    (slot / BITS, 1 << (slot % BITS))
}

/// Clears a bit that is set, and returns its number.
#[inline]
fn take_bit(words: &[AtomicU64], preferred: usize) -> Option<usize> {
    let (first, bit) = place(preferred);
    // [FREE] SeqCst: behind the count of waiters; Acquire for what the last call has done.
    if words[first].load(Ordering::Relaxed) & bit != 0
        && words[first].fetch_and(!bit, Ordering::SeqCst) & bit != 0
    {
        return Some(preferred);
    }
    for step in 0..words.len() {
        let word = (first + step) % words.len();
        loop {
            let found = words[word].load(Ordering::SeqCst);
            if found == 0 {
                break;
            }
            let bit = found & found.wrapping_neg();
            // Another thread may take it in between; then it has it, and this one looks for the next.
            if words[word].fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
                return Some(word * BITS + bit.trailing_zeros() as usize);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);

    #[test]
    fn each_is_taken_once_and_the_preferred_first() {
        let set = FreeSlots::new(130);
        let take = |preferred| set.take(preferred, Deadline::now());
        assert_eq!(take(129).expect("free"), Some(129));
        assert_eq!(take(129).expect("free"), Some(128), "the next in its word");
        let mut rest: Vec<_> = (0..128).map(|_| take(7).expect("free").expect("left")).collect();
        assert_eq!(rest[0], 7);
        rest.sort_unstable();
        assert_eq!(rest, (0..128).collect::<Vec<_>>());
        assert_eq!(take(0).expect_err("all are taken").kind(), crate::ErrorKind::Timeout);
        set.give_back(100, State::Dead);
        set.give_back(3, State::Alive);
        assert_eq!(take(100).expect("free"), Some(3), "a living one first");
        assert_eq!(take(0).expect("free"), Some(100));
    }

    #[test]
    fn who_waits_is_served_in_order_or_times_out() {
        let set = FreeSlots::new(1);
        assert_eq!(set.take(0, Deadline::now()).expect("free"), Some(0));
        assert!(set.take(0, Deadline::after(SHORT)).is_err(), "a time-out");
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for number in 0..4 {
                let (set, order) = (&set, &order);
                scope.spawn(move || {
                    let slot = set.take(0, Deadline::SESSION_END).expect("no deadline");
                    order.lock().push(number);
                    set.give_back(slot.expect("not retired"), State::Alive);
                });
                while set.queue.lock().waiters.len() <= number {
                    thread::yield_now();
                }
            }
            set.give_back(0, State::Dead);
        });
        assert_eq!(*order.lock(), [0, 1, 2, 3]);
        assert_eq!(set.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn the_last_that_retires_ends_the_waits() {
        let set = FreeSlots::new(2);
        let take = || set.take(0, Deadline::SESSION_END).expect("no deadline");
        assert_eq!((take(), take()), (Some(0), Some(1)));
        set.give_back(0, State::Retired);
        thread::scope(|scope| {
            let waits = scope.spawn(take);
            while set.queue.lock().waiters.is_empty() {
                thread::yield_now();
            }
            set.give_back(1, State::Retired);
            assert_eq!(waits.join().expect("no panic"), None);
        });
        assert_eq!(take(), None);
    }

    #[test]
    fn eight_threads_never_share_one_of_three() {
        const ROUNDS: u64 = 20_000;
        let set = FreeSlots::new(3);
        let users: [AtomicU64; 3] = std::array::from_fn(|_| AtomicU64::new(0));
        let taken = AtomicU64::new(0);
        thread::scope(|scope| {
            for number in 0..8 {
                let (set, users, taken) = (&set, &users, &taken);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let at = set.take(number % 3, Deadline::SESSION_END);
                        let at = at.expect("no deadline").expect("not retired");
                        assert_eq!(users[at].fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::Relaxed);
                        users[at].fetch_sub(1, Ordering::SeqCst);
                        let is_dead = round % 7 == 0;
                        set.give_back(at, if is_dead { State::Dead } else { State::Alive });
                    }
                });
            }
        });
        println!("pool: {} cases", taken.load(Ordering::Relaxed));
        assert_eq!(taken.load(Ordering::Relaxed), 8 * ROUNDS);
    }
}
