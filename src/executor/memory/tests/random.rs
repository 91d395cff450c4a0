//! Random operations on the memory map and on the model, which must agree in results, errors, actions, protections
//! and contents.

use std::sync::Arc;

use super::model::{Model, Notes, Slab};
use super::process_maps::{Maps, read_byte};
use super::{STRIPE, note, noted, shared};
use crate::call::contract::Action;
use crate::error::ErrorKind;
use crate::executor::memory::{MemoryMap, Segment};
use crate::limits::PAGE_BYTES;
use crate::random::Random;
use crate::sps::{AllocGroup, Lifetime};
use crate::{AddrRange, ExecutorAddr, Prot};

const ALONE: u64 = 60_000;
const THREADS: u64 = 8;
const EACH: u64 = 5_000;

#[test]
fn random_sequences_agree_with_the_model() {
    let counts = (0..ALONE).map(|seed| {
        let mut run = Run::new(Arc::default(), seed);
        run.sequence();
        let order: Vec<_> = run.model.slabs.iter().map(|slab| slab.start).collect();
        run.model.release(&order);
        let failures = run.map.shut_down();
        run.agree_on_actions();
        run.agree_on_failures(&failures.join("; "));
        run.count
    });
    let count = counts.fold(Count::default(), Count::plus);
    println!("memory map against its model: {ALONE} cases, {count:?}");
    count.is_varied();
}

#[test]
fn random_sequences_of_8_threads_agree_with_their_models() {
    let map = Arc::new(MemoryMap::default());
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let map = Arc::clone(&map);
            std::thread::spawn(move || {
                let counts = (0..EACH).map(|number| {
                    let mut run = Run::new(Arc::clone(&map), thread << 32 | number);
                    run.sequence();
                    let slabs: Vec<_> = run.model.slabs.iter().map(|slab| slab.start).collect();
                    run.release(&slabs);
                    run.count
                });
                counts.fold(Count::default(), Count::plus)
            })
        })
        .collect();
    let counts = threads.into_iter().map(|thread| thread.join().expect("agreed"));
    let count = counts.fold(Count::default(), Count::plus);
    println!("memory map from {THREADS} threads: {} cases, {count:?}", THREADS * EACH);
    count.is_varied();
    let state = map.state.lock();
    assert!(state.slabs.is_empty() && state.regions.is_empty() && state.kept.bytes() == 0);
}

/// Counters of a run's operations.
#[derive(Debug, Default)]
struct Count {
    initialized: u64,
    refused: u64,
    failed_actions: u64,
    released: u64,
    bad_addresses: u64,
}

impl Count {
    fn plus(self, other: Count) -> Count {
        Count {
            initialized: self.initialized + other.initialized,
            refused: self.refused + other.refused,
            failed_actions: self.failed_actions + other.failed_actions,
            released: self.released + other.released,
            bad_addresses: self.bad_addresses + other.bad_addresses,
        }
    }

    /// A run must try every kind of operation.
    fn is_varied(&self) {
        let Count { initialized, refused, failed_actions, released, bad_addresses } = *self;
        for count in [initialized, refused, failed_actions, released, bad_addresses] {
            assert!(count >= 5_000, "{self:?}");
        }
    }
}

struct Run {
    map: Arc<MemoryMap>,
    model: Model,
    random: Random,
    count: Count,
    notes: u32,
    /// No other thread uses the map.
    is_alone: bool,
}

impl Run {
    fn new(map: Arc<MemoryMap>, seed: u64) -> Run {
        let is_alone = Arc::strong_count(&map) == 1;
        let (model, count) = (Model::default(), Count::default());
        Run { map, model, random: Random::new(seed), count, notes: 0, is_alone }
    }

    fn sequence(&mut self) {
        self.reserve();
        for _ in 0..4 + self.random.below(12) {
            match self.random.below(12) {
                0 => self.reserve(),
                1..8 => self.initialize(),
                8..11 => {
                    let bases = self.model.sets.iter().map(|set| set.base).collect();
                    let list = self.addresses(bases);
                    self.deinitialize(&list);
                }
                _ => {
                    let slabs = self.model.slabs.iter().map(|slab| slab.start).collect();
                    let list = self.addresses(slabs);
                    self.release(&list);
                }
            }
            self.agree_on_actions();
        }
        self.agree_on_memory();
    }

    fn reserve(&mut self) {
        match self.random.below(8) {
            0 => {
                let slab = shared(&self.map);
                self.model.slabs.push(Slab::shared(slab, (STRIPE / PAGE_BYTES) as usize));
            }
            1 => {
                let bytes = [0, 100, PAGE_BYTES + 8, 1 << 62][self.random.below(4) as usize];
                self.map.reserve_private(bytes).expect_err("no such slab");
                self.count.refused += 1;
            }
            _ => {
                let pages = 1 + self.random.below(16);
                let slab = self.map.reserve_private(pages * PAGE_BYTES).expect("a slab");
                self.model.slabs.push(Slab::private(slab, pages as usize));
            }
        }
    }

    fn initialize(&mut self) {
        let Some(slab) = self.model.slabs.get(self.random.index(self.model.slabs.len())) else {
            return;
        };
        let (start, pages, is_shared) = (slab.start, slab.pages.len() as u64, slab.is_shared);
        let segments: Vec<_> =
            (0..1 + self.random.below(2)).map(|_| self.segment(start, pages, is_shared)).collect();
        let notes: Vec<Notes> =
            (0..self.random.below(4)).map(|_| (self.note(), self.note())).collect();
        let action = |number| if number == 0 { Action::default() } else { note(number) };
        let actions = notes.iter().map(|(one, other)| (action(*one), action(*other))).collect();
        let expected = self.model.initialize(&segments, &notes);
        let result = self.map.initialize(&segments, actions);
        match (&expected, &result) {
            (Some(base), Ok(found)) if base == found => self.count.initialized += 1,
            (None, Err(error)) if error.kind() == ErrorKind::InvalidArgument => {
                self.count.refused += 1
            }
            (None, Err(_)) => self.count.failed_actions += 1,
            _ => {
                let plain =
                    |one: Segment| (one.group, one.start, one.bytes, one.content.map(|c| c.len()));
                let segments: Vec<_> = segments.into_iter().map(plain).collect();
                panic!("{expected:?} expected, {result:?} for {segments:x?}")
            }
        }
    }

    /// A segment that is valid more often than not.
    fn segment(&mut self, slab: ExecutorAddr, pages: u64, is_shared: bool) -> Segment {
        let page = self.random.below(pages);
        let mut start = slab.get() + page * PAGE_BYTES;
        let mut bytes = (1 + self.random.below(3)).min(pages - page) * PAGE_BYTES;
        match self.random.below(40) {
            0 => start += 1 + self.random.below(PAGE_BYTES),
            1 => bytes = self.random.below(2 * PAGE_BYTES),
            2 => bytes = pages * PAGE_BYTES,
            3 => bytes = self.random.word(),
            _ => {}
        }
        let mut prot = Prot::ALL[self.random.below(3) as usize];
        if is_shared && self.random.below(8) > 0 {
            prot = Prot::ALL[(page * 3 / pages) as usize];
        }
        let lifetime = match self.random.below(5) {
            0 => Lifetime::Finalize,
            _ => Lifetime::Standard,
        };
        let content = (is_shared == (self.random.below(20) == 0)).then(|| {
            let length = self.random.below(bytes.min(3 * PAGE_BYTES) + 1);
            let extra = if self.random.below(20) == 0 { 3 * PAGE_BYTES } else { 0 };
            vec![1 + self.random.below(255) as u8; (length + extra) as usize]
        });
        let group = AllocGroup { prot, lifetime };
        Segment { group, start: ExecutorAddr::new(start), bytes, content }
    }

    /// The number of a note; some fail, and some are null.
    fn note(&mut self) -> u32 {
        self.notes += 1;
        let thousands = self.notes * 1000;
        match self.random.below(12) {
            0 => thousands + super::FAILING,
            1..3 => 0,
            _ => thousands,
        }
    }

    /// Some of these addresses, in any order, with repetitions and bad ones.
    fn addresses(&mut self, good: Vec<ExecutorAddr>) -> Vec<ExecutorAddr> {
        let mut list = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            match good.get(self.random.index(good.len())) {
                Some(address) if self.random.below(6) > 0 => list.push(*address),
                // The next page may belong to another thread.
                Some(address) => {
                    let off = if self.is_alone { PAGE_BYTES } else { 16 };
                    list.push(ExecutorAddr::new(address.get() + off));
                }
                None => list.push(ExecutorAddr::new(self.random.below(1 << 16) * 16)),
            }
        }
        list
    }

    fn deinitialize(&mut self, list: &[ExecutorAddr]) {
        let bad = self.model.deinitialize(list);
        let result = self.map.deinitialize(list);
        self.agree_on_complaints(&bad, result.err().map(|error| error.to_string()));
    }

    fn release(&mut self, list: &[ExecutorAddr]) {
        let before = self.model.slabs.len();
        let bad = self.model.release(list);
        let result = self.map.release(list);
        self.count.released += (before - self.model.slabs.len()) as u64;
        self.agree_on_complaints(&bad, result.err().map(|error| error.to_string()));
        self.agree_on_actions();
    }

    /// The error names the bad addresses and the failed actions, and no others.
    fn agree_on_complaints(&mut self, bad: &[ExecutorAddr], error: Option<String>) {
        self.count.bad_addresses += bad.len() as u64;
        let error = error.unwrap_or_default();
        for address in bad {
            assert!(error.contains(&address.to_string()), "{address} in {error}");
        }
        let complaints = if error.is_empty() { 0 } else { 1 + error.matches("; ").count() };
        let failed = self.failed();
        assert_eq!(complaints, bad.len() + failed.len(), "{bad:?}, {failed:?}: {error}");
        self.agree_on_failures(&error);
    }

    fn agree_on_failures(&self, error: &str) {
        for number in self.failed() {
            assert!(error.contains(&format!("{number} fails")), "{number} in {error}");
        }
    }

    /// The actions that should have failed in the last operation.
    fn failed(&self) -> Vec<u32> {
        let log = self.model.log.iter();
        log.copied().filter(|number| number % 1000 >= super::FAILING).collect()
    }

    fn agree_on_actions(&mut self) {
        assert_eq!(noted(), self.model.log, "what the actions did");
        self.model.log.clear();
    }

    fn agree_on_memory(&self) {
        let maps = Maps::read();
        for slab in &self.model.slabs {
            let range = AddrRange::sized(slab.start, slab.pages.len() as u64 * PAGE_BYTES);
            let expected: String = slab.pages.iter().map(|page| page.letter).collect();
            assert_eq!(maps.letters(range.expect("no overflow")), expected, "at {}", slab.start);
            if slab.is_shared {
                continue;
            }
            for (number, page) in slab.pages.iter().enumerate() {
                let byte = |at: u64| read_byte(slab.start, number as u64 * PAGE_BYTES + at);
                let found = (byte(0), byte(PAGE_BYTES - 1));
                assert_eq!(found, page.content, "page {number} at {}", slab.start);
            }
        }
    }
}
