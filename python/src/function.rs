//! A C function of an executor, as a callable object.

use std::sync::Arc;
use std::time::Duration;

use farcall::ExecutorAddr;
use farcall::controller::{self, Executor};
use farcall::types::{Signature, Type, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::argument::comparison::{column_name, numpy_name};
use crate::argument::{Arguments, Callback};
use crate::callback::Kept;
use crate::callback::definitions::Definitions;
use crate::executor::Shared;
use crate::prototype::{Parameter, Prototype};
use crate::value::to_python;
use crate::wait::{self, Cancellation, seconds};
use crate::{callback, error, future};

/// A C function. Calling it waits for its result, without the interpreter's lock. Any thread may call it.
#[pyclass(frozen, module = "farcall._farcall")]
pub(crate) struct Function {
    shared: Arc<Shared>,
    definitions: Py<Definitions>,
    function: controller::Function<Signature>,
    prototype: Arc<Prototype>,
}

impl Function {
    /// A function of a library, which is linked now.
    ///
    /// # Errors
    ///
    /// The exception for what the linker refuses, or an executor that cannot be started.
    pub(crate) fn new(
        py: Python<'_>,
        shared: Arc<Shared>,
        definitions: Py<Definitions>,
        function: controller::Function<Signature>,
        prototype: Prototype,
    ) -> PyResult<Self> {
        error::detached(py, || function.bind())?;
        Ok(Self { shared, definitions, function, prototype: Arc::new(prototype) })
    }

    /// Calls the function in the present executor, in which functions of Python are defined for the time of the call.
    fn call_with_callbacks(
        &self,
        py: Python<'_>,
        mut arguments: Arguments,
        timeout: Option<Duration>,
        cancellation: Option<&Cancellation>,
    ) -> PyResult<Value> {
        let callbacks = std::mem::take(&mut arguments.callbacks);
        let present = error::detached(py, || self.function.bind())?;
        let process = present.process().map_err(|error| error::raise(py, &error))?;
        let executor = Executor::from(&process);
        let mut defined = Vec::new();
        for Callback { position, signature, function } in callbacks {
            let handler = callback::handler(&signature, Kept::Here(function));
            let define = |handler| -> farcall::Result<(controller::Library, ExecutorAddr)> {
                let dylib = executor.library("callback");
                dylib.define_handler("callback", handler)?;
                let address = dylib.lookup("callback")?;
                Ok((dylib, address))
            };
            let (dylib, address) = error::detached(py, || handler.and_then(define))?;
            arguments.values[position] = Value::Pointer(address);
            defined.push(dylib);
        }
        let result = self.wait(py, &present, &arguments.values, timeout, cancellation);
        // An executor that has died has nothing to clear.
        py.detach(|| defined.iter().for_each(|dylib| drop(dylib.clear())));
        result
    }

    fn call(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        timeout: Option<Duration>,
        cancellation: Option<&Cancellation>,
    ) -> PyResult<Py<PyAny>> {
        let arguments = Arguments::read(&self.shared, &self.prototype, arguments)?;
        let value = if arguments.callbacks.is_empty() {
            self.wait(py, &self.function, &arguments.values, timeout, cancellation)?
        } else {
            self.call_with_callbacks(py, arguments, timeout, cancellation)?
        };
        to_python(py, self.prototype.signature.result(), value)
    }

    /// Calls the function, and waits for its result.
    fn wait(
        &self,
        py: Python<'_>,
        function: &controller::Function<Signature>,
        arguments: &[Value],
        timeout: Option<Duration>,
        cancellation: Option<&Cancellation>,
    ) -> PyResult<Value> {
        match self.shared.is_in_process() {
            true => wait::call_here(py, function, arguments),
            false => wait::call(py, function, arguments, timeout, cancellation),
        }
    }

    /// The timeout among the keyword arguments, or the executor's.
    fn timeout(&self, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Option<Duration>> {
        let Some(keywords) = keywords.filter(|keywords| !keywords.is_empty()) else {
            return Ok(self.shared.timeout());
        };
        if let Some(name) = keywords.keys().iter().find(|name| !name.eq("timeout").unwrap_or(false))
        {
            return Err(PyTypeError::new_err(format!("unexpected keyword argument {name}")));
        }
        let timeout: Option<f64> = keywords.as_any().get_item("timeout")?.extract()?;
        if timeout.is_some() {
            self.shared.check_process("a call with a timeout")?;
        }
        timeout.map(seconds).transpose()
    }
}

#[pymethods]
impl Function {
    #[pyo3(signature = (*arguments, **keywords))]
    fn __call__(
        &self,
        py: Python<'_>,
        arguments: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        self.shared.check_open()?;
        let timeout = self.timeout(keywords)?;
        self.call(py, arguments, timeout, None)
    }

    /// Calls the function, and ends the call with its executor when that is asked for.
    fn call_until(
        &self,
        py: Python<'_>,
        cancellation: &Cancellation,
        arguments: &Bound<'_, PyTuple>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        self.shared.check_open()?;
        self.call(py, arguments, timeout.map(seconds).transpose()?, Some(cancellation))
    }

    /// Submits a call and returns a `farcall.Future`, which can be awaited as well.
    #[pyo3(signature = (*arguments, **keywords))]
    fn submit(
        slf: &Bound<'_, Self>,
        arguments: &Bound<'_, PyTuple>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        this.shared.check_open()?;
        let timeout = this.timeout(keywords)?;
        let can_end = !this.shared.is_in_process();
        if timeout.is_some() || this.prototype.has_callbacks {
            // Such a call needs a thread of this process while it runs.
            let in_thread = py.import("farcall.future")?.getattr("in_thread")?;
            let timeout = timeout.map(|timeout| timeout.as_secs_f64());
            return Ok(in_thread.call1((slf, arguments, timeout, can_end))?.unbind());
        }
        let read = Arguments::read(&this.shared, &this.prototype, arguments)?;
        let definitions = &this.definitions;
        future::submit(py, &this.function, &this.prototype, read, arguments, definitions, can_end)
    }

    /// The address of the function in the interpreter's process, for ctypes, cffi and others that call addresses. A call by it is a
    /// call of native code. It is valid while the executor and the library keep the code. Functions of Python that are called back
    /// need the interpreter's lock free, and their exceptions end the process.
    fn pointer(&self, py: Python<'_>) -> PyResult<usize> {
        self.shared.check_open()?;
        let pointer = py.detach(|| self.function.pointer());
        Ok(pointer.map_err(|error| error::raise(py, &error))? as usize)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.definitions)
    }

    /// The prototype by which the function was asked for, on one line.
    #[getter]
    fn prototype(&self) -> &str {
        &self.prototype.text
    }

    /// The names of the parameters, empty where the prototype has none.
    #[getter]
    fn parameter_names(&self) -> Vec<String> {
        self.prototype.names.clone()
    }

    /// C's name of the type of the result.
    #[getter]
    fn result(&self) -> String {
        self.prototype.signature.result().map_or_else(|| "void".to_owned(), Type::to_string)
    }

    /// The parameters, each as three values. The first is "pointer", "function" or "value". The second says whether a pointer's target is
    /// only read. The third is NumPy's name of the type of the value or the target, if it has one.
    #[getter]
    fn parameters(&self) -> Vec<(&'static str, bool, Option<&'static str>)> {
        let parameters = self.prototype.parameters.iter();
        parameters
            .map(|parameter| match parameter {
                Parameter::Value(kind) => ("value", false, numpy_name(kind)),
                Parameter::Pointer(pointee) => {
                    ("pointer", pointee.is_const, column_name(&pointee.target))
                }
                Parameter::Function(_) => ("function", false, None),
            })
            .collect()
    }

    #[getter]
    fn __name__(&self) -> &str {
        self.prototype.signature.name()
    }

    fn __repr__(&self) -> String {
        format!("<farcall function {}>", self.prototype.text)
    }
}
