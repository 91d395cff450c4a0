//! What tells a waiter that nothing more will come.
//!
//! | sign | written by | what it says |
//! |---|---|---|
//! | the end | this process, in its own memory | the session, the lane or the pipeline is over |
//! | the thread | the kernel, when the peer's thread ends | nobody serves this lane any more |
//! | the process | the kernel or the crash handler | the peer is dying |
//! | the closed word | the peer | the peer has closed its end |
//!
//! A peer can write the last three and can hide nothing by it: the end alone bounds every wait, since the kernel compares
//! it together with the word that a waiter sleeps on. The other signs make news of a death come sooner.

use std::sync::{Arc, OnceLock};

use super::origin::Origin;
use crate::deadline::Deadline;
use crate::error::Error;
#[cfg(not(model))]
use crate::shm::Segment;
use crate::shm::Words;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::futex::{self, OWNER_DIED, Seen, WORDS_MAX};
#[cfg(not(model))]
use crate::wire::layout::PROCESS_HOLDER_WORD;

/// The bit of an end's word that says that it has come. The bits above count what else sleepers were told.
const HAS_COME: u64 = 1;
const ONE_NUDGE: u64 = 2;

/// An end that this process brings about, in its own memory.
#[derive(Debug, Clone)]
pub(crate) struct End(Arc<State>);

#[derive(Debug)]
struct State {
    word: AtomicU64,
    /// Why the peer did not begin.
    refusal: OnceLock<String>,
    origin: Origin,
}

impl End {
    pub(crate) fn new() -> Self {
        let (word, origin) = (AtomicU64::new(0), Origin::new());
        Self(Arc::new(State { word, refusal: OnceLock::new(), origin }))
    }

    /// The process that made it: what is shared with the peer is that one's.
    pub(crate) fn origin(&self) -> Origin {
        self.0.origin
    }

    /// True when something else knows this end.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// As [`End::announce`], because the peer refuses to begin, for this reason.
    pub(crate) fn refuse(&self, reason: &str) {
        // The first reason counts.
        let _ = self.0.refusal.set(reason.to_owned());
        self.announce();
    }

    /// Ends every wait, now and later.
    pub(crate) fn announce(&self) {
        // [END] Release: a waiter that sees it sees what was handed over before the end was known, and the reason.
        // No Acquire: an exchange passes on what those before it released.
        self.0.word.fetch_or(HAS_COME, Ordering::Release);
        futex::wake_own(&self.0.word);
    }

    /// Has sleepers look once more at what they wait for.
    pub(crate) fn nudge(&self) {
        // [NUDGE] Release: the sleeper that sees the count sees why it was nudged. No Acquire, as in `announce`.
        self.0.word.fetch_add(ONE_NUDGE, Ordering::Release);
        futex::wake_own(&self.0.word);
    }

    #[inline]
    pub(crate) fn has_come(&self) -> bool {
        // [END] Acquire: pairs with `announce`.
        self.0.word.load(Ordering::Acquire) & HAS_COME != 0
    }

    /// What a sleeper has seen of it. To be taken before the sleeper looks at its reasons to stay awake.
    pub(crate) fn look(&self) -> u64 {
        // [NUDGE] Acquire: pairs with `nudge`.
        self.0.word.load(Ordering::Acquire)
    }
}

/// The word that tells of the death of an executor, in the segment of its first lane.
#[cfg(not(model))]
pub(crate) fn process_holder(first: &Arc<Segment>) -> Words {
    first.view(PROCESS_HOLDER_WORD..PROCESS_HOLDER_WORD + 1)
}

/// Everything that ends the waits of one side of a lane or a pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Lifeline {
    end: End,
    /// Words that the kernel or the peer marks with [`OWNER_DIED`]: of the peer's thread, of its process.
    holders: [Option<Words>; 2],
}

impl Lifeline {
    /// One for a peer that marks nothing.
    pub(crate) fn new(end: End) -> Self {
        Self { end, holders: [None, None] }
    }

    /// The same, which also ends with the thread and the process that hold these words.
    pub(crate) fn with_holders(self, thread: Words, process: Words) -> Self {
        Self { end: self.end, holders: [Some(thread), Some(process)] }
    }

    pub(crate) fn end(&self) -> &End {
        &self.end
    }

    /// Why nothing more will come.
    #[cold]
    pub(crate) fn why(&self) -> Error {
        match self.end.0.refusal.get() {
            Some(reason) => Error::exhausted(format!("the executor refuses: {reason}")),
            None if self.is_dead() && !self.end.has_come() => {
                Error::thread_gone("the thread at the other side has ended")
            }
            None => Error::disconnected("the peer is gone"),
        }
    }

    /// True when a holder is gone.
    fn is_dead(&self) -> bool {
        // [HOLDER] Acquire: what the peer's thread stored before it ended is seen.
        let died = |word: &Words| word[0].load(Ordering::Acquire) & OWNER_DIED != 0;
        self.holders.iter().flatten().any(died)
    }

    /// True when nothing more will come.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.end.has_come() || self.is_dead()
    }

    /// Sleeps until `word`, which held `value`, was changed and woken, a sign comes, or the deadline passes. `seen` is the
    /// end as the sleeper has [looked](End::look) at it. Returns early for any reason.
    pub(crate) fn sleep(&self, word: &AtomicU64, value: u64, seen: u64, deadline: Deadline) {
        let shared = |word| Seen { word, value: 0, is_private: false };
        let own = Seen { word: &self.end.0.word, value: seen, is_private: true };
        let mut all = [Seen { value, ..shared(word) }, own, own, own];
        const { assert!(WORDS_MAX == 4) };
        let mut count = 2;
        for holder in self.holders.iter().flatten() {
            // Relaxed: nothing rests on it. A sleeper that is sent back looks again in `is_dead`.
            let found = holder[0].load(Ordering::Relaxed);
            if found & OWNER_DIED != 0 {
                return;
            }
            all[count] = Seen { value: found, ..shared(&holder[0]) };
            count += 1;
        }
        futex::wait(&all[..count], deadline);
    }
}
