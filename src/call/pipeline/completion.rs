//! Where the results of a submission arrive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::Reason;
use crate::error::{Error, Result};
use crate::limits::ERROR_BYTES_MAX;
use crate::sleep::Seat;
use crate::transport::pipe::Line;

/// The results of one call, or of a batch of calls, as they arrive.
#[derive(Debug)]
pub(crate) struct Completion(Mutex<State>);

/// What is locked while results arrive.
#[derive(Debug)]
pub(super) struct State {
    arrived: Arrived,
    /// Results that have not arrived.
    missing: usize,
    /// Why they never will.
    ended: Option<Reason>,
    pub(super) waiter: Option<Waiter>,
    /// Nobody wants the results any more.
    pub(super) is_expired: bool,
}

/// Whom to tell.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A thread that waits until so many results are there.
    Thread(Arc<Seat>, usize),
    /// A task that waits for all of them.
    Task(Waker),
}

/// Results that arrived and were not yet taken, in the order of their calls.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    bytes: Vec<u8>,
    results: Vec<Place>,
    /// How many of the results were handed out.
    taken: usize,
}

/// Where a result ends; it starts where the one before ends.
#[derive(Debug, Clone, Copy)]
struct Place {
    end: usize,
    is_failure: bool,
}

impl Completion {
    /// Of a submission of `calls` calls.
    pub(super) fn new(calls: usize) -> Self {
        let arrived = Arrived { results: Vec::with_capacity(calls), ..Arrived::default() };
        Self(Mutex::new(State {
            arrived,
            missing: calls,
            ended: None,
            waiter: None,
            is_expired: false,
        }))
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has arrived, in exchange for a buffer that was used up.
    ///
    /// # Errors
    ///
    /// When nothing has arrived, and nothing will: why the pipeline came to its end.
    pub(crate) fn take(&self, arrived: &mut Arrived) -> Result<()> {
        let mut state = self.lock();
        if let (true, Some(reason)) = (state.arrived.results.is_empty(), &state.ended) {
            return Err(reason.error());
        }
        arrived.clear();
        std::mem::swap(&mut state.arrived, arrived);
        Ok(())
    }
}

impl State {
    /// True when so many results are there, or no more will come.
    #[inline]
    pub(super) fn has(&self, enough: usize) -> bool {
        self.missing == 0 || self.arrived.results.len() >= enough || self.ended.is_some()
    }

    /// Takes a result in whose bytes are the first of `line`.
    #[inline]
    pub(super) fn put_line(&mut self, line: &Line, bytes: usize, is_failure: bool) {
        // By words, as they were stored just now: a wider load would wait until those stores are done.
        for word in line.as_chunks::<8>().0.iter().take(bytes.div_ceil(8)) {
            self.arrived.bytes.extend_from_slice(word);
        }
        let end = self.arrived.bytes.len() - (bytes.next_multiple_of(8) - bytes);
        self.arrived.bytes.truncate(end);
        self.arrived.results.push(Place { end, is_failure });
        self.missing -= 1;
    }

    /// Takes a result in.
    pub(super) fn put(&mut self, bytes: &mut Vec<u8>, is_failure: bool) {
        if self.arrived.bytes.is_empty() {
            std::mem::swap(&mut self.arrived.bytes, bytes);
        } else {
            self.arrived.bytes.extend_from_slice(bytes);
        }
        self.arrived.results.push(Place { end: self.arrived.bytes.len(), is_failure });
        self.missing -= 1;
    }

    /// Counts a result that nobody wants.
    pub(super) fn drop_late(&mut self) {
        self.missing -= 1;
    }

    /// No more results will come.
    pub(super) fn end(&mut self, reason: &Reason) {
        if self.missing > 0 {
            self.ended = Some(reason.clone());
        }
    }
}

impl Arrived {
    /// The next result: its bytes, or the error that the function answered out of band.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Result<&[u8]>> {
        let start = self.taken.checked_sub(1).map_or(0, |last| self.results[last].end);
        let place = *self.results.get(self.taken)?;
        self.taken += 1;
        let bytes = &self.bytes[start..place.end];
        Some(if place.is_failure { Err(failure(bytes)) } else { Ok(bytes) })
    }

    /// True when every result was handed out.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.taken == self.results.len()
    }

    /// The only result, with its memory.
    pub(crate) fn into_only(mut self) -> Option<Result<Vec<u8>>> {
        let place = self.results.pop()?;
        self.bytes.truncate(place.end);
        Some(if place.is_failure { Err(failure(&self.bytes)) } else { Ok(self.bytes) })
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.results.clear();
        self.taken = 0;
    }
}

#[cold]
fn failure(bytes: &[u8]) -> Error {
    let text = &bytes[..bytes.len().min(ERROR_BYTES_MAX)];
    Error::remote(String::from_utf8_lossy(text))
}
