//! Functions of Python that linked code calls.
//!
//! The function runs with the interpreter's lock, on the thread that waits for the call. The call raises its exceptions.

pub(crate) mod definitions;
pub(crate) mod exit;

use std::cell::RefCell;

use farcall::Result;
use farcall::controller::handler::Handler;
use farcall::types::{Signature, Value};
use pyo3::exceptions::PyReferenceError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyWeakrefMethods, PyWeakrefReference};

use self::definitions::Definitions;
use crate::value::{from_python, to_python};

thread_local! {
    /// The exception that a function of Python has raised on this thread. The call in which it ran raises it.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Where a function of Python is kept.
pub(crate) enum Kept {
    /// By the handler, for the time of a call.
    Here(Py<PyAny>),
    /// Among the definitions of an executor, under this number.
    There(Py<PyWeakrefReference>, usize),
}

impl Kept {
    fn function(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Here(function) => Ok(function.clone_ref(py)),
            Self::There(definitions, number) => {
                let definitions = definitions.bind(py).upgrade_as::<Definitions>()?;
                let found = definitions.and_then(|found| found.get().function(py, *number));
                found.ok_or_else(|| PyReferenceError::new_err("the function of Python is gone"))
            }
        }
    }
}

/// A handler that calls a function of Python.
///
/// # Errors
///
/// As [`Handler::with_signature`].
pub(crate) fn handler(signature: &Signature, function: Kept) -> Result<Handler<Value>> {
    let of = signature.clone();
    Handler::with_signature(signature, move |values| {
        let called = Python::try_attach(|py| {
            call(py, &of, &function, values).map_err(|raised| {
                let text = raised.to_string();
                RAISED.with_borrow_mut(|place| *place = Some(raised));
                text
            })
        });
        let ended = || "the interpreter has ended".to_owned();
        Ok(called.unwrap_or_else(|| Err(ended()))?)
    })
}

fn call(
    py: Python<'_>,
    signature: &Signature,
    function: &Kept,
    values: &[Value],
) -> PyResult<Value> {
    let kinds = signature.parameters().iter();
    let arguments =
        values.iter().zip(kinds).map(|(value, kind)| to_python(py, Some(kind), value.clone()));
    let arguments = PyTuple::new(py, arguments.collect::<PyResult<Vec<_>>>()?)?;
    let function = function.function(py)?;
    let result = exit::call(function.bind(py), &arguments)?;
    match signature.result() {
        Some(kind) => from_python(kind, &result),
        None => Ok(Value::Void),
    }
}

/// The exception that a function of Python has raised on this thread since the last question.
pub(crate) fn take_raised() -> Option<PyErr> {
    RAISED.with_borrow_mut(Option::take)
}
