//! C functions called by their types: the arguments come as words, and where each goes is the ABI's business (`abi`).
#![allow(unsafe_code, reason = "calls C functions by address")]

use std::ffi::c_char;

use super::abi;
use super::buffer::WrapperFunctionBuffer;
use crate::ExecutorAddr;
use crate::call::typed::{self, TYPED_CALL};

/// The name and address under which such calls are offered.
pub(super) fn function() -> (String, ExecutorAddr) {
    (TYPED_CALL.to_owned(), ExecutorAddr::new(call as *const () as u64))
}

/// The wrapper function that makes a call.
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
            // SAFETY: the controller's user says that there is a function of this type, and the executor obeys.
            match unsafe { abi::call(shape, arguments) } {
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
    use crate::call::typed::{Shape, TypedCall};

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
            // SAFETY: so many bytes are there.
            let refused = unsafe { call(bytes.as_ptr().cast(), nothing) };
            let why = refused.out_of_band_error().expect("an error").to_string_lossy().into_owned();
            assert!(why.contains(TYPED_CALL), "{why}");
        }
    }
}
