//! Work that several threads share.
//!
//! A thread takes the next item when it has done one. Results come back in the order of the items, so they do not depend on
//! the number of threads. Threads exist only during one piece of work, so a host has none of them between links. A link
//! never waits for work of the host.
//!
//! Invariant: every item is worked on once.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::thread;

use crate::sync::{AtomicU64, Ordering};

/// How many threads share a piece of work.
#[derive(Debug, Clone, Copy)]
pub struct Threads {
    /// The most of them; `None` for as many as the process has CPUs.
    pub most: Option<NonZeroUsize>,
    /// The least work for each, in bytes to read or to write.
    pub bytes_min: u64,
}

impl Default for Threads {
    /// As many as there are CPUs. A thread reads `bytes_min` in about ten times the time that starting it takes.
    fn default() -> Self {
        Self { most: None, bytes_min: 256 << 10 }
    }
}

impl Threads {
    /// The number of threads for work that reads this many bytes. The calling thread does little work alone.
    fn count(self, weight: u64) -> usize {
        let useful = usize::try_from(weight / self.bytes_min.max(1)).unwrap_or(usize::MAX);
        if useful < 2 { 1 } else { useful.min(self.most.map_or_else(cpus, NonZeroUsize::get)) }
    }

    /// `work` of each number below `items`, in their order. `weight` is about the bytes that all of it reads or writes.
    pub fn map<T: Send>(
        self,
        items: usize,
        weight: u64,
        work: impl Fn(usize) -> T + Sync,
    ) -> Vec<T> {
        self.map_with(items, weight, || (), |(), item| work(item))
    }

    /// As [`map`](Self::map), with a value of each thread's own, such as a buffer, which `work` gets for one item after another.
    pub fn map_with<V, T: Send>(
        self,
        items: usize,
        weight: u64,
        own: impl Fn() -> V + Sync,
        work: impl Fn(&mut V, usize) -> T + Sync,
    ) -> Vec<T> {
        let threads = self.count(weight).min(items);
        if threads < 2 {
            let mut own = own();
            return (0..items).map(|item| work(&mut own, item)).collect();
        }
        let next = AtomicU64::new(0);
        let run = || {
            let mut own = own();
            // Relaxed: the number alone is shared. Results are handed over when the thread is joined.
            let items = std::iter::from_fn(|| {
                let item = usize::try_from(next.fetch_add(1, Ordering::Relaxed)).ok()?;
                (item < items).then_some(item)
            });
            items.map(|item| (item, work(&mut own, item))).collect::<Vec<_>>()
        };
        let mut results = thread::scope(|scope| {
            let start = || thread::Builder::new().spawn_scoped(scope, run);
            // If the system has no more threads, those that were started do the work.
            let others: Vec<_> = (1..threads).map_while(|_| start().ok()).collect();
            let mut results = run();
            for other in others {
                results
                    .extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            results
        });
        results.sort_unstable_by_key(|(item, _)| *item);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

/// The CPUs that this process may use, counted once: the standard library reads files for that.
fn cpus() -> usize {
    static CPUS: OnceLock<usize> = OnceLock::new();
    *CPUS.get_or_init(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whatever_the_number_of_threads() {
        for threads in [1, 2, 8] {
            let threads = Threads { most: NonZeroUsize::new(threads), bytes_min: 1 };
            for items in [0, 1, 7, 1000] {
                let squares = threads.map(items, u64::MAX, |item| item * item);
                assert_eq!(squares, (0..items).map(|item| item * item).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn little_work_starts_no_thread() {
        let own = thread::current().id();
        let ids =
            Threads::default().map(100, Threads::default().bytes_min, |_| thread::current().id());
        assert!(ids.iter().all(|id| *id == own));
    }
}
