//! The arguments of one call, and what has to stay alive until it has ended.

pub(crate) mod comparison;

use std::sync::Arc;

use farcall::controller::region::HeapBlock;
use farcall::types::{Pointee, Signature, Value};
use farcall::{Error, ExecutorAddr};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyInt, PyList, PyString, PyTuple};

use self::comparison::Matched;
use crate::array::Block;
use crate::error;
use crate::executor::Shared;
use crate::prototype::{Parameter, Prototype};
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
            let (due, text) = (parameters.len(), &prototype.text);
            let message = format!("{text}: expected {due} arguments, given {}", given.len());
            return Err(PyTypeError::new_err(message));
        }
        let mut arguments =
            Self { values: Vec::with_capacity(parameters.len()), ..Self::default() };
        for (position, (parameter, object)) in
            parameters.iter().zip(given.iter_borrowed()).enumerate()
        {
            let value = match parameter {
                Parameter::Value(kind) => from_python(kind, &object),
                Parameter::Pointer(pointee) => arguments.pointer(shared, pointee, &object),
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
        pointee: &Pointee,
        object: &Bound<'_, PyAny>,
    ) -> PyResult<Value> {
        if object.is_instance_of::<PyBool>() {
            return Err(PyTypeError::new_err("a truth value is no address"));
        }
        if object.is_none() || object.is_instance_of::<PyInt>() {
            return from_python(&farcall::types::Type::Pointer, object);
        }
        if let Ok(text) = object.cast::<PyString>() {
            if !comparison::takes_texts(&pointee.target) {
                let target = comparison::describe(&pointee.target);
                let message = format!("a text, where the function takes {target}");
                return Err(PyTypeError::new_err(message));
            }
            // Names of files that are no Unicode keep their bytes so; other lone surrogates are an error.
            let bytes = text.call_method1("encode", ("utf-8", "surrogateescape"));
            let bytes = bytes.map_err(|raised| PyValueError::new_err(raised.to_string()))?;
            let bytes = bytes.cast::<PyBytes>()?;
            if bytes.as_bytes().contains(&0) {
                return Err(PyValueError::new_err("a text with a zero character"));
            }
            return self.copy(object.py(), shared, pointee, bytes.as_bytes());
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return self.copy(object.py(), shared, pointee, bytes.as_bytes());
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return self.copy(object.py(), shared, pointee, &bytes.to_vec());
        }
        if let Some(interface) = object.getattr_opt("__array_interface__")? {
            return self.array(shared, pointee, object, interface.cast::<PyDict>()?);
        }
        if pointee.is_const {
            let columns = object.py().import("farcall.columns")?;
            let element = comparison::element_name(&pointee.target);
            let is_list = object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>();
            if is_list && element.is_none() {
                let target = comparison::describe(&pointee.target);
                let message = format!(
                    "numbers without a type, where the function takes {target}: make an array of them"
                );
                return Err(PyTypeError::new_err(message));
            }
            let column = columns.call_method1("column", (object, element))?;
            let interface = column.getattr("__array_interface__")?;
            return self.array(shared, pointee, &column, interface.cast::<PyDict>()?);
        }
        let kind = object.get_type().qualname()?;
        let message = format!(
            "the function may write there, so it takes an array, an address or None, not {kind}"
        );
        Err(PyTypeError::new_err(message))
    }

    /// The address of an array, or of a copy of it.
    fn array(
        &mut self,
        shared: &Shared,
        pointee: &Pointee,
        object: &Bound<'_, PyAny>,
        interface: &Bound<'_, PyDict>,
    ) -> PyResult<Value> {
        let Matched { address, bytes } = comparison::compare(pointee, object, interface)?;
        if let Some(block) = shared.arrays().and_then(|heap| heap.find(address, bytes)) {
            block.check_live()?;
            self.arrays.push(block);
            return Ok(Value::Pointer(ExecutorAddr::new(address)));
        }
        let bytes = object.call_method0("tobytes")?;
        self.copy(object.py(), shared, pointee, bytes.cast::<PyBytes>()?.as_bytes())
    }

    /// Copies what the function only reads, for the time of the call.
    fn copy(
        &mut self,
        py: Python<'_>,
        shared: &Shared,
        pointee: &Pointee,
        bytes: &[u8],
    ) -> PyResult<Value> {
        if !pointee.is_const {
            return Err(PyTypeError::new_err(
                "the function may write it, and what it writes would be lost: pass an array that Executor.array has made, or declare \
                 the parameter const",
            ));
        }
        comparison::check_bytes(&pointee.target, bytes.len() as u64)?;
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
    let message = format!("{}: argument {}: {}", prototype.text, position + 1, raised.value(py));
    PyErr::from_type(raised.get_type(py), message)
}
