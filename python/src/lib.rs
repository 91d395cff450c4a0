//! The extension module of farcall for Python: `farcall._farcall`, on which the package `farcall` stands.
//!
//! | part | what it is |
//! |---|---|
//! | `error` | errors of farcall as exceptions |
//! | `prototype` | what the parameters of a C function take |
//! | `value` | numbers and structures of Python as C values, and back |
//! | `array` | memory that executors map |
//! | `argument` | the arguments of one call; `comparison`: arrays, compared with what pointers lead to |
//! | `callback` | functions of Python that linked code calls; `definitions`: functions that libraries keep; `exit`: calls at the exit |
//! | `wait` | calls that Ctrl-C and a timeout end |
//! | `future` | submitted calls |
//! | `function`, `library`, `executor` | the classes of the module; `object_builder`: objects that a program has made itself |
//!
//! A part imports only from those above it; `executor` has what functions and libraries share.
//!
//! Invariant: a call of an executor is made without the interpreter's lock. Code of the executor cannot harm the interpreter.
#![deny(unsafe_code)]

mod argument;
mod array;
mod callback;
mod error;
mod executor;
mod function;
mod future;
mod library;
mod prototype;
mod value;
mod wait;

use pyo3::prelude::*;

/// The classes on which the package stands.
#[pymodule]
fn _farcall(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<executor::Executor>()?;
    module.add_class::<library::Library>()?;
    module.add_class::<function::Function>()?;
    module.add_class::<array::Memory>()?;
    module.add_class::<wait::Cancellation>()?;
    module.add_function(wrap_pyfunction!(library::object_builder::build_object, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
