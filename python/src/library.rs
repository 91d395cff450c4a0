//! Objects that are linked together in each executor.

pub(crate) mod object_builder;

use std::sync::{Arc, Mutex, PoisonError};

use farcall::controller;
use farcall::link::{Archive, ObjectFile};
use farcall::types::Declarations;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyWeakrefReference;
use pyo3::{PyTraverseError, PyVisit};

use crate::callback::Kept;
use crate::callback::definitions::Definitions;
use crate::executor::Shared;
use crate::function::Function;
use crate::prototype::Prototype;
use crate::{callback, error};

/// Objects that are linked together in each executor.
#[pyclass(frozen, subclass, module = "farcall._farcall")]
pub(crate) struct Library {
    shared: Arc<Shared>,
    definitions: Py<Definitions>,
    /// The numbers of the functions of Python that it defines.
    defined: Mutex<Vec<usize>>,
    library: controller::Library,
}

impl Library {
    fn prototype(&self, py: Python<'_>, text: &str) -> PyResult<Prototype> {
        let declarations: Declarations = self.shared.declarations().clone();
        Prototype::read(&declarations, text).map_err(|error| error::raise(py, &error))
    }

    /// Does what may start an executor, without the interpreter's lock.
    fn apart(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&controller::Library) -> farcall::Result<()> + Send,
    ) -> PyResult<()> {
        self.shared.check_open()?;
        error::detached(py, || work(&self.library))
    }
}

#[pymethods]
impl Library {
    /// A library without objects.
    #[new]
    fn new(py: Python<'_>, executor: &crate::executor::Executor, name: String) -> PyResult<Self> {
        let shared = Arc::clone(executor.shared());
        shared.check_open()?;
        let library = error::detached(py, || shared.library(name))?;
        let definitions = executor.definitions().clone_ref(py);
        Ok(Self { shared, definitions, defined: Mutex::default(), library })
    }

    /// Adds the bytes of an object file.
    fn link_object(&self, py: Python<'_>, name: String, bytes: Vec<u8>) -> PyResult<()> {
        self.apart(py, |library| library.add_object(&ObjectFile::parse(name, bytes)?))
    }

    /// Adds the bytes of an archive, whose members are linked when a function needs them.
    fn link_archive(&self, py: Python<'_>, name: String, bytes: Vec<u8>) -> PyResult<()> {
        self.apart(py, |library| library.add_archive(&Archive::parse(name, bytes)?))
    }

    /// Opens a shared library in each executor.
    fn link_shared(&self, py: Python<'_>, path: String) -> PyResult<()> {
        self.apart(py, |library| library.add_library(path))
    }

    /// Puts the names of this library before the names of shared libraries.
    fn put_first(&self, py: Python<'_>) -> PyResult<()> {
        self.apart(py, controller::Library::precede_libraries)
    }

    /// Defines a C function that calls a function of Python.
    fn define_function(
        &self,
        py: Python<'_>,
        prototype: &str,
        function: Py<PyAny>,
    ) -> PyResult<()> {
        if !function.bind(py).is_callable() {
            return Err(PyTypeError::new_err("a function of Python is needed"));
        }
        let signature = self.prototype(py, prototype)?.signature;
        let name = signature.name().to_owned();
        let definitions = self.definitions.bind(py);
        let number = definitions.get().add(function);
        let kept = Kept::There(PyWeakrefReference::new(definitions)?.unbind(), number);
        let handler = callback::handler(&signature, kept);
        let defined = self.apart(py, |library| library.define_handler(&name, handler?));
        match &defined {
            Ok(()) => self.defined.lock().unwrap_or_else(PoisonError::into_inner).push(number),
            Err(_) => definitions.get().remove(number),
        }
        defined
    }

    /// The function of a prototype, linked now.
    fn function(&self, py: Python<'_>, prototype: &str) -> PyResult<Function> {
        self.shared.check_open()?;
        let prototype = self.prototype(py, prototype)?;
        let name = prototype.signature.name();
        let function = self.library.function_with(name, &prototype.signature);
        let function = function.map_err(|error| error::raise(py, &error))?;
        let definitions = self.definitions.clone_ref(py);
        Function::new(py, Arc::clone(&self.shared), definitions, function, prototype)
    }

    /// Runs the initializers of what was added.
    fn initialize(&self, py: Python<'_>) -> PyResult<()> {
        self.apart(py, controller::Library::initialize)
    }

    /// Removes all code of the library from each executor. No call of its functions may be under way.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let cleared = self.apart(py, controller::Library::clear);
        let mut defined = self.defined.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = std::mem::take(&mut *defined);
        drop(defined);
        numbers.into_iter().for_each(|number| self.definitions.get().remove(number));
        cleared
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.definitions)
    }
}
