//! Calls that Ctrl-C and a timeout end.
//!
//! A call that returns soon pays for none of this but a look at the clock. Later, the waiting thread asks the interpreter now and then
//! for signals that have arrived. If a handler of a signal raises an exception, the call is interrupted, and raises it. A call that
//! cannot be interrupted costs its process.

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

/// How long an interruption may take. It takes less than 1 ms; but when all CPUs are busy, variables are worth the wait.
const GRACE: Duration = Duration::from_secs(1);

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

    /// Ends the call.
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
    let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let (outcome, interrupted) = py.detach(|| {
        let interrupted = Cell::new(None);
        let watch = || -> Result<()> {
            if cancellation.is_some_and(Cancellation::is_set) {
                return Err(Error::other("the call was cancelled"));
            }
            match Python::try_attach(|py| py.check_signals()) {
                Some(Err(raised)) => {
                    interrupted.set(Some(raised));
                    Err(Error::other("interrupted"))
                }
                _ => Ok(()),
            }
        };
        let options = CallOptions::new().watch(EVERY, &watch).grace(GRACE);
        let options = timeout.map_or(options, |timeout| options.timeout(timeout));
        let outcome = function.call_with(&options, arguments);
        (outcome, interrupted.into_inner())
    });
    match outcome {
        Ok(value) => Ok(value),
        Err(error) => {
            let is_late = end.is_some_and(|end| Instant::now() >= end) && is_ended(&error);
            Err(failed(py, interrupted, is_late, &error))
        }
    }
}

/// As [`call`], for a function in the interpreter's process, where nothing ends a call.
///
/// # Errors
///
/// The exception of the call: of a function of Python that was called back, or of farcall.
pub(crate) fn call_here(
    py: Python<'_>,
    function: &Function<Signature>,
    arguments: &[Value],
) -> PyResult<Value> {
    let outcome = py.detach(|| function.call(arguments));
    outcome.map_err(|error| failed(py, None, false, &error))
}

#[cold]
fn failed(py: Python<'_>, interrupted: Option<PyErr>, is_late: bool, error: &Error) -> PyErr {
    let raised = interrupted.or_else(|| {
        let is_of_handler = error.kind() == ErrorKind::Remote;
        callback::take_raised().filter(|_| is_of_handler)
    });
    let raise = if is_late { error::raise_late } else { error::raise };
    raised.unwrap_or_else(|| raise(py, error))
}

/// True when the host has ended the call, by an interrupt or by killing its process.
fn is_ended(error: &Error) -> bool {
    const SIGKILL: i32 = 9;
    let is_killed = error.death().is_some_and(|death| death.signal == Some(SIGKILL));
    is_killed || error.kind() == ErrorKind::Interrupted
}
