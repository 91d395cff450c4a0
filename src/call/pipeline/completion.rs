//! Where the results of a submission arrive.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use super::Reason;
use crate::error::{Error, Result};
use crate::limits::{ERROR_BYTES_MAX, PIPELINE_CALLS_MAX};
use crate::sleep::Seat;
use crate::sync::{Mutex, MutexGuard};
use crate::transport::pipe::{EMPTY_LINE, Line};

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

/// Results that arrived and were not yet taken, in the order of their calls. Those that fit a line are received into their place.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    results: Vec<Place>,
    /// Results that do not fit a line.
    long: VecDeque<Vec<u8>>,
    /// How many of the results were handed out, and the last one of them that was long.
    taken: usize,
    last_long: Vec<u8>,
}

/// A result.
#[derive(Debug, Clone, Copy)]
struct Place {
    line: Line,
    /// Bytes in the line; [`LONG`] for one that lies elsewhere.
    bytes: usize,
    is_failure: bool,
}

const LONG: usize = usize::MAX;

impl Completion {
    /// Of a submission of `calls` calls, whose results arrive in `arrived`, which is empty and may have room.
    pub(super) fn new(calls: usize, mut arrived: Arrived) -> Self {
        arrived.results.reserve_exact(calls);
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

    /// The line that a result is received into. [`State::put_line`] must follow, or [`State::put_back`].
    #[inline]
    pub(super) fn next_line(&mut self) -> &mut Line {
        let place = Place { line: EMPTY_LINE, bytes: 0, is_failure: false };
        self.arrived.results.push(place);
        let last = self.arrived.results.len() - 1;
        &mut self.arrived.results[last].line
    }

    /// Nothing was received into the line, or nothing that counts.
    #[inline]
    pub(super) fn put_back(&mut self) {
        self.arrived.results.pop();
    }

    /// A result was received into the line.
    #[inline]
    pub(super) fn put_line(&mut self, bytes: usize, is_failure: bool) {
        if let Some(place) = self.arrived.results.last_mut() {
            (place.bytes, place.is_failure) = (bytes, is_failure);
        }
        self.missing -= 1;
    }

    /// Takes a result in that did not fit the line.
    pub(super) fn put_long(&mut self, bytes: Vec<u8>, is_failure: bool) {
        self.arrived.long.push_back(bytes);
        self.put_line(LONG, is_failure);
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
        let place = self.results.get(self.taken)?;
        self.taken += 1;
        let bytes = if place.bytes == LONG {
            self.last_long = self.long.pop_front().unwrap_or_default();
            &self.last_long[..]
        } else {
            place.line.get(..place.bytes).unwrap_or_default()
        };
        Some(if place.is_failure { Err(failure(bytes)) } else { Ok(bytes) })
    }

    /// True when every result was handed out.
    #[inline]
    pub(crate) fn is_used_up(&self) -> bool {
        self.taken == self.results.len()
    }

    /// The only result, with its memory.
    pub(crate) fn into_only(mut self) -> Option<Result<Vec<u8>>> {
        let is_long = self.results.first()?.bytes == LONG;
        let bytes = match self.next()? {
            Err(error) => return Some(Err(error)),
            Ok(_) if is_long => self.last_long,
            Ok(bytes) => bytes.to_vec(),
        };
        Some(Ok(bytes))
    }

    /// An empty one with room, if this one has room worth keeping.
    pub(super) fn emptied(mut self) -> Option<Self> {
        self.clear();
        (1..=PIPELINE_CALLS_MAX).contains(&self.results.capacity()).then_some(self)
    }

    fn clear(&mut self) {
        self.results.clear();
        self.long.clear();
        self.last_long = Vec::new();
        self.taken = 0;
    }
}

#[cold]
fn failure(bytes: &[u8]) -> Error {
    let text = &bytes[..bytes.len().min(ERROR_BYTES_MAX)];
    Error::remote(String::from_utf8_lossy(text))
}
