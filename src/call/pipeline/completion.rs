//! Where the results of a submission arrive.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::error::{Error, Result};
use crate::limits::{ERROR_BYTES_MAX, PIPELINE_CALLS_MAX};
use crate::sleep::Follower;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::transport::pipeline::{EMPTY_LINE, Line};
use crate::wire::pipeline::WORD_BYTES;

/// The results of one call, or of a batch of calls, as they arrive.
#[derive(Debug, Default)]
pub(crate) struct Completion {
    state: Mutex<State>,
    /// How many results there are to take, or [`NO_MORE`]. Stored under the lock, read without it.
    there: AtomicU64,
    calls: Calls,
}

/// Which calls of a pipeline a completion is for.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Calls {
    /// The number of the first one.
    pub(super) first: u64,
    /// Calls that were submitted before.
    pub(super) before: u64,
    pub(super) count: usize,
}

/// No more results will come.
const NO_MORE: u64 = u64::MAX;

/// What is locked while results arrive.
#[derive(Debug, Default)]
pub(super) struct State {
    arrived: Arrived,
    /// Results that have not arrived.
    missing: usize,
    /// Why they never will arrive.
    ended: Option<Error>,
    pub(super) waiter: Option<Waiter>,
    /// The calls have timed out; their results are dropped.
    pub(super) is_expired: bool,
}

/// What is woken when results are there.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A thread that waits until this many results are there.
    Thread(Arc<Follower>, usize),
    /// A task that waits for all of them.
    Task(Waker),
}

/// Results that arrived and were not yet taken, in the order of their calls. A result that fits a line is received right into
/// its place.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    places: Vec<Place>,
    /// How many results there are.
    count: usize,
    /// Results that do not fit a line.
    long: VecDeque<Vec<u8>>,
    /// How many places were handed out, how many bytes of the next place, and the last long result.
    taken: usize,
    taken_bytes: usize,
    last_long: Vec<u8>,
}

/// One result, or several of one word each.
#[derive(Debug, Clone, Copy)]
struct Place {
    line: Line,
    /// Bytes in the line.
    bytes: usize,
    kind: Kind,
}

/// What is in a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Result,
    Failure,
    /// Results of [`WORD_BYTES`] each.
    Words,
    /// Nothing: the result is in `long`.
    Long,
    LongFailure,
}

impl Completion {
    /// Prepares a new or emptied completion for a submission of these calls.
    pub(super) fn expect(&mut self, calls: Calls) {
        self.calls = calls;
        let state = self.state.get_mut();
        state.arrived.places.reserve_exact(calls.count);
        state.missing = calls.count;
        let there = state.there();
        // Relaxed: no other thread has the completion yet.
        self.there.store(there, Ordering::Relaxed);
    }

    /// The calls for which it is.
    pub(super) fn calls(&self) -> Calls {
        self.calls
    }

    /// Empties the completion, and gives it the room of `used`. False when the completion is not worth keeping.
    pub(super) fn renew(&mut self, used: Arrived) -> bool {
        let state = self.state.get_mut();
        let emptied = used.emptied();
        let is_kept = emptied.is_some() && state.waiter.is_none();
        let arrived = emptied.unwrap_or_default();
        *state = State { arrived, ..State::default() };
        is_kept
    }

    /// True when `enough` results are there, or no more will come.
    #[inline]
    pub(crate) fn has(&self, enough: usize) -> bool {
        // [THERE] Acquire: pairs with the store in `show`. To take the results takes the lock as well.
        self.there.load(Ordering::Acquire) >= enough as u64
    }

    /// Publishes how many results are there. Called before the lock is released.
    #[inline]
    pub(super) fn show(&self, state: &State) {
        // [THERE] Release: pairs with the load in `has`.
        self.there.store(state.there(), Ordering::Release);
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes what has arrived, in exchange for a used buffer.
    ///
    /// # Errors
    ///
    /// When nothing has arrived and nothing will: why the pipeline has ended.
    pub(crate) fn take(&self, arrived: &mut Arrived) -> Result<()> {
        let mut state = self.lock();
        if let (true, Some(reason)) = (state.arrived.count == 0, &state.ended) {
            return Err(reason.clone());
        }
        arrived.clear();
        std::mem::swap(&mut state.arrived, arrived);
        self.show(&state);
        Ok(())
    }
}

impl State {
    /// How many results are there, or [`NO_MORE`].
    #[inline]
    fn there(&self) -> u64 {
        let is_over = self.missing == 0 || self.ended.is_some();
        if is_over { NO_MORE } else { self.arrived.count as u64 }
    }

    /// True when `enough` results are there, or no more will come.
    #[inline]
    pub(super) fn has(&self, enough: usize) -> bool {
        self.there() >= enough as u64
    }

    /// The line into which the next record is received. One of the `put` functions must follow.
    #[inline]
    pub(super) fn next_line(&mut self) -> &mut Line {
        let place = Place { line: EMPTY_LINE, bytes: 0, kind: Kind::Result };
        self.arrived.places.push(place);
        let last = self.arrived.places.len() - 1;
        &mut self.arrived.places[last].line
    }

    /// Nothing was received into the line, or nothing to keep.
    #[inline]
    pub(super) fn put_back(&mut self) {
        self.arrived.places.pop();
    }

    /// A result was received into the line.
    #[inline]
    pub(super) fn put_line(&mut self, bytes: usize, is_failure: bool) {
        self.put(bytes, if is_failure { Kind::Failure } else { Kind::Result }, 1);
    }

    /// `count` results of one word each were received into the line.
    #[inline]
    pub(super) fn put_words(&mut self, count: usize) {
        self.put(count * WORD_BYTES, Kind::Words, count);
    }

    #[inline(always)]
    fn put(&mut self, bytes: usize, kind: Kind, count: usize) {
        if let Some(place) = self.arrived.places.last_mut() {
            (place.bytes, place.kind) = (bytes, kind);
        }
        self.arrived.count += count;
        self.missing -= count;
    }

    /// Adds a result that did not fit the line.
    pub(super) fn put_long(&mut self, bytes: Vec<u8>, is_failure: bool) {
        self.arrived.long.push_back(bytes);
        self.put(0, if is_failure { Kind::LongFailure } else { Kind::Long }, 1);
    }

    /// Counts results of calls that have timed out.
    pub(super) fn drop_late(&mut self, count: usize) {
        self.missing -= count;
    }

    /// How many results have not arrived and still may.
    pub(super) fn missing(&self) -> usize {
        if self.ended.is_some() { 0 } else { self.missing }
    }

    /// No more results will come.
    pub(super) fn end(&mut self, reason: &Error) {
        if self.missing > 0 {
            self.ended = Some(reason.clone());
        }
    }
}

impl Arrived {
    /// The next result: its bytes, or the error that was answered out of band.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Result<&[u8]>> {
        let place = self.places.get(self.taken)?;
        if place.kind == Kind::Words {
            let start = self.taken_bytes;
            self.taken_bytes += WORD_BYTES;
            if self.taken_bytes == place.bytes {
                (self.taken, self.taken_bytes) = (self.taken + 1, 0);
            }
            return place.line.get(start..start + WORD_BYTES).map(Ok);
        }
        self.taken += 1;
        let bytes = if matches!(place.kind, Kind::Long | Kind::LongFailure) {
            self.last_long = self.long.pop_front().unwrap_or_default();
            &self.last_long[..]
        } else {
            place.line.get(..place.bytes).unwrap_or_default()
        };
        let is_failure = matches!(place.kind, Kind::Failure | Kind::LongFailure);
        Some(if is_failure { Err(failure(bytes)) } else { Ok(bytes) })
    }

    /// True when every result was handed out.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.taken == self.places.len()
    }

    /// The only result, with its memory.
    pub(crate) fn into_only(mut self) -> Option<Result<Vec<u8>>> {
        let is_long = self.places.first()?.kind == Kind::Long;
        let bytes = match self.next()? {
            Err(error) => return Some(Err(error)),
            Ok(_) if is_long => self.last_long,
            Ok(bytes) => bytes.to_vec(),
        };
        Some(Ok(bytes))
    }

    /// The same buffer, emptied, if its room is worth keeping.
    pub(super) fn emptied(mut self) -> Option<Self> {
        self.clear();
        (1..=PIPELINE_CALLS_MAX).contains(&self.places.capacity()).then_some(self)
    }

    fn clear(&mut self) {
        self.places.clear();
        self.count = 0;
        self.long.clear();
        self.last_long = Vec::new();
        (self.taken, self.taken_bytes) = (0, 0);
    }
}

#[cold]
fn failure(bytes: &[u8]) -> Error {
    let text = &bytes[..bytes.len().min(ERROR_BYTES_MAX)];
    Error::answered(String::from_utf8_lossy(text).into_owned())
}
