//! A tiny ring between two threads, in every order of loom.
//!
//! Loom's words are watched besides. A relaxed store to a word of a record fails the model unless Release and Acquire order it
//! with every other access to that word. That is stricter than comparing values. Loom runs the loads of a thread in order, so
//! by its values a consumer that returns lines with a relaxed store looks right.
//!
//! Invariant: each labelled ordering of the ring is also made relaxed, each end by itself, and its model must fail then.

use std::rc::Rc;
use std::sync::Mutex;

use ::loom::cell::UnsafeCell;
use ::loom::thread;

use super::*;
use crate::ring::{CLOSED_WORD, CONSUMED_WORD, CONTROL_LINES, LINE_PAYLOAD_BYTES, LINE_WORDS};

type Cells = Watched<Weakened<Heap>>;

/// Both ends of a ring of `lines` lines.
fn ring(lines: usize, position: u64, weak: Weak) -> (Producer<Cells>, Consumer<Cells>) {
    let accesses = (0..ring_words(lines)).map(|_| UnsafeCell::new(())).collect();
    let cells = Watched { cells: Weakened { cells: Heap::new(lines), weak }, accesses };
    let consumer = Consumer::new(cells.clone(), lines, position);
    (Producer::new(cells, lines, position), consumer)
}

/// Fails on a relaxed store to a word of a record that is not ordered with another access to that word.
#[derive(Clone)]
struct Watched<B> {
    cells: B,
    accesses: Rc<[UnsafeCell<()>]>,
}

impl<B> Watched<B> {
    fn access(&self, word: usize) -> Option<&UnsafeCell<()>> {
        (word >= CONTROL_LINES * LINE_WORDS).then(|| &self.accesses[word])
    }
}

impl<B: Backing> Backing for Watched<B> {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        if let Some(access) = self.access(word) {
            access.with(|_| ());
        }
        self.cells.load(word, order)
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        // Not watched: a store that publishes may meet the consumer's polls at any time.
        if let Some(access) = self.access(word).filter(|_| order == Ordering::Relaxed) {
            access.with_mut(|_| ());
        }
        self.cells.store(word, value, order);
    }
}

/// The end of a pair of orderings that is made relaxed, if any.
type Weak = Option<(Pair, End)>;

/// The pairs of orderings, as the comments of the ring label them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pair {
    Pub,
    Pos,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Store,
    Load,
}

#[derive(Clone)]
struct Weakened<B> {
    cells: B,
    weak: Weak,
}

impl<B> Weakened<B> {
    fn order(&self, end: End, word: usize, order: Ordering) -> Ordering {
        let pair = match word {
            CONSUMED_WORD => Pair::Pos,
            CLOSED_WORD => Pair::End,
            _ => Pair::Pub,
        };
        if self.weak == Some((pair, end)) { Ordering::Relaxed } else { order }
    }
}

impl<B: Backing> Backing for Weakened<B> {
    fn load(&self, word: usize, order: Ordering) -> u64 {
        self.cells.load(word, self.order(End::Load, word, order))
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        self.cells.store(word, value, self.order(End::Store, word, order));
    }
}

/// The cases that the ends of a ring met, over all executions of a model.
#[derive(Default)]
struct Counters {
    executions: u64,
    full: u64,
    empty: u64,
    closed: u64,
}

type Counted = Arc<Mutex<Counters>>;

/// Runs `model` in every order, or in those with at most this number of preemptions.
fn explore(
    name: &str,
    preemptions: Option<usize>,
    model: impl Fn(&Counted) + Send + Sync + 'static,
) -> Counters {
    let counted = Counted::default();
    let inner = Arc::clone(&counted);
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(move || {
        inner.lock().unwrap().executions += 1;
        model(&inner);
    });
    let counters = std::mem::take(&mut *counted.lock().unwrap());
    let Counters { executions, full, empty, closed } = counters;
    println!(
        "loom ring {name}: {executions} executions ({full} full, {empty} empty, {closed} closed)"
    );
    assert!(executions > 1, "{name}: nothing was explored");
    counters
}

/// Pushes a record; waits while the ring is full. False when the consumer has closed it.
fn push(producer: &mut Producer<Cells>, record: (Head, Vec<u8>), counted: &Counted) -> bool {
    loop {
        match producer.push(record.0, &record.1) {
            Ok(()) => return true,
            Err(PushError::Full) => counted.lock().unwrap().full += 1,
            Err(PushError::Closed) => {
                counted.lock().unwrap().closed += 1;
                return false;
            }
            Err(corrupt) => panic!("{corrupt:x?} at {:x}", producer.position()),
        }
        thread::yield_now();
    }
}

/// Pops a record; waits while the ring is empty. `None` when the producer has closed it.
fn pop(consumer: &mut Consumer<Cells>, counted: &Counted) -> Option<(Head, Vec<u8>)> {
    let mut payload = Vec::new();
    loop {
        match consumer.pop(&mut payload) {
            Popped::Record(head) => return Some((head, payload)),
            Popped::Empty => counted.lock().unwrap().empty += 1,
            Popped::Closed => {
                counted.lock().unwrap().closed += 1;
                return None;
            }
            corrupt => panic!("{corrupt:x?} at {:x}", consumer.position()),
        }
        thread::yield_now();
    }
}

/// Records of these sizes go from one thread to another, whole and in order. Up to three records run in every order of the two
/// threads, more with at most three preemptions.
fn stream(
    name: &str,
    (lines, position): (usize, u64),
    sizes: &'static [usize],
    weak: Weak,
) -> Counters {
    explore(name, (sizes.len() > 3).then_some(3), move |counted| {
        let (mut producer, mut consumer) = ring(lines, position, weak);
        let writer = thread::spawn({
            let counted = Arc::clone(counted);
            move || {
                for (sequence, bytes) in (0..).zip(sizes) {
                    assert!(push(&mut producer, record(sequence, *bytes), &counted));
                }
                producer.position()
            }
        });
        for (sequence, bytes) in (0..).zip(sizes) {
            assert_eq!(pop(&mut consumer, counted), Some(record(sequence, *bytes)));
        }
        assert_eq!(writer.join().unwrap(), consumer.position());
    })
}

/// One record of two lines.
fn publish(weak: Weak) -> Counters {
    stream("publish", (4, 0), &[48], weak)
}

/// A ring of two lines takes one record at a time.
fn full(weak: Weak) -> Counters {
    stream("full", (2, 0), &[8, 0, 16], weak)
}

/// The producer closes behind two records: the consumer sees both, then the end.
fn close(weak: Weak) -> Counters {
    explore("close", None, move |counted| {
        let (mut producer, mut consumer) = ring(4, 0, weak);
        let writer = thread::spawn({
            let counted = Arc::clone(counted);
            move || {
                assert!(push(&mut producer, record(0, 8), &counted));
                assert!(push(&mut producer, record(1, 8), &counted));
                producer.close();
            }
        });
        assert_eq!(pop(&mut consumer, counted), Some(record(0, 8)));
        assert_eq!(pop(&mut consumer, counted), Some(record(1, 8)));
        assert_eq!(pop(&mut consumer, counted), None);
        writer.join().unwrap();
    })
}

/// A record grows by two words and is completed without a third, in front of another record. Each word is taken when it is
/// seen.
fn grow(weak: Weak) -> Counters {
    let head = Head { kind: 7, sequence: 5, target: 0 };
    explore("grow", None, move |counted| {
        let (mut producer, consumer) = ring(4, u64::MAX, weak);
        let mut consumer = consumer.of_growing();
        let writer = thread::spawn(move || {
            producer.push_word(head, [1; 8], false).expect("room");
            producer.push_word(head, [2; 8], false).expect("room");
            producer.complete(7);
            producer.push(head, &[3; 8]).expect("room");
        });
        let mut came = Vec::new();
        while came.len() < 24 {
            let mut line = [0; LINE_PAYLOAD_BYTES];
            if let Some(piece) = consumer.pop_piece(&mut line) {
                assert_eq!((piece.kind(), piece.sequence()), (7, 5));
                assert_eq!(piece.taken, came.len() % 16);
                came.extend_from_slice(&line[..piece.bytes()]);
                continue;
            }
            let popped = consumer.pop(&mut Vec::new());
            assert_eq!(popped, Popped::Empty);
            counted.lock().unwrap().empty += 1;
            thread::yield_now();
        }
        assert_eq!(came, [[1; 8], [2; 8], [3; 8]].concat());
        writer.join().unwrap();
    })
}

#[test]
fn a_record_that_grows_comes_word_by_word() {
    assert!(grow(None).empty > 0);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_word_that_is_added_relaxed_is_found() {
    grow(Some((Pair::Pub, End::Store)));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_look_for_more_is_found() {
    grow(Some((Pair::Pub, End::Load)));
}

#[test]
fn a_record_arrives_whole() {
    assert!(publish(None).empty > 0);
}

#[test]
fn a_full_ring_overwrites_nothing() {
    assert!(full(None).full > 0);
}

/// The ring wraps twice, and positions pass the largest one.
#[test]
fn records_survive_wrapping() {
    let counters = stream("wrap", (4, u64::MAX), &[104, 8, 168], None);
    assert!(counters.full > 0 && counters.empty > 0);
}

#[test]
fn records_survive_many_laps() {
    let counters = stream("laps", (4, u64::MAX - 2), &[8, 48, 104, 0, 104, 40], None);
    assert!(counters.full > 0 && counters.empty > 0);
}

#[test]
fn closing_loses_no_record() {
    let counters = close(None);
    assert_eq!(counters.closed, counters.executions);
}

#[test]
fn a_consumer_that_closes_stops_the_producer() {
    let counters = explore("abandon", None, |counted| {
        let (mut producer, mut consumer) = ring(2, 0, None);
        let writer = thread::spawn({
            let counted = Arc::clone(counted);
            move || (0..).take_while(|at| push(&mut producer, record(*at, 8), &counted)).count()
        });
        assert_eq!(pop(&mut consumer, counted), Some(record(0, 8)));
        consumer.close();
        let pushed = writer.join().unwrap();
        assert!(pushed == 1 || pushed == 2, "{pushed} in a ring that takes one at a time");
    });
    assert_eq!(counters.closed, counters.executions);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_publication_is_found() {
    publish(Some((Pair::Pub, End::Store)));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_poll_is_found() {
    publish(Some((Pair::Pub, End::Load)));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn lines_given_back_relaxed_are_found() {
    full(Some((Pair::Pos, End::Store)));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn lines_taken_back_relaxed_are_found() {
    full(Some((Pair::Pos, End::Load)));
}

/// The consumer sees the flag but not the last record, so one is missing.
#[test]
#[should_panic(expected = "left == right")]
fn a_relaxed_closed_flag_is_found() {
    close(Some((Pair::End, End::Store)));
}

#[test]
#[should_panic(expected = "left == right")]
fn a_relaxed_look_at_the_closed_flag_is_found() {
    close(Some((Pair::End, End::Load)));
}
