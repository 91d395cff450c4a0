//! Functions of Python that a library defines, where the collector of garbage sees them.
//!
//! A function refers to its module, and the module perhaps to the executor: a cycle. The collector does not see
//! what the linker keeps. So the linker has a weak reference, and the objects of Python that can call the function keep it alive.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

/// The functions that the libraries of one executor define.
#[pyclass(frozen, weakref, module = "farcall._farcall")]
#[derive(Default)]
pub(crate) struct Definitions {
    functions: Mutex<Vec<Option<Py<PyAny>>>>,
}

impl Definitions {
    /// Keeps a function, and returns its number.
    pub(crate) fn add(&self, function: Py<PyAny>) -> usize {
        let mut functions = self.lock();
        functions.push(Some(function));
        functions.len() - 1
    }

    /// The function with this number, unless it was removed.
    pub(crate) fn function(&self, py: Python<'_>, number: usize) -> Option<Py<PyAny>> {
        let functions = self.lock();
        functions.get(number)?.as_ref().map(|function| function.clone_ref(py))
    }

    pub(crate) fn remove(&self, number: usize) {
        let removed = self.lock().get_mut(number).and_then(Option::take);
        // Code that a function's end runs may use the list.
        drop(removed);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Py<PyAny>>>> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Definitions {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // While a thread changes the list, the collector leaves it alone.
        let Ok(functions) = self.functions.try_lock() else { return Ok(()) };
        functions.iter().flatten().try_for_each(|function| visit.call(function))
    }

    fn __clear__(&self) {
        let functions = std::mem::take(&mut *self.lock());
        drop(functions);
    }
}
