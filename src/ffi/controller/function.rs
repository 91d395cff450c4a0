//! Functions of the executor whose types are known at run time.

use std::ffi::c_char;
use std::time::Duration;

use farcall::ExecutorAddr;
use farcall::controller::{CallOptions, Function as Callee};
use farcall::types::{Declarations, Signature, Value as Typed};

use super::buffer::{Out, array, required_text};
use super::error::Error;
use super::object::{self, Number, Object};
use super::session::{Controller, Live};
use super::value::Value;

/// A C function of the executor, with its types. A number, as farcall_controller is one.
#[derive(Debug)]
pub struct Function {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

struct LiveFunction(Callee<Signature>);

impl Object for LiveFunction {
    type Handle = Function;
    const WHAT: &'static str = "function";
}

/// Reads a prototype, with the structures and typedefs that it uses.
///
/// # Safety
///
/// Both must be texts; the declarations may be NULL.
pub(super) unsafe fn signature(
    declarations: *const c_char,
    prototype: *const c_char,
) -> farcall::Result<Signature> {
    let mut types = Declarations::new();
    if !declarations.is_null() {
        // SAFETY: the caller vouches for the text.
        types.declare(unsafe { required_text(declarations, "declarations") }?)?;
    }
    // SAFETY: the caller vouches for the text.
    types.signature(unsafe { required_text(prototype, "prototype") }?)
}

/// Makes a function of an address and a prototype, such as "double scale(long count, double unit)". Sends no message. The text of
/// declarations has the structures and typedefs that the prototype uses, each ended by a semicolon. May be NULL: declarations.
///
/// If the function has other types, the executor may crash; calls then return an error, or a number without meaning.
///
/// # Safety
///
/// The declarations and the prototype must be texts, and function writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_create(
    controller: *mut Controller,
    address: u64,
    declarations: *const c_char,
    prototype: *const c_char,
    function: *mut *mut Function,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(function, "function", std::ptr::null_mut()) }?;
        let live = object::find::<Live>(controller)?;
        // SAFETY: the caller vouches for the texts.
        let signature = unsafe { signature(declarations, prototype) }?;
        let callee = live.controller.function_with(ExecutorAddr::new(address), &signature)?;
        place.write(Number::new().name(Some(live.number), LiveFunction(callee).into())?);
        Ok(())
    })
}

/// Calls a function with a value for each parameter, and waits for its result. Structures are given by their bytes, which stay the
/// caller's. The caller owns the result (farcall_value_dispose). FARCALL_TYPE if the values are not of the prototype's types; nothing
/// is sent then. May be NULL: arguments, result.
///
/// # Safety
///
/// The arguments must be readable, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_call(
    function: *mut Function,
    arguments: *const Value,
    count: usize,
    result: *mut Value,
) -> *mut Error {
    // SAFETY: the caller vouches for both.
    unsafe { call(function, arguments, count, result, |callee, values| callee.call(values)) }
}

/// As farcall_function_call, for at most timeout_ms milliseconds: see farcall_controller_call_timeout. May be NULL: arguments,
/// result.
///
/// # Safety
///
/// The arguments must be readable, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_call_timeout(
    function: *mut Function,
    arguments: *const Value,
    count: usize,
    timeout_ms: u64,
    result: *mut Value,
) -> *mut Error {
    let timeout = Duration::from_millis(timeout_ms);
    let options = CallOptions::new().timeout(timeout);
    let within = |callee: &Callee<Signature>, values: &[Typed]| callee.call_with(&options, values);
    // SAFETY: the caller vouches for both.
    unsafe { call(function, arguments, count, result, within) }
}

/// # Safety
///
/// The arguments must be readable, and result writable or NULL.
unsafe fn call(
    function: *mut Function,
    arguments: *const Value,
    count: usize,
    result: *mut Value,
    way: impl FnOnce(&Callee<Signature>, &[Typed]) -> farcall::Result<Typed>,
) -> *mut Error {
    Error::of(|| {
        let place = match result.is_null() {
            true => None,
            // SAFETY: the caller vouches that the pointer is writable.
            false => Some(unsafe { Out::new(result, "result", Value::empty(None)) }?),
        };
        let function = object::find::<LiveFunction>(function)?;
        // SAFETY: the caller vouches for the arguments.
        let arguments = unsafe { array(arguments, count) }?;
        // SAFETY: the member of each kind is set, as the caller vouches.
        let values = arguments.iter().map(|value| unsafe { value.look() });
        let returned = way(&function.0, &values.collect::<farcall::Result<Vec<_>>>()?)?;
        if let Some(place) = place {
            place.write(Value::give(&returned)?);
        }
        Ok(())
    })
}

/// Frees a function. Calls under way go to their end. May be NULL: function.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_function_dispose(function: *mut Function) -> *mut Error {
    if function.is_null() {
        return std::ptr::null_mut();
    }
    Error::of(|| object::remove::<LiveFunction>(function).map(drop))
}
