//! Functions of the executor whose types are known at run time.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use farcall::ExecutorAddr;
use farcall::controller::Function as Callee;
use farcall::types::{Declarations, Signature, Value as Typed};

use super::buffer::{Out, array, required_text};
use super::call_options::CallOptions;
use super::error::{Error, invalid};
use super::life::{LiveProcess, Process};
use super::object::{self, Number, Object};
use super::pipeline::{Calls, OnResult, Pipeline};
use super::text::malloced;
use super::value::Value;

/// A C function of the executor, with its types. A number, as farcall_executor is one.
///
/// A function of a library is found by its name in the present process, and takes a free process of several. A bound function belongs to
/// one process, and is dead with it; its calls cost 20 to 30 ns less.
#[derive(Debug)]
pub struct Function {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

pub(crate) struct LiveFunction {
    callee: Callee<Signature>,
    /// The pipeline that it submits calls to.
    calls: Option<Arc<Calls>>,
    owner: Number,
}

impl Object for LiveFunction {
    type Handle = Function;
    const WHAT: &'static str = "function";
}

impl LiveFunction {
    /// The pointer that C gets for a function.
    pub(crate) fn give(callee: Callee<Signature>, owner: Number) -> farcall::Result<*mut Function> {
        Self { callee, calls: None, owner }.named()
    }

    fn named(self) -> farcall::Result<*mut Function> {
        Number::new().name(Some(self.owner), Arc::new(self))
    }
}

/// Reads a prototype, with the structures and typedefs that it uses.
///
/// # Safety
///
/// Both must be texts; the declarations may be NULL.
pub(crate) unsafe fn signature(
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

/// Makes a function of an address and a prototype, as farcall_library_function. It is bound to the process. Sends no message. May be NULL:
/// declarations.
///
/// # Safety
///
/// The declarations and the prototype must be texts, and function writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_function(
    process: *mut Process,
    address: u64,
    declarations: *const c_char,
    prototype: *const c_char,
    function: *mut *mut Function,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(function, "function", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveProcess>(process)?;
        // SAFETY: the caller vouches for the texts.
        let signature = unsafe { signature(declarations, prototype) }?;
        let callee = live.process.function_with(ExecutorAddr::new(address), &signature)?;
        LiveFunction::give(callee, live.number)
    })
}

/// Calls a function with a value for each parameter, and waits for its result. Structures are given by their bytes, which stay the
/// caller's. The caller owns the result (farcall_value_dispose). FARCALL_TYPE if the values are not of the prototype's types; nothing
/// is sent then. May be NULL: arguments, result.
///
/// The call is made once. If the process dies, that is an error of this call; with a restart policy the next call starts another one.
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

/// As farcall_function_call, up to a time, or watched. May be NULL: options, arguments, result.
///
/// # Safety
///
/// The options and the arguments must be readable, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_call_with(
    function: *mut Function,
    options: *const CallOptions,
    arguments: *const Value,
    count: usize,
    result: *mut Value,
) -> *mut Error {
    let way = |callee: &Callee<Signature>, values: &[Typed]| {
        // SAFETY: the caller vouches for the options.
        unsafe { CallOptions::with(options, |options| callee.call_with(options, values)) }
    };
    // SAFETY: the caller vouches for both.
    unsafe { call(function, arguments, count, result, way) }
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
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::optional(result, "result", Value::empty(None)) }?;
        let function = object::find::<LiveFunction>(function)?;
        // SAFETY: the caller vouches for the arguments.
        let values = unsafe { values(arguments, count) }?;
        let returned = way(&function.callee, &values)?;
        if let Some(place) = place {
            place.write(Value::give(&returned)?);
        }
        Ok(())
    })
}

/// The values that C has given.
///
/// # Safety
///
/// They must be readable, with the member of each kind set.
unsafe fn values(arguments: *const Value, count: usize) -> farcall::Result<Vec<Typed>> {
    // SAFETY: the caller vouches for the arguments.
    let arguments = unsafe { array(arguments, count) }?;
    // SAFETY: the member of each kind is set, as the caller vouches.
    arguments.iter().map(|value| unsafe { value.look() }).collect()
}

/// Makes calls calls with count arguments each, which lie one behind the other, and stores their results in this order. Many calls
/// travel in one message. Stores all results or none. May be NULL: arguments, results.
///
/// # Safety
///
/// The arguments must be readable, and as many results writable as there are calls.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_batch(
    function: *mut Function,
    arguments: *const Value,
    count: usize,
    calls: usize,
    results: *mut Value,
) -> *mut Error {
    object::with::<LiveFunction>(function, |function| {
        let all = count.checked_mul(calls).ok_or_else(|| invalid("too many arguments"))?;
        // SAFETY: the caller vouches for the arguments.
        let values = unsafe { values(arguments, all) }?;
        if !results.is_null() {
            // SAFETY: the results are only counted.
            unsafe { array(results.cast_const(), calls) }?;
        }
        if calls > isize::MAX as usize {
            return Err(invalid(format!("{calls} calls")));
        }
        let each = (0..calls).map(|call| values.get(call * count..(call + 1) * count));
        let batch = function.callee.batch(each.map(Option::unwrap_or_default))?;
        let returned = batch.collect::<farcall::Result<Vec<Typed>>>()?;
        for (at, value) in returned.iter().enumerate() {
            if !results.is_null() {
                // SAFETY: the caller vouches that there is one for each call.
                let place = unsafe { results.add(at) };
                // SAFETY: as above.
                unsafe { place.write(Value::give(value)?) };
            }
        }
        Ok(())
    })
}

/// Calls a function for each row of a table in a region, by one message. What the calls return is dropped. May be NULL: options, first,
/// steps.
///
/// The values of first are the arguments for the first row. Each further row adds the steps to them: bytes to a pointer, a number to an
/// integer. The step of another argument is 0.
///
/// # Safety
///
/// The options, the arguments and as many steps must be readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_rows(
    function: *mut Function,
    options: *const CallOptions,
    first: *const Value,
    steps: *const i64,
    count: usize,
    rows: u64,
) -> *mut Error {
    object::with::<LiveFunction>(function, |function| {
        // SAFETY: the caller vouches for the arguments.
        let first = unsafe { values(first, count) }?;
        // SAFETY: the caller vouches for the steps.
        let steps = unsafe { array(steps, count) }?;
        let callee = function.callee.rows();
        // SAFETY: the caller vouches for the options.
        unsafe {
            CallOptions::with(options, |options| callee.call_with(options, (&first, steps, rows)))
        }
    })
}

/// Stores the function bound to the present process, which is started first if the last one has died. FARCALL_SYMBOLS if the library does
/// not define the name.
///
/// # Safety
///
/// bound must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_bind(
    function: *mut Function,
    bound: *mut *mut Function,
) -> *mut Error {
    // SAFETY: the caller vouches for the place.
    unsafe { made(function, bound, "bound", |function| Ok((function.callee.bind()?, None))) }
}

/// Stores the function in one process of its executor, counted from 0. Its calls do not wait until that is free. FARCALL_INVALID for a
/// bound function.
///
/// # Safety
///
/// one must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_on(
    function: *mut Function,
    number: usize,
    one: *mut *mut Function,
) -> *mut Error {
    let on = |function: &LiveFunction| {
        let missing = || invalid(format!("there is no process {number}, or the function is bound"));
        Ok((function.callee.on(number).ok_or_else(missing)?, None))
    };
    // SAFETY: the caller vouches for the place.
    unsafe { made(function, one, "one", on) }
}

/// Stores the function bound to the process of a pipeline, to which farcall_function_submit submits its calls. FARCALL_INVALID if the
/// function belongs to another process.
///
/// # Safety
///
/// over must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_over(
    function: *mut Function,
    pipeline: *mut Pipeline,
    over: *mut *mut Function,
) -> *mut Error {
    let bind = |function: &LiveFunction| {
        let calls = object::find::<Calls>(pipeline)?;
        Ok((function.callee.over(&calls.pipeline)?, Some(calls)))
    };
    // SAFETY: the caller vouches for the place.
    unsafe { made(function, over, "over", bind) }
}

/// # Safety
///
/// place must be writable.
unsafe fn made(
    function: *mut Function,
    place: *mut *mut Function,
    what: &str,
    make: impl FnOnce(&LiveFunction) -> farcall::Result<(Callee<Signature>, Option<Arc<Calls>>)>,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(place, what, std::ptr::null_mut()) }, || {
        let function = object::find::<LiveFunction>(function)?;
        let (callee, calls) = make(&function)?;
        LiveFunction { callee, calls, owner: function.owner }.named()
    })
}

/// Submits a call to the pipeline of the function (farcall_function_over), as farcall_pipeline_submit: on_result receives its outcome. If
/// this function returns an error, nothing was submitted, and on_result is not called. May be NULL: arguments.
///
/// # Safety
///
/// The arguments must be readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_submit(
    function: *mut Function,
    arguments: *const Value,
    count: usize,
    on_result: OnResult,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveFunction>(function, |function| {
        let missing = || invalid("the function has no pipeline; farcall_function_over gives one");
        let calls = function.calls.as_ref().ok_or_else(missing)?;
        // SAFETY: the caller vouches for the arguments.
        let values = unsafe { values(arguments, count) }?;
        calls.submit_function(&function.callee, &values, on_result, context)
    })
}

/// As farcall_pipeline_cancel, for calls of the function's pipeline.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_function_cancel(
    function: *mut Function,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveFunction>(function, |function| {
        let missing = || invalid("the function has no pipeline; farcall_function_over gives one");
        function.calls.as_ref().ok_or_else(missing)?.cancel(context)
    })
}

/// Stores the address of a function in the present process.
///
/// # Safety
///
/// address must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_address(
    function: *mut Function,
    address: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(address, "address", 0) }, || {
        Ok(object::find::<LiveFunction>(function)?.callee.address()?.get())
    })
}

/// A C function of any type. The host casts it to the function's own type, and calls it.
pub type AnyFunction = Option<unsafe extern "C" fn()>;

/// Stores a pointer to a function that is linked in this process (in_process of farcall_executor_options). A call by it is a call of
/// native code, on any thread: farcall takes no part. FARCALL_INVALID if the function is in another process.
///
/// Nothing is to be freed. The pointer stays valid while the executor is open and the code is there: until farcall_library_clear,
/// a redirection that removes the code, farcall_executor_kill or farcall_executor_close. These wait for no call by a pointer. It
/// outlives farcall_function_dispose and farcall_library_dispose. In a forked child it is valid while the parent keeps the code.
///
/// The function must not throw. An error of a handler in such a call ends the host, unless it is a status.
///
/// # Safety
///
/// pointer must be writable. A call by the pointer must be of the function's type.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_pointer(
    function: *mut Function,
    pointer: *mut AnyFunction,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(pointer, "pointer", None) }?;
        place.write(Some(object::find::<LiveFunction>(function)?.callee.pointer()?));
        Ok(())
    })
}

/// Stores the prototype of a function, to be freed with farcall_text_free.
///
/// # Safety
///
/// prototype must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_function_prototype(
    function: *mut Function,
    prototype: *mut *mut c_char,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(prototype, "prototype", std::ptr::null_mut()) }, || {
        let function = object::find::<LiveFunction>(function)?;
        Ok(malloced(&function.callee.signature().to_string()))
    })
}

/// Frees a function. Calls under way go to their end. May be NULL: function.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_function_dispose(function: *mut Function) -> *mut Error {
    object::dispose::<LiveFunction>(function)
}
