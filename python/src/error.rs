//! Errors of farcall as exceptions, whose classes are in `farcall/errors.py`.

use farcall::{Death, Error, ErrorKind, Fact};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception for an error. An exception that waits for this thread, as Ctrl-C makes one, has precedence.
#[cold]
pub(crate) fn raise(py: Python<'_>, error: &Error) -> PyErr {
    // A signal for the whole terminal may have ended the executor as well.
    py.check_signals().and_then(|()| exception(py, error)).unwrap_or_else(|failed| failed)
}

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let make = py.import("farcall.errors")?.getattr("exception_for")?;
    let death = error.death().map(|death| facts_of(py, death)).transpose()?;
    let (kind, message) = (kind(error.kind()), error.to_string());
    let symbols = error.symbols().to_vec();
    let made = make.call1((kind, message, symbols, error.raw_os_error(), death))?;
    Ok(PyErr::from_value(made))
}

fn facts_of<'py>(py: Python<'py>, death: &Death) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(py);
    for (name, value) in death.facts() {
        match value {
            Fact::Flag => facts.set_item(name, true),
            Fact::Number(number) => facts.set_item(name, number),
            Fact::Text(text) => facts.set_item(name, text),
            Fact::List(list) => facts.set_item(name, list),
        }?;
    }
    Ok(facts)
}

/// The word by which `farcall/errors.py` chooses the class.
fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Link | ErrorKind::SymbolsNotFound | ErrorKind::DuplicateDefinition => "link",
        ErrorKind::Timeout => "timeout",
        ErrorKind::InvalidArgument => "value",
        ErrorKind::TypeMismatch => "type",
        ErrorKind::Os => "os",
        ErrorKind::Exhausted => "limit",
        _ => "other",
    }
}
