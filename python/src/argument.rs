//! The arguments of one call, and what has to stay alive until it has ended.

use std::sync::Arc;

use farcall::controller::HeapBlock;
use farcall::types::{Signature, Value};
use farcall::{Error, ExecutorAddr};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyInt, PyString, PyTuple};

use crate::array::{self, Block, Found};
use crate::error;
use crate::executor::Shared;
use crate::prototype::{Parameter, Prototype, Target};
use crate::value::from_python;

/// The arguments of one call.
#[derive(Default)]
pub(crate) struct Arguments {
    pub(crate) values: Vec<Value>,
    pub(crate) callbacks: Vec<Callback>,
    /// Copies of texts, bytes and arrays.
    copies: Vec<HeapBlock>,
    arrays: Vec<Arc<Block>>,
}

/// A function of Python among the arguments. Its value is its address in the executor that the call gets.
pub(crate) struct Callback {
    pub(crate) position: usize,
    pub(crate) signature: Signature,
    pub(crate) function: Py<PyAny>,
}

impl Arguments {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    ///
    /// `TypeError`, `ValueError` or `OverflowError`, which names the argument.
    pub(crate) fn read(
        shared: &Shared,
        prototype: &Prototype,
        given: &Bound<'_, PyTuple>,
    ) -> PyResult<Self> {
        let parameters = &prototype.parameters;
        if given.len() != parameters.len() {
            let (due, signature) = (parameters.len(), &prototype.signature);
            let message = format!("{signature}: expected {due} arguments, given {}", given.len());
            return Err(PyTypeError::new_err(message));
        }
        let mut arguments =
            Self { values: Vec::with_capacity(parameters.len()), ..Self::default() };
        for (position, (parameter, object)) in
            parameters.iter().zip(given.iter_borrowed()).enumerate()
        {
            let value = match parameter {
                Parameter::Value(kind) => from_python(kind, &object),
                Parameter::Pointer(target) => arguments.pointer(shared, target, &object),
                Parameter::Function(signature) => arguments.function(position, signature, &object),
            };
            let value = value.map_err(|raised| named(given.py(), prototype, position, &raised))?;
            arguments.values.push(value);
        }
        Ok(arguments)
    }

    /// The address of what an object has in memory.
    fn pointer(
        &mut self,
        shared: &Shared,
        target: &Target,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<Value> {
        if object.is_none() || object.is_instance_of::<PyInt>() {
            return from_python(&farcall::types::Type::Pointer, object);
        }
        if let Ok(text) = object.cast::<PyString>() {
            let text = text.to_string_lossy();
            if text.contains('\0') {
                return Err(PyValueError::new_err("a text with a zero character"));
            }
            return self.copy(object.py(), shared, target, text.as_bytes());
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return self.copy(object.py(), shared, target, bytes.as_bytes());
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return self.copy(object.py(), shared, target, &bytes.to_vec());
        }
        let Some(interface) = object.getattr_opt("__array_interface__")? else {
            let kind = object.get_type().qualname()?;
            let message =
                format!("a pointer takes an array, bytes, a text, an address or None, not {kind}");
            return Err(PyTypeError::new_err(message));
        };
        match array::look(shared.arrays(), target, interface.cast::<PyDict>()?)? {
            Found::Here(address, block) => {
                self.arrays.push(block);
                Ok(Value::Pointer(ExecutorAddr::new(address)))
            }
            Found::Elsewhere => {
                let bytes = object.call_method0("tobytes")?;
                self.copy(object.py(), shared, target, bytes.cast::<PyBytes>()?.as_bytes())
            }
        }
    }

    /// Copies what the function only reads, for the time of the call.
    fn copy(
        &mut self,
        py: Python<'_>,
        shared: &Shared,
        target: &Target,
        bytes: &[u8],
    ) -> PyResult<Value> {
        if !target.is_const {
            return Err(PyTypeError::new_err(
                "the function may write it, and what it writes would be lost: pass an array that Executor.array has made, or declare \
                 the parameter const",
            ));
        }
        let copied = shared.heap().and_then(|heap| heap.copy(bytes));
        let block = copied.map_err(|error: Error| error::raise(py, &error))?;
        let address = block.address();
        self.copies.push(block);
        Ok(Value::Pointer(address))
    }

    /// A function of Python, or the address of one in the executor.
    fn function(
        &mut self,
        position: usize,
        signature: &Signature,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<Value> {
        if !object.is_callable() {
            return from_python(&farcall::types::Type::Pointer, object);
        }
        let (signature, function) = (signature.clone(), object.clone().unbind());
        self.callbacks.push(Callback { position, signature, function });
        Ok(Value::Pointer(ExecutorAddr::NULL))
    }
}

/// The same exception with the function and the argument in front of its message.
#[cold]
fn named(py: Python<'_>, prototype: &Prototype, position: usize, raised: &PyErr) -> PyErr {
    let message =
        format!("{}: argument {}: {}", prototype.signature, position + 1, raised.value(py));
    PyErr::from_type(raised.get_type(py), message)
}
