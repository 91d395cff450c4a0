//! Functions of Python on threads that the interpreter's exit ends.
//!
//! CPython before 3.14 ends a daemon thread that wants the interpreter's lock during the exit: it unwinds the thread's whole stack.
//! Frames of Rust would abort the process. So the thread sleeps in the first of them, as CPython 3.14 makes it do.
#![allow(unsafe_code, reason = "calls the interpreter by a declaration that lets it unwind")]

use std::hint::black_box;
use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

unsafe extern "C-unwind" {
    fn PyObject_Call(
        function: *mut ffi::PyObject,
        arguments: *mut ffi::PyObject,
        keywords: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
}

/// Sleeps for the rest of the process's life when a thread's end drops it.
struct Sleep;

impl Drop for Sleep {
    fn drop(&mut self) {
        loop {
            std::thread::park();
        }
    }
}

/// Calls a function of Python. If the interpreter ends the thread meanwhile, the thread sleeps until the process has ended.
///
/// # Errors
///
/// The exception that the function raises.
pub(crate) fn call<'py>(
    function: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyAny>> {
    // By its declaration in PyO3 the function never unwinds. In one unit of code the compiler believes so of both declarations,
    // and the unwinder finds no `Sleep`. It cannot know where this pointer leads.
    let call: unsafe extern "C-unwind" fn(_, _, _) -> _ = black_box(PyObject_Call);
    let sleep = Sleep;
    // SAFETY: both objects live, the second is a tuple, and keywords may be null.
    let result = unsafe { call(function.as_ptr(), arguments.as_ptr(), ptr::null_mut()) };
    std::mem::forget(sleep);
    // SAFETY: the result is a reference of ours, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), result) }
}
