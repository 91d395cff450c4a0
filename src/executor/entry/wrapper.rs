//! Wrapper functions of LLVM 22: the C calling convention of all functions that are called from the other process.
//!
//! `struct buffer f(const char *data, size_t size)`, where the buffer is a [`WrapperFunctionBuffer`]. The function
//! answers when it returns. `wrapper_function` has the other convention, whose functions may answer later.
//!
//! Invariant: only the process that got a call answers it. A child that the function has forked, and that returns from it, ends.
#![allow(unsafe_code, reason = "calls and provides C functions by address")]

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ExecutorAddr;
use crate::call::contract::Remote;
use crate::error::{Error, Result, panicked};
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::{enter, typed};
use crate::executor::log::{self, Level};
use crate::sps;
use crate::sys::process::fork;
use crate::transport::Payload;

/// The exit status of a child whose function has failed.
const FAILED: i32 = 125;

type Wrapper = unsafe extern "C" fn(*const c_char, usize) -> WrapperFunctionBuffer;

/// Implements a function of the contract.
pub(crate) trait Serve: Remote {
    /// Runs the function; an error becomes an out-of-band error.
    fn serve(args: Self::Args) -> Result<Self::Ret>;
}

/// The name and address of a function of the contract.
pub(crate) fn offer<R: Serve>() -> (String, ExecutorAddr) {
    let wrapper: Wrapper = shim::<R>;
    (R::NAME.to_owned(), ExecutorAddr::new(wrapper as usize as u64))
}

/// Calls the wrapper function at `target`.
///
/// The controller names the address. Only the controller can know that there is a wrapper function, and that nothing
/// changes the arguments until it returns: the executor obeys the controller.
///
/// # Errors
///
/// The function's out-of-band error, or the reason for which the call was unwound.
#[inline(always)]
pub(crate) fn call(
    target: u64,
    args: Payload<'_>,
) -> std::result::Result<WrapperFunctionBuffer, String> {
    if target == 0 {
        return Err("call of address 0".to_owned());
    }
    let generation = fork::generation();
    let result = match args {
        // No wrapper function stands between: its frame and its buffer take time.
        Payload::Own(message) if is_typed(target) => typed::answer(message),
        _ => {
            let (function, data, bytes) = (ExecutorAddr::new(target), args.as_ptr(), args.len());
            // SAFETY: the controller vouches for the address and the arguments, as said above.
            let result = unsafe { enter::wrapper(function, data, bytes) };
            result.and_then(WrapperFunctionBuffer::into_result)
        }
    };
    if fork::generation() != generation {
        end_child(result.err());
    }
    result
}

/// True for the address of the wrapper function that makes typed calls.
#[inline(always)]
pub(crate) fn is_typed(target: u64) -> bool {
    target == typed::address()
}

/// Makes a typed call with one word as its result, which is then `word`. `None` for any other call, which was not made. The word does not
/// travel in a buffer: its reader would wait until the store of each half has left the processor's store buffer.
///
/// # Errors
///
/// As [`call`].
#[inline(always)]
pub(crate) fn call_word(args: &[u8], word: &mut u64) -> Option<std::result::Result<(), String>> {
    let generation = fork::generation();
    let done = typed::call_word(args)?.map(|result| *word = result);
    if fork::generation() != generation {
        end_child(done.err());
    }
    Some(done)
}

/// As [`call`]. `None` if [`call_word`] has made it.
#[inline(always)]
pub(crate) fn call_for_word(
    target: u64,
    args: &[u8],
    word: &mut u64,
) -> Option<std::result::Result<WrapperFunctionBuffer, String>> {
    if is_typed(target)
        && let Some(done) = call_word(args, word)
    {
        return done.err().map(Err);
    }
    Some(call(target, Payload::Own(args)))
}

/// Ends a forked child, in which the function of a call has returned: the call, and the way to its caller, are the parent's. Writes
/// what the child has printed. A reason why the function has failed goes to standard error.
#[cold]
pub(super) fn end_child(failed: Option<String>) -> ! {
    if let Some(why) = &failed {
        log::write(Level::Error, format_args!("in a forked child: {why}"));
    }
    fork::flush();
    fork::end(if failed.is_some() { FAILED } else { 0 })
}

/// The C function of an implementation. A panic in it becomes an out-of-band error.
unsafe extern "C" fn shim<R: Serve>(data: *const c_char, size: usize) -> WrapperFunctionBuffer {
    let bytes = if size == 0 {
        &[]
    } else {
        // SAFETY: wrapper functions are called with `size` readable bytes at `data`.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let args = sps::from_bytes::<R::Args>(bytes)?;
        R::serve(args)
    }));
    let result = outcome.unwrap_or_else(|panic| Err(Error::remote(panicked(panic))));
    match result {
        Ok(value) => WrapperFunctionBuffer::from_bytes(&sps::to_bytes(&value)),
        Err(error) => WrapperFunctionBuffer::out_of_band(&match error.interruption() {
            // The controller reads these words as they are.
            Some(told) => told.to_string(),
            None => format!("{}: {error}", R::NAME),
        }),
    }
}
