//! Calls that were submitted together.

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

use super::function_type::{Bytes, FunctionType};
use super::handle::{Abandoned, Handle};
use crate::call::pipeline::{Alike, Arrived, Completion};
use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// Calls that were submitted together. It is an iterator of their results, in order, each once. A crash or the end of a
/// [timeout](Batch::wait_timeout) takes no result that came before; each call without a result has an error. Dropping it treats the
/// results that are left as [`PendingCall`](super::PendingCall) does.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// # let mut memory = process.allocate(farcall::PerProt { code: 9, ..Default::default() })?;
/// # memory.write(farcall::Prot::Code, &[0x48, 0x8b, 0x07, 0xba, 8, 0, 0, 0, 0xc3]);
/// # let code = memory.finalize();
/// # let echo = code.address();
/// let pipeline = process.pipeline()?;
/// let numbers = [1_u64, 2, 3].map(u64::to_le_bytes);
/// let batch = pipeline.submit_batch(numbers.iter().map(|number| (echo, &number[..])))?;
/// let mut results = Vec::new();
/// batch.for_each(|result| results.push(result.expect("it returns").to_vec()));
/// assert_eq!(results[2], 3_u64.to_le_bytes());
/// # process.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[must_use = "the results of the calls are dropped"]
pub struct Batch<F: FunctionType = Bytes> {
    handle: Arc<Handle>,
    /// Present until the batch is dropped.
    completion: Option<Arc<Completion>>,
    arrived: Arrived,
    left: usize,
    /// A deadline has passed: results that come from now on are dropped.
    is_late: bool,
    abandoned: Option<Abandoned>,
    form: F::Form,
}

impl<F: FunctionType> Batch<F> {
    /// Submits calls of wrapper functions.
    pub(super) fn submit<'a>(
        handle: &Arc<Handle>,
        calls: impl ExactSizeIterator<Item = (u64, &'a [u8])> + Clone,
        form: F::Form,
    ) -> Result<Self> {
        let left = calls.len();
        Ok(Self::new(handle, handle.submit(calls)?, left, form))
    }

    /// Submits calls of a wrapper function that are alike.
    pub(super) fn submit_alike(
        handle: &Arc<Handle>,
        calls: &Alike<'_>,
        form: F::Form,
    ) -> Result<Self> {
        Ok(Self::new(handle, handle.submit_alike(calls)?, calls.calls, form))
    }

    fn new(handle: &Arc<Handle>, completion: Arc<Completion>, left: usize, form: F::Form) -> Self {
        let handle = Arc::clone(handle);
        let (completion, arrived) = (Some(completion), Arrived::default());
        Batch { handle, completion, arrived, left, is_late: false, abandoned: None, form }
    }

    /// The same calls; `told` learns when they are abandoned.
    pub(in crate::controller) fn telling(self, told: Option<Abandoned>) -> Self {
        let mut batch = self;
        batch.abandoned = told;
        batch
    }

    /// The number of results that were not returned yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Ends the calls at these places of the batch, counted from 0, and does not wait for their ends. `cancel(..)` ends all that have no
    /// result yet, and `cancel(3..4)` ends the fourth one. The call that runs is interrupted, and the others do not begin. Calls at other
    /// places run. All else is as for [`PendingCall::cancel`](super::PendingCall::cancel).
    ///
    /// # Errors
    ///
    /// As [`PendingCall::cancel`](super::PendingCall::cancel).
    pub fn cancel(&self, calls: impl RangeBounds<usize>) -> Result<()> {
        let Some(completion) = &self.completion else { return Ok(()) };
        let start = match calls.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match calls.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => usize::MAX,
        };
        self.handle.cancel(completion, start..end)
    }

    /// Waits for all results that are left, for at most `timeout`. There is one for each call. A call without a result is cancelled. Its
    /// error is that of [`PendingCall::wait_timeout`](super::PendingCall::wait_timeout).
    pub fn wait_timeout(mut self, timeout: Duration) -> Vec<Result<F::Result>> {
        let deadline = Deadline::after(timeout);
        let mut results = Vec::with_capacity(self.left);
        while let Some(result) = self.next_value(self.left, deadline) {
            results.push(result);
        }
        results
    }

    /// The next result, as a value of the function's type.
    fn next_value(&mut self, enough: usize, deadline: Deadline) -> Option<Result<F::Result>> {
        let form = self.form.clone();
        let next = self.next_by(enough, deadline)?;
        Some(next.and_then(|bytes| F::decode(&form, bytes)))
    }

    /// The next result. If none has arrived, waits until `enough` have, or up to the deadline.
    #[inline]
    fn next_by(&mut self, enough: usize, deadline: Deadline) -> Option<Result<&[u8]>> {
        self.left = self.left.checked_sub(1)?;
        if self.is_late {
            return Some(Err(late()));
        }
        if self.arrived.is_used_up() {
            let completion = self.completion.as_ref()?;
            let is_in_time = self.handle.wait(completion, enough, deadline);
            if let Err(error) = self.handle.take(completion, &mut self.arrived, deadline) {
                return Some(Err(error));
            }
            if !is_in_time && self.arrived.is_used_up() {
                let why = late();
                if !self.handle.end_late(completion, &why, self.abandoned.as_ref()) {
                    // What comes later would be taken for the result of a later call.
                    self.is_late = true;
                    return Some(Err(why));
                }
                if let Err(error) = self.handle.take(completion, &mut self.arrived, deadline) {
                    return Some(Err(error));
                }
            }
        }
        let next = self.arrived.next()?;
        Some(next.map_err(|error| self.handle.explain(error)))
    }
}

impl Batch {
    /// Waits for the next result and appends it to `result`. `None` when all were returned.
    ///
    /// # Errors
    ///
    /// That of this call, as for [`PendingCall::wait`](super::PendingCall::wait).
    pub fn next_into(&mut self, result: &mut Vec<u8>) -> Option<Result<()>> {
        let next = self.next_by(1, Deadline::SESSION_END);
        next.map(|next| next.map(|bytes| result.extend_from_slice(bytes)))
    }

    /// Waits for all results that are left, and calls `visit` with each result, or with the error of its call as of
    /// [`PendingCall::wait`](super::PendingCall::wait). Allocates nothing for each.
    pub fn for_each(mut self, mut visit: impl FnMut(Result<&[u8]>)) {
        while let Some(result) = self.next_by(self.left, Deadline::SESSION_END) {
            visit(result);
        }
    }
}

impl<F: FunctionType> Iterator for Batch<F> {
    type Item = Result<F::Result>;

    /// Waits for the next result. `None` when all were returned.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_value(1, Deadline::SESSION_END)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<F: FunctionType> ExactSizeIterator for Batch<F> {}

impl<F: FunctionType> Drop for Batch<F> {
    fn drop(&mut self) {
        let Some(completion) = self.completion.take() else { return };
        if self.left > 0 || self.is_late {
            self.handle.expire(&completion);
        }
        self.handle.recycle(completion, std::mem::take(&mut self.arrived));
    }
}

impl<F: FunctionType> fmt::Debug for Batch<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch of {}, {} results left", F::name(&self.form), self.left)
    }
}

#[cold]
fn late() -> Error {
    Error::timeout("the submitted call did not return in time")
}
