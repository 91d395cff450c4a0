//! What tells a waiter that nothing more will come.
//!
//! | sign | written by | what it says |
//! |---|---|---|
//! | the end | this process, in its own memory | the session, the lane or the pipeline is over |
//! | the thread | the kernel, when the peer's thread ends | no thread serves this lane any more |
//! | the process | the kernel or the crash handler | the peer is dying |
//! | the closed word | the peer | the peer has closed its end |
//!
//! A peer can write the last three signs, and hides nothing by that: the end alone bounds every wait. The kernel compares the
//! end together with the word that a waiter sleeps on. The other signs make news of a death come sooner.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::Error;
use crate::origin::Origin;
#[cfg(not(model))]
use crate::shm::Segment;
use crate::shm::Words;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::futex::{self, OWNER_DIED, Seen, WORDS_MAX};
#[cfg(not(model))]
use crate::wire::layout::PROCESS_HOLDER_WORD;

/// The bit of an end's word that says that the end has come. The bits above it count nudges.
const HAS_COME: u64 = 1;
const ONE_NUDGE: u64 = 2;

/// A timer of the kernel may come this late (`PR_SET_TIMERSLACK`, as threads have it). So a waiter sleeps until this time before its
/// deadline, and polls for the rest.
const TIMER_SLACK: Duration = Duration::from_micros(50);

/// The end of a session, a lane or a pipeline, in memory of this process. Only this process brings it about.
#[derive(Debug, Clone)]
pub(crate) struct End(Arc<State>);

#[derive(Debug)]
struct State {
    word: AtomicU64,
    /// Why the peer refused to begin.
    refusal: OnceLock<String>,
    origin: Origin,
}

impl End {
    pub(crate) fn new() -> Self {
        let (word, origin) = (AtomicU64::new(0), Origin::new());
        Self(Arc::new(State { word, refusal: OnceLock::new(), origin }))
    }

    /// The process that made the end. It owns what is shared with the peer.
    pub(crate) fn origin(&self) -> Origin {
        self.0.origin
    }

    /// True when another clone of this end exists.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// As [`End::announce`], when the peer has refused to begin for this reason.
    pub(crate) fn refuse(&self, reason: &str) {
        // The first reason counts.
        let _ = self.0.refusal.set(reason.to_owned());
        self.announce();
    }

    /// Ends every wait, now and later.
    pub(crate) fn announce(&self) {
        // [END] Release: a waiter that sees it sees what was handed over before the end was known, and the reason. No Acquire:
        // a read-modify-write continues the release sequence of those before it.
        self.0.word.fetch_or(HAS_COME, Ordering::Release);
        futex::wake_own(&self.0.word);
    }

    /// Makes sleepers read once more what they wait for.
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

    /// The value for a sleeper to sleep on. The sleeper must take it before it reads its reasons to stay awake.
    pub(crate) fn look(&self) -> u64 {
        // [NUDGE] Acquire: pairs with `nudge`.
        self.0.word.load(Ordering::Acquire)
    }
}

/// The word that tells of an executor's death, in the segment of its first lane.
#[cfg(not(model))]
pub(crate) fn process_holder(first: &Arc<Segment>) -> Words {
    first.view(PROCESS_HOLDER_WORD..PROCESS_HOLDER_WORD + 1)
}

/// Everything that ends the waits of one side of a lane or a pipeline.
#[derive(Debug, Clone)]
pub(crate) struct Lifeline {
    end: End,
    /// The words of the peer's thread and of its process. The kernel or the peer marks them with [`OWNER_DIED`].
    holders: [Option<Words>; 2],
}

impl Lifeline {
    /// A lifeline for a peer that marks no words.
    pub(crate) fn new(end: End) -> Self {
        Self { end, holders: [None, None] }
    }

    /// The same lifeline, which is also cut when the thread or the process ends that holds one of these words.
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
        // [HOLDER] Acquire: this side sees what the peer's thread stored before it ended.
        let died = |word: &Words| word[0].load(Ordering::Acquire) & OWNER_DIED != 0;
        self.holders.iter().flatten().any(died)
    }

    /// True when nothing more will come.
    #[inline]
    pub(crate) fn is_cut(&self) -> bool {
        self.end.has_come() || self.is_dead()
    }

    /// Sleeps until `word`, which held `value`, was changed and its sleepers woken, until a sign comes, or until shortly before the
    /// deadline. `seen` is what [`End::look`] has returned. May return early for any reason.
    pub(crate) fn sleep(&self, word: &AtomicU64, value: u64, seen: u64, deadline: Deadline) {
        let shared = |word| Seen { word, value: 0, is_private: false };
        let own = Seen { word: &self.end.0.word, value: seen, is_private: true };
        let mut all = [Seen { value, ..shared(word) }, own, own, own];
        const { assert!(WORDS_MAX == 4) };
        let mut count = 2;
        for holder in self.holders.iter().flatten() {
            // Relaxed: no other memory is read because of it. A sleeper that returns reads the word again in `is_dead`.
            let found = holder[0].load(Ordering::Relaxed);
            if found & OWNER_DIED != 0 {
                return;
            }
            all[count] = Seen { value: found, ..shared(&holder[0]) };
            count += 1;
        }
        futex::wait(&all[..count], deadline.ahead(TIMER_SLACK));
    }
}
