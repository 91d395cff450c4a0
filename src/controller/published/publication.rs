//! The host's side of a publication.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::page::{
    BEGUN_NS, COUNTER_WORDS, COUNTERS, EXECUTORS, FILE_NAME, HOST, IS_SLOW, LAYOUT, NAME,
    NAME_BYTES, PAGE_BYTES, RESTARTS, TIMES, bucket,
};
use crate::error::{Error, Result};
use crate::limits::PUBLISHED_NAME_BYTES_MAX;
use crate::origin::Origin;
use crate::shm::Segment;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::sys::clock;

/// While calls are short, one in this number is timed.
const TIMED_ONE_IN: u64 = 16;
/// After a call of this length, the thread's next one is timed.
const SLOW_NS: u64 = 2_000;

/// The wish of a builder that its executors be published. The page is made for the first of them.
pub(in crate::controller) struct Publish {
    name: String,
    made: Mutex<Option<Arc<Publication>>>,
}

impl Publish {
    pub(in crate::controller) fn new(name: String) -> Self {
        Self { name, made: Mutex::default() }
    }

    /// The publication, which is made now if it is the first time.
    ///
    /// # Errors
    ///
    /// When the name cannot be shown, or the kernel refuses a memory file.
    pub(in crate::controller) fn publication(&self) -> Result<Arc<Publication>> {
        let mut made = self.made.lock();
        // A forked child has its parent's page.
        if let Some(publication) = made.as_ref().filter(|made| made.origin.is_here()) {
            return Ok(Arc::clone(publication));
        }
        let publication = Arc::new(Publication::create(&self.name)?);
        *made = Some(Arc::clone(&publication));
        Ok(publication)
    }

    /// Counts an executor that was started because one had died.
    pub(in crate::controller) fn count_restart(&self) {
        if let Some(publication) = &*self.made.lock() {
            publication.add(RESTARTS, 1);
        }
    }
}

/// The page of the executors of one builder, which readers find while this lives.
#[derive(Debug)]
pub(in crate::controller) struct Publication {
    page: Segment,
    origin: Origin,
}

impl Publication {
    fn create(name: &str) -> Result<Self> {
        let fits = (1..=PUBLISHED_NAME_BYTES_MAX).contains(&name.len());
        if !fits || name.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "a session is published under a name of 1 to {PUBLISHED_NAME_BYTES_MAX} bytes without control characters, not {name:?}"
            )));
        }
        let page = Segment::create_for_readers(FILE_NAME, PAGE_BYTES as u64, false)?;
        page.back(0, PAGE_BYTES as u64)?;
        let words = page.words();
        let store = |word: usize, value| words[word].store(value, Ordering::Relaxed);
        store(HOST, u64::from(std::process::id()));
        store(BEGUN_NS, clock::monotonic_ns());
        store(NAME_BYTES, name.len() as u64);
        page.write(NAME.start * 8, name.as_bytes());
        // Last: a reader takes a page without this word for none.
        words[0].store(LAYOUT, Ordering::Release);
        Ok(Self { page, origin: Origin::new() })
    }

    fn add(&self, word: usize, count: u64) {
        if self.origin.is_here() {
            self.page.words()[word].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Shows an executor until the result is dropped. If there is no room for it, it is not shown, but its calls are counted.
    pub(in crate::controller) fn show(self: Arc<Self>, pid: i32) -> Shown {
        let pid = u64::from(pid.unsigned_abs());
        // An executor that has ended has the number 0, as a free place.
        let slot = EXECUTORS.clone().filter(|_| pid > 0).find(|slot| {
            let slot = &self.page.words()[*slot];
            slot.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        });
        Shown { publication: self, slot }
    }
}

/// A call that is timed.
pub(in crate::controller) struct Timed {
    begun: Instant,
    /// For how many calls it counts.
    stands_for: u64,
}

/// An executor that readers see.
pub(in crate::controller) struct Shown {
    publication: Arc<Publication>,
    slot: Option<usize>,
}

impl Shown {
    /// The publication, for a copy of this executor.
    pub(in crate::controller) fn publication(&self) -> &Arc<Publication> {
        &self.publication
    }

    /// Counts calls that are not timed.
    pub(in crate::controller) fn count(&self, calls: usize) {
        self.publication.add(self.line(), calls as u64);
    }

    /// Counts a call that begins. Returns what [`end`](Shown::end) needs if the call is timed.
    #[cold]
    pub(in crate::controller) fn begin(&self) -> Option<Timed> {
        if !self.publication.origin.is_here() {
            return None;
        }
        let (words, line) = (self.publication.page.words(), self.line());
        let number = words[line].fetch_add(1, Ordering::Relaxed);
        let stands_for = match (number, words[line + IS_SLOW].load(Ordering::Relaxed)) {
            // A thread's first call opens its lane, which others do not.
            (0, _) => 1,
            (_, 0) if number.is_multiple_of(TIMED_ONE_IN) => TIMED_ONE_IN,
            (_, 0) => return None,
            _ => 1,
        };
        Some(Timed { stands_for, begun: Instant::now() })
    }

    /// A call has ended that is timed.
    #[cold]
    pub(in crate::controller) fn end(&self, timed: &Timed) {
        let time_ns = u64::try_from(timed.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.publication.add(TIMES.start + bucket(time_ns), timed.stands_for);
        let is_slow = &self.publication.page.words()[self.line() + IS_SLOW];
        is_slow.store(u64::from(time_ns >= SLOW_NS), Ordering::Relaxed);
    }

    /// The first word of the calling thread's counters, which it may share with others.
    fn line(&self) -> usize {
        const LINES: usize = (COUNTERS.end - COUNTERS.start) / COUNTER_WORDS;
        static THREADS: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static THREAD: u64 = THREADS.fetch_add(1, Ordering::Relaxed);
        }
        let thread = usize::try_from(THREAD.try_with(|thread| *thread).unwrap_or(0)).unwrap_or(0);
        COUNTERS.start + thread % LINES * COUNTER_WORDS
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // The executors are those of the process that made the page, and not of its forked children.
        if let Some(slot) = self.slot.filter(|_| self.publication.origin.is_here()) {
            self.publication.page.words()[slot].store(0, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Publish").field(&self.name).finish()
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shown").field(&self.slot).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::alone;
    use crate::sys::process::fork;

    #[test]
    fn executors_that_find_no_room_are_not_shown_but_counted() {
        let publication = Publish::new("many".to_owned()).publication().expect("a page");
        let pids = 1..=EXECUTORS.len() + 44;
        let shown: Vec<Shown> = pids
            .map(|pid| Arc::clone(&publication).show(i32::try_from(pid).expect("small")))
            .collect();
        let pids = || {
            let words = &publication.page.words()[EXECUTORS];
            words.iter().filter(|slot| slot.load(Ordering::Relaxed) > 0).count()
        };
        assert_eq!(pids(), EXECUTORS.len());
        let last = shown.last().expect("some");
        assert_eq!((last.begin().map(|timed| last.end(&timed)), last.slot), (Some(()), None));
        assert_eq!(publication.page.words()[last.line()].load(Ordering::Relaxed), 1);
        let dead = Arc::clone(&publication).show(0);
        assert_eq!(dead.slot, None);
        drop((shown, dead));
        assert_eq!(pids(), 0);
    }

    #[test]
    fn a_forked_child_has_a_page_of_its_own() {
        const NAME: &str =
            "controller::published::publication::tests::a_forked_child_has_a_page_of_its_own";
        alone::run(NAME, || {
            fork::watch();
            let publish = Publish::new("a host that forks".to_owned());
            let parents = publish.publication().expect("a page");
            let shown = Arc::clone(&parents).show(7);
            if let Some(child) = fork::alone().expect("forked") {
                let ended = nix::sys::wait::waitpid(child, None).expect("the test's own child");
                assert_eq!(ended, nix::sys::wait::WaitStatus::Exited(child, 0));
                assert_eq!(parents.page.words()[shown.line()].load(Ordering::Relaxed), 0);
                assert_eq!(shown.slot, Some(EXECUTORS.start));
                return;
            }
            shown.count(1);
            let is_timed = shown.begin().is_some();
            let own = publish.publication();
            let is_own = own.is_ok_and(|own| !Arc::ptr_eq(&own, &parents));
            drop(shown);
            let is_kept = parents.page.words()[EXECUTORS.start].load(Ordering::Relaxed) == 7;
            fork::end(i32::from(is_timed || !is_own || !is_kept));
        });
    }
}
