//! Errors of farcall as exceptions, whose classes are in `farcall/errors.py`.

use farcall::{Error, ErrorKind, Fact, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception for an error. An exception that waits for this thread, as Ctrl-C makes one, has precedence.
#[cold]
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    // A signal for the whole terminal may have ended the executor as well.
    py.check_signals().and_then(|()| exception(py, error)).unwrap_or_else(|failed| failed)
}

/// Does what may wait, without the interpreter's lock. Its error is an exception.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|error| raise(py, &error))
}

/// As [`raise`], for a call that did not return in time.
#[cold]
pub(crate) fn raise_late(py: Python<'_>, error: &Error) -> PyErr {
    py.check_signals().and_then(|()| of_kind(py, LATE, error)).unwrap_or_else(|failed| failed)
}

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    of_kind(py, kind(error), error)
}

fn of_kind(py: Python<'_>, kind: &str, error: &Error) -> PyResult<PyErr> {
    let make = py.import("farcall.errors")?.getattr("exception_for")?;
    let (message, symbols) = (error.to_string(), error.symbols().to_vec());
    let made = make.call1((kind, message, symbols, error.raw_os_error(), facts_of(py, error)?))?;
    Ok(PyErr::from_value(made))
}

fn facts_of<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    for (name, value) in error.facts() {
        match value {
            Fact::Flag => facts.set_item(name, true),
            Fact::Number(number) => facts.set_item(name, number),
            Fact::Text(text) => facts.set_item(name, text),
            Fact::List(list) => facts.set_item(name, list),
        }?;
    }
    Ok(facts)
}

/// The word for a call that did not return in time.
const LATE: &str = "timeout";

/// The word by which `farcall/errors.py` chooses the class.
fn kind(error: &Error) -> &'static str {
    match error.kind() {
        _ if error.death().is_some() => "died",
        ErrorKind::Link | ErrorKind::SymbolsNotFound | ErrorKind::DuplicateDefinition => "link",
        ErrorKind::Timeout => LATE,
        ErrorKind::Interrupted => "interrupted",
        ErrorKind::InvalidArgument => "value",
        ErrorKind::TypeMismatch => "type",
        ErrorKind::Os => "os",
        ErrorKind::Exhausted => "limit",
        _ => "other",
    }
}
