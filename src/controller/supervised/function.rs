//! A function of all executors, one after the other.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::contents::{Generation, Named};
use super::session::Shared;
use crate::controller::calls::{Batch, Function, FunctionType, PendingCall};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Result};
use crate::sync::Mutex;

/// A function of a [`SupervisedDylib`](super::SupervisedDylib), by its name. It stays valid when an executor dies.
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
    shared: Arc<Shared>,
    dylib: Named,
    name: Arc<str>,
    form: F::Form,
    /// The function in the executor that was called last.
    bound: Mutex<Option<Arc<Bound<F>>>>,
}

/// A function in one executor.
struct Bound<F: FunctionType> {
    generation: Arc<Generation>,
    function: Function<F>,
}

impl<F: FunctionType> SupervisedFunction<F> {
    pub(super) fn new(shared: &Arc<Shared>, dylib: Named, name: String, form: F::Form) -> Self {
        let shared = Arc::clone(shared);
        Self { shared, dylib, name: name.into(), form, bound: Mutex::default() }
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
        self.bound(Deadline::SESSION_END)?.function.call_with(arguments)
    }

    /// As [`call`](SupervisedFunction::call), for at most `timeout`, which covers a wait for another thread's start of an executor,
    /// and the policy's pause. A start by this thread has a timeout of its own
    /// ([`start_timeout`](crate::controller::ExecutorBuilder::start_timeout)).
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
        let bound = self.bound(deadline)?;
        let result = bound.function.call_by(arguments, deadline);
        if self.shared.policy().kills_on_timeout
            && let Err(error) = &result
            && error.kind() == ErrorKind::Timeout
        {
            bound.generation.kill(error);
        }
        result
    }

    /// As [`Function::submit`], in the present executor.
    ///
    /// # Errors
    ///
    /// As [`Function::submit`], and as [`call`](SupervisedFunction::call) for the executor and the look-up.
    pub fn submit(&self, arguments: F::Arguments<'_>) -> Result<PendingCall<F>> {
        self.bound(Deadline::SESSION_END)?.function.submit(arguments)
    }

    /// As [`Function::batch`], in the present executor.
    ///
    /// # Errors
    ///
    /// As [`submit`](SupervisedFunction::submit).
    pub fn batch<'a>(
        &self,
        arguments: impl IntoIterator<Item = F::Arguments<'a>>,
    ) -> Result<Batch<F>> {
        self.bound(Deadline::SESSION_END)?.function.batch(arguments)
    }

    /// The function in the present executor, looked up unless it is known.
    fn bound(&self, deadline: Deadline) -> Result<Arc<Bound<F>>> {
        let known = self.bound.lock().clone();
        if let Some(bound) = known.filter(|bound| bound.generation.is_alive()) {
            return Ok(bound);
        }
        let generation = self.shared.present(deadline)?;
        let address = generation.dylib(&self.dylib).lookup(&self.name)?;
        let session = &generation.controller.session;
        let function = Function::new(session, address, self.form.clone());
        let bound = Arc::new(Bound { generation, function });
        let earlier = self.bound.lock().replace(Arc::clone(&bound));
        // Dropping a session runs code of the host: not under the lock.
        drop(earlier);
        Ok(bound)
    }
}

impl<F: FunctionType> Clone for SupervisedFunction<F> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            dylib: self.dylib.clone(),
            name: Arc::clone(&self.name),
            form: self.form.clone(),
            bound: Mutex::new(self.bound.lock().clone()),
        }
    }
}

impl<F: FunctionType> fmt::Debug for SupervisedFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {}", self.name, self.dylib.name, F::name(&self.form))
    }
}
