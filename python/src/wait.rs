//! Calls that Ctrl-C and a timeout end.
//!
//! A call that returns soon pays for none of this but a look at the clock. Later, the waiting thread asks the interpreter now and then
//! for signals that have arrived. If a handler of a signal raises an exception, the executor is killed, and the call raises it.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use farcall::controller::{CallOptions, Function};
use farcall::types::{Signature, Value};
use farcall::{Error, ErrorKind, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{callback, error};

/// How often a waiting call asks for signals.
const EVERY: Duration = Duration::from_millis(50);

/// A number of seconds as a time.
///
/// # Errors
///
/// `ValueError` when it is negative, or no number.
pub(crate) fn seconds(number: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(number)
        .map_err(|_| PyValueError::new_err(format!("{number} is no number of seconds")))
}

/// Whether a waiting call is to end.
#[pyclass(frozen, module = "farcall._farcall")]
#[derive(Debug, Default)]
pub(crate) struct Cancellation(AtomicBool);

#[pymethods]
impl Cancellation {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends the call with its executor.
    fn give_up(&self) {
        // Relaxed: the waiting thread asks again and again.
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Cancellation {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Calls a function without the interpreter's lock.
///
/// # Errors
///
/// The exception of the call: of a signal's handler, of a function of Python that was called back, or of farcall.
pub(crate) fn call(
    py: Python<'_>,
    function: &Function<Signature>,
    arguments: &[Value],
    timeout: Option<Duration>,
    cancellation: Option<&Cancellation>,
) -> PyResult<Value> {
    let (outcome, interrupted) = py.detach(|| {
        let interrupted = Cell::new(None);
        let end = timeout.map(|timeout| (Instant::now().checked_add(timeout), timeout));
        let every = timeout.map_or(EVERY, shorter);
        let watch = || -> Result<()> {
            if let Some((Some(end), timeout)) = end
                && Instant::now() >= end
            {
                let message =
                    format!("the call did not return in {timeout:?}; its executor was ended");
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            if cancellation.is_some_and(Cancellation::is_set) {
                return Err(Error::other("the call was cancelled; its executor was ended"));
            }
            match Python::try_attach(|py| py.check_signals()) {
                Some(Err(raised)) => {
                    interrupted.set(Some(raised));
                    Err(Error::other("interrupted"))
                }
                _ => Ok(()),
            }
        };
        let outcome = function.call_with(&CallOptions::new().watch(every, &watch), arguments);
        (outcome, interrupted.into_inner())
    });
    match outcome {
        Ok(value) => Ok(value),
        Err(error) => Err(failed(py, interrupted, &error)),
    }
}

#[cold]
fn failed(py: Python<'_>, interrupted: Option<PyErr>, error: &Error) -> PyErr {
    let raised = interrupted.or_else(|| {
        let is_of_handler = error.kind() == ErrorKind::Remote;
        callback::take_raised().filter(|_| is_of_handler)
    });
    raised.unwrap_or_else(|| error::raise(py, error))
}

/// A time of which a timeout is a multiple.
fn shorter(timeout: Duration) -> Duration {
    let parts = timeout.as_nanos().div_ceil(EVERY.as_nanos()).max(1);
    (timeout / u32::try_from(parts).unwrap_or(u32::MAX)).max(Duration::from_micros(1)).min(EVERY)
}
