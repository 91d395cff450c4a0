//! Calls C functions by their types. The arguments arrive as words. Arguments of each kind go to that kind's
//! registers while there are any, and the others to the stack, in order; `abi` knows the registers.
#![allow(unsafe_code, reason = "calls C functions by address")]

use std::ffi::c_char;

use crate::ExecutorAddr;
use crate::call::typed::{self, Shape, TYPED_CALL};
use crate::executor::entry::abi::{self, Frame};
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::enter;
use crate::limits::TYPED_ARGUMENTS_MAX;

unsafe extern "C" {
    /// Loads the registers from a frame, copies its stack words, calls its function, and stores both result
    /// registers.
    fn farcall_call_typed(frame: *mut Frame);
}

/// Calls a function and returns its result word, of which the low bytes count.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `shape` must describe the function at its address, and the arguments must match it.
#[inline]
unsafe fn call_shaped(shape: Shape, arguments: &[[u8; 8]]) -> std::result::Result<u64, String> {
    let mut frame = Frame {
        integers: [0; abi::INTEGERS],
        floats: [0; abi::FLOATS],
        function: shape.function.get(),
        floats_used: 0,
        stack_words: 0,
        integer_result: 0,
        float_result: 0,
        stack: [0; TYPED_ARGUMENTS_MAX],
    };
    let (mut integers, mut floats, mut stack) = (0, 0, 0);
    for (index, word) in arguments.iter().enumerate() {
        let is_float = shape.floats >> index & 1 == 1;
        let (used, words) = match is_float {
            true => (&mut floats, &mut frame.floats[..]),
            false => (&mut integers, &mut frame.integers[..]),
        };
        let (used, words) = match *used < words.len() {
            true => (used, words),
            false => (&mut stack, &mut frame.stack[..]),
        };
        words[*used] = u64::from_le_bytes(*word);
        *used += 1;
    }
    (frame.floats_used, frame.stack_words) = (floats as u64, stack as u64);
    // SAFETY: the caller vouches for the function and its arguments; the frame is live and as large as it says.
    unsafe { enter::caller(farcall_call_typed, &raw mut frame) }?;
    Ok(if shape.returns_float { frame.float_result } else { frame.integer_result })
}

/// The name and address of the function that makes typed calls.
pub(crate) fn function() -> (String, ExecutorAddr) {
    (TYPED_CALL.to_owned(), ExecutorAddr::new(call as *const () as u64))
}

/// The wrapper function that makes a typed call.
unsafe extern "C" fn call(data: *const c_char, size: usize) -> WrapperFunctionBuffer {
    let bytes = if size == 0 {
        &[]
    } else {
        // SAFETY: wrapper functions are called with `size` readable bytes at `data`.
        unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
    };
    match typed::read(bytes) {
        Ok((shape, _)) if shape.function.is_null() => {
            WrapperFunctionBuffer::out_of_band("call of address 0")
        }
        Ok((shape, arguments)) => {
            // SAFETY: the controller vouches for the function's type; the executor obeys it.
            match unsafe { call_shaped(shape, arguments) } {
                Ok(word) => WrapperFunctionBuffer::from_bytes(&word.to_le_bytes()),
                Err(why) => WrapperFunctionBuffer::out_of_band(&why),
            }
        }
        Err(error) => WrapperFunctionBuffer::out_of_band(&format!("{TYPED_CALL}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::typed::TypedCall;

    extern "C" fn mix(a: i64, b: f64, c: i64, d: f32) -> f64 {
        a as f64 + 10.0 * b + 100.0 * c as f64 + 1000.0 * f64::from(d)
    }

    #[test]
    fn a_function_gets_its_arguments_and_nonsense_is_refused() {
        let function = ExecutorAddr::new(mix as *const () as u64);
        let shape = Shape { function, floats: 0b1010, returns_float: true };
        let arguments = [1, 2.0_f64.to_bits(), 3, u64::from(4.0_f32.to_bits())];
        let bytes = TypedCall::new(shape, arguments);
        let bytes = bytes.bytes();
        // SAFETY: the bytes are those of a call of such a function.
        let result = unsafe { call(bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(result.as_ref(), 4321.0_f64.to_le_bytes());
        for nothing in [0, 8, 47] {
            // SAFETY: at least this many bytes are there.
            let refused = unsafe { call(bytes.as_ptr().cast(), nothing) };
            let why = refused.out_of_band_error().expect("an error").to_string_lossy().into_owned();
            assert!(why.contains(TYPED_CALL), "{why}");
        }
    }
}
