//! A function of all executors, one after the other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::contents::{Generation, Named};
use super::members::{Lease, Members};
use crate::controller::calls::handle::Abandoned;
use crate::controller::calls::{Batch, Function, FunctionType, PendingCall};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Result};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A function of a [`SupervisedDylib`](super::SupervisedDylib), by its name. It stays valid when an executor dies. Of a
/// [`Pool`](super::Pool), it takes a free executor for each call.
///
/// Any thread may use it. A clone remembers the address by itself, so threads that call at the same time do best with a clone each.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use farcall::controller::SupervisedFunction;
///
/// fn try_twice(function: &SupervisedFunction<extern "C" fn(i64) -> i64>, number: i64) -> farcall::Result<i64> {
///     function.call((number,)).or_else(|_| function.call_timeout((number,), Duration::from_secs(1)))
/// }
/// ```
pub struct SupervisedFunction<F: FunctionType> {
    members: Arc<Members>,
    dylib: Named,
    name: Arc<str>,
    form: F::Form,
    /// The function in the executor that was called last, for each member.
    bound: Box<[Known<F>]>,
    /// The member that was called last.
    last: AtomicU64,
}

type Known<F> = Mutex<Option<Arc<Bound<F>>>>;

/// A function in one executor.
struct Bound<F: FunctionType> {
    generation: Arc<Generation>,
    function: Function<F>,
    /// Kills the executor when a call has timed out, if the policy says so.
    late: Option<Abandoned>,
}

impl<F: FunctionType> SupervisedFunction<F> {
    pub(super) fn new(members: &Arc<Members>, dylib: Named, name: String, form: F::Form) -> Self {
        let bound = members.all().iter().map(|_| Mutex::default()).collect();
        let (members, last) = (Arc::clone(members), AtomicU64::new(0));
        Self { members, dylib, name: name.into(), form, bound, last }
    }

    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    /// The same function of these executors.
    pub(super) fn in_members(&self, members: Arc<Members>) -> Self {
        Self::new(&members, self.dylib.clone(), self.name.to_string(), self.form.clone())
    }

    /// Calls the function and waits for its result. The call is made once: after a death it is for the caller to decide what to call
    /// again.
    ///
    /// # Errors
    ///
    /// - As [`Controller::call`](crate::controller::Controller::call). An executor that has died meanwhile is an error of this call,
    ///   and the next call starts another one.
    /// - The next executor cannot be started or filled, or the policy allows no other
    ///   ([`ErrorKind::Exhausted`]).
    /// - The dylib does not define the function, or linking fails.
    pub fn call(&self, arguments: F::Arguments<'_>) -> Result<F::Result> {
        self.leased(Deadline::SESSION_END, |bound| bound.function.call_with(arguments))
    }

    /// As [`call`](SupervisedFunction::call), for at most `timeout`. That covers linking the function's dylib. It covers a wait for a free
    /// executor of the pool or for another thread's start of an executor, and the policy's pause. A start by this thread has a
    /// timeout of its own ([`start_timeout`](crate::controller::ExecutorBuilder::start_timeout)).
    ///
    /// # Errors
    ///
    /// As [`call`](SupervisedFunction::call); [`ErrorKind::Timeout`] when the function has not returned in
    /// time. By the policy ([`kill_on_timeout`](super::RestartPolicy::kill_on_timeout)) the executor is killed then.
    pub fn call_timeout(
        &self,
        arguments: F::Arguments<'_>,
        timeout: Duration,
    ) -> Result<F::Result> {
        let deadline = Deadline::after(timeout);
        self.leased(deadline, |bound| {
            let result = bound.function.call_by(arguments, deadline);
            if let Err(error) = &result
                && error.kind() == ErrorKind::Timeout
                && let Some(late) = &bound.late
            {
                late(error);
            }
            result
        })
    }

    /// As [`call`](SupervisedFunction::call), with a watch as of [`Function::call_watched`]: when `watch` returns an error, the executor
    /// is killed, and the next call starts another one.
    ///
    /// While the call waits for a free executor of a pool, `watch` is asked as well, and its error kills none. Each time the call goes
    /// to the end of the queue.
    ///
    /// # Errors
    ///
    /// As [`call`](SupervisedFunction::call), and that of `watch`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use farcall::Error;
    /// use farcall::controller::SupervisedFunction;
    ///
    /// fn within_a_second(function: &SupervisedFunction<extern "C" fn()>) -> farcall::Result<()> {
    ///     let end = Instant::now() + Duration::from_secs(1);
    ///     function.call_watched((), Duration::from_millis(50), || match Instant::now() < end {
    ///         true => Ok(()),
    ///         false => Err(Error::other("a second has passed")),
    ///     })
    /// }
    /// ```
    pub fn call_watched(
        &self,
        arguments: F::Arguments<'_>,
        every: Duration,
        mut watch: impl FnMut() -> Result<()>,
    ) -> Result<F::Result> {
        // Only a pool has a queue, and only that wait needs the clock.
        let turn = || match self.members.is_pool() {
            true => Deadline::after(every),
            false => Deadline::SESSION_END,
        };
        let lease = loop {
            match self.lease(turn()) {
                Err(error) if error.kind() == ErrorKind::Timeout => watch()?,
                lease => break lease?,
            }
        };
        self.with(lease, Deadline::SESSION_END, |bound| {
            bound.function.call_watched(arguments, every, || {
                watch().inspect_err(|error| bound.generation.kill(error))
            })
        })
    }

    /// The function in the present executor, which is started first if the last one has died. In a pool it is that of each executor in
    /// turn, free or not. Linking it shows errors before a call.
    ///
    /// It means nothing in the next executor: its calls fail when this one is dead.
    ///
    /// # Errors
    ///
    /// As [`call`](SupervisedFunction::call), for the executor and the look-up.
    pub fn present(&self) -> Result<Function<F>> {
        Ok(self.any()?.function.clone())
    }

    /// As [`Function::submit`], in the present executor. In a pool each executor gets a call in turn, free or not. By the policy
    /// ([`kill_on_timeout`](super::RestartPolicy::kill_on_timeout)) the executor is killed when the call is abandoned
    /// ([`PendingCall`]).
    ///
    /// # Errors
    ///
    /// As [`Function::submit`], and as [`call`](SupervisedFunction::call) for the executor and the look-up.
    pub fn submit(&self, arguments: F::Arguments<'_>) -> Result<PendingCall<F>> {
        let bound = self.any()?;
        Ok(bound.function.submit(arguments)?.telling(bound.late.clone()))
    }

    /// As [`Function::batch`], in the present executor. In a pool each executor gets a batch in turn, free or not.
    ///
    /// # Errors
    ///
    /// As [`submit`](SupervisedFunction::submit).
    pub fn batch<'a>(
        &self,
        arguments: impl IntoIterator<Item = F::Arguments<'a>>,
    ) -> Result<Batch<F>> {
        let bound = self.any()?;
        Ok(bound.function.batch(arguments)?.telling(bound.late.clone()))
    }

    /// The function in an executor for calls that wait for no other.
    fn any(&self) -> Result<Arc<Bound<F>>> {
        self.bound(self.members.in_turn(), Deadline::SESSION_END, &mut false)
    }

    /// Calls the function in an executor that the call may have.
    #[inline]
    fn leased<R>(
        &self,
        deadline: Deadline,
        call: impl FnOnce(&Bound<F>) -> Result<R>,
    ) -> Result<R> {
        self.with(self.lease(deadline)?, deadline, call)
    }

    /// An executor that a call may have.
    #[inline]
    fn lease(&self, deadline: Deadline) -> Result<Lease<'_>> {
        // Relaxed: any value is right.
        let last = self.last.load(Ordering::Relaxed);
        let lease = self.members.lease(usize::try_from(last).unwrap_or(0), deadline)?;
        if lease.executor() as u64 != last {
            self.last.store(lease.executor() as u64, Ordering::Relaxed);
        }
        Ok(lease)
    }

    /// Calls the function in the executor of a lease.
    #[inline]
    fn with<R>(
        &self,
        mut lease: Lease<'_>,
        deadline: Deadline,
        call: impl FnOnce(&Bound<F>) -> Result<R>,
    ) -> Result<R> {
        let mut is_new = false;
        let bound = self.bound(lease.executor(), deadline, &mut is_new);
        let outcome = bound.and_then(|bound| call(&bound));
        if outcome.is_err() {
            lease.failed();
        }
        if is_new {
            self.members.all()[lease.executor()].stand_by();
        }
        outcome
    }

    /// The function in the present executor of a member, looked up unless it is known. Says if it was not.
    fn bound(&self, member: usize, deadline: Deadline, is_new: &mut bool) -> Result<Arc<Bound<F>>> {
        let place = &self.bound[member];
        let known = place.lock().clone();
        if let Some(bound) = known.filter(|bound| bound.generation.is_alive()) {
            return Ok(bound);
        }
        *is_new = true;
        let shared = &self.members.all()[member];
        let generation = shared.present(deadline)?;
        let dylib = generation.dylib(&self.dylib);
        let killed = Arc::clone(&generation);
        let kill = move |error: &_| killed.kill(error);
        let late = shared.policy().kills_on_timeout.then(|| Arc::new(kill) as Abandoned);
        let address = dylib.lookup_by(&self.name, deadline).inspect_err(|error| {
            if let (ErrorKind::Timeout, Some(late)) = (error.kind(), &late) {
                late(error);
            }
        })?;
        if let Some(prototype) = F::prototype(&self.form) {
            dylib.compare(&self.name, &prototype)?;
        }
        let session = &generation.controller.session;
        let function = Function::new(session, address, self.form.clone());
        let bound = Arc::new(Bound { generation, function, late });
        let earlier = place.lock().replace(Arc::clone(&bound));
        // Dropping a session runs code of the host: not under the lock.
        drop(earlier);
        Ok(bound)
    }
}

impl<F: FunctionType> Clone for SupervisedFunction<F> {
    fn clone(&self) -> Self {
        let bound = self.bound.iter().map(|bound| Mutex::new(bound.lock().clone())).collect();
        Self {
            members: Arc::clone(&self.members),
            dylib: self.dylib.clone(),
            name: Arc::clone(&self.name),
            form: self.form.clone(),
            bound,
            last: AtomicU64::new(self.last.load(Ordering::Relaxed)),
        }
    }
}

impl<F: FunctionType> fmt::Debug for SupervisedFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {}", self.name, self.dylib.name, F::name(&self.form))
    }
}
