//! Calls C functions by their types. The arguments arrive as words for registers and stack, in the order in which `abi` loads them.
#![allow(unsafe_code, reason = "calls C functions by address")]

use std::ffi::{c_char, c_void};

use crate::ExecutorAddr;
use crate::call::typed::{self, TYPED_CALL, TYPED_ROWS};
use crate::executor::entry::abi::Frame;
use crate::executor::entry::address::pointer;
use crate::executor::entry::buffer::WrapperFunctionBuffer;
use crate::executor::entry::{enter, unwind_boundary};
use crate::types::abi::{FLOATS, IN_MEMORY, INTEGERS, RESULT_WORDS, RESULT_WORDS_MAX, Shape};

unsafe extern "C" {
    /// Loads the registers from a frame, copies its stack words, calls its function, and stores the result registers.
    fn farcall_call_typed(frame: *mut Frame);
    /// Calls its first argument. Loads the registers from the words at the second. Bits 7..0 of the third count the words for integer
    /// registers, bits 15..8 the floating-point registers behind them. Returns the first result register of each kind.
    safe fn farcall_call_registers();
}

/// Calls a function and returns its result: the words of its registers, or the bytes of its memory.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// `shape` must describe the function, and the words must match it.
#[inline]
unsafe fn call_shaped(
    function: ExecutorAddr,
    shape: Shape,
    words: &[[u8; 8]],
) -> std::result::Result<WrapperFunctionBuffer, String> {
    // SAFETY: the caller vouches for the function and its words.
    match unsafe { call_numbers(function, shape, words) } {
        Some(result) => Ok(WrapperFunctionBuffer::from_bytes(&result?.to_le_bytes())),
        // SAFETY: as above.
        None => unsafe { call_framed(function, shape, words) },
    }
}

/// Calls a function that takes a word in each register, and returns the word of its result. `None` for any other function, which was
/// not called.
///
/// # Safety
///
/// As [`call_shaped`].
#[inline(always)]
unsafe fn call_numbers(
    function: ExecutorAddr,
    shape: Shape,
    words: &[[u8; 8]],
) -> Option<std::result::Result<u64, String>> {
    let is_float = shape.scalar()?;
    let (integers, floats) = (shape.integers(), shape.floats());
    if integers > INTEGERS || floats > FLOATS || words.len() != integers + floats {
        return None;
    }
    let function = pointer::<c_void>(function).expose_provenance();
    let arguments = [function, words.as_ptr().expose_provenance(), shape.counts()];
    // SAFETY: the caller vouches for the function; the words are as many as the counts say.
    let results =
        unsafe { unwind_boundary::enter(farcall_call_registers as *const c_void, arguments) };
    Some(results.map(|results| if is_float { results.second } else { results.first } as u64))
}

/// The address of the wrapper function that makes a typed call.
pub(crate) fn address() -> u64 {
    call as *const () as u64
}

/// Makes a typed call of a function that takes a word in each register, and returns the word of its result. `None` for any other call,
/// which was not made.
#[inline(always)]
pub(crate) fn call_word(message: &[u8]) -> Option<std::result::Result<u64, String>> {
    let (function, shape, words) = typed::split_head(message)?;
    if function.is_null() {
        return None;
    }
    // SAFETY: the controller vouches for the function's type; the executor obeys it.
    unsafe { call_numbers(function, shape, words) }
}

/// Calls a function that needs more than a word in each register, or has another result.
///
/// # Errors
///
/// Why the call was unwound.
///
/// # Safety
///
/// As [`call_shaped`].
unsafe fn call_framed(
    function: ExecutorAddr,
    shape: Shape,
    words: &[[u8; 8]],
) -> std::result::Result<WrapperFunctionBuffer, String> {
    let mut words = words.iter();
    let mut frame = Frame {
        integers: [0; INTEGERS],
        floats: [[0; 2]; FLOATS],
        function: function.get(),
        floats_used: shape.floats() as u64,
        stack_words: 0,
        stack: std::ptr::null(),
        results: [0; RESULT_WORDS],
        result_memory: 0,
    };
    for (to, word) in frame.integers.iter_mut().zip(words.by_ref().take(shape.integers())) {
        *to = u64::from_le_bytes(*word);
    }
    for (register, [low, high]) in frame.floats.iter_mut().take(shape.floats()).enumerate() {
        *low = words.next().map_or(0, |word| u64::from_le_bytes(*word));
        if shape.wide() >> register & 1 == 1 {
            *high = words.next().map_or(0, |word| u64::from_le_bytes(*word));
        }
    }
    let stack = words.as_slice();
    (frame.stack_words, frame.stack) = (stack.len() as u64, stack.as_ptr().cast());
    if shape.results().first() == Some(&IN_MEMORY) {
        // SAFETY: the caller vouches for the function and its arguments.
        return unsafe { call_into_memory(&mut frame, shape.result_bytes().into()) };
    }
    // SAFETY: the caller vouches for the function and its arguments; the frame is live and as large as it says.
    unsafe { enter::caller(farcall_call_typed, &raw mut frame) }?;
    let mut result = [0; RESULT_WORDS_MAX * 8];
    let mut used = 0;
    for (to, number) in result.as_chunks_mut::<8>().0.iter_mut().zip(shape.results()) {
        let Some(word) = usize::from(number).checked_sub(1).and_then(|at| frame.results.get(at))
        else {
            break;
        };
        *to = word.to_le_bytes();
        used += 8;
    }
    Ok(WrapperFunctionBuffer::from_bytes(result.get(..used).unwrap_or_default()))
}

/// Calls a function whose result is in memory, which this one provides.
///
/// # Safety
///
/// As [`call_shaped`].
#[cold]
unsafe fn call_into_memory(
    frame: &mut Frame,
    bytes: usize,
) -> std::result::Result<WrapperFunctionBuffer, String> {
    // Aligned as the largest alignment of a C type.
    let mut memory = vec![0_u128; bytes.div_ceil(16)];
    frame.set_result_memory(memory.as_mut_ptr());
    // SAFETY: the caller vouches for the function and its arguments; frame and memory live until it returns.
    unsafe { enter::caller(farcall_call_typed, frame) }?;
    let result: Vec<u8> = memory.iter().flat_map(|word| word.to_le_bytes()).take(bytes).collect();
    Ok(WrapperFunctionBuffer::from_bytes(&result))
}

/// The names and addresses of the functions that make typed calls.
pub(crate) fn functions() -> [(String, ExecutorAddr); 2] {
    [
        (TYPED_CALL.to_owned(), ExecutorAddr::new(call as *const () as u64)),
        (TYPED_ROWS.to_owned(), ExecutorAddr::new(call_for_rows as *const () as u64)),
    ]
}

/// The bytes that a wrapper function is called with.
///
/// # Safety
///
/// `size` bytes at `data` must be readable during the call, unless `size` is 0.
unsafe fn argument<'a>(data: *const c_char, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }
}

/// The wrapper function that makes a typed call.
unsafe extern "C" fn call(data: *const c_char, size: usize) -> WrapperFunctionBuffer {
    // SAFETY: wrapper functions are called with `size` readable bytes at `data`.
    let answered = answer(unsafe { argument(data, size) });
    answered.unwrap_or_else(|why| WrapperFunctionBuffer::out_of_band(&why))
}

/// Makes a typed call, and returns what the wrapper function would. Not inlined: its registers would slow down the
/// other calls of its caller.
///
/// # Errors
///
/// Why the call was unwound, or not made.
#[inline(never)]
pub(crate) fn answer(message: &[u8]) -> std::result::Result<WrapperFunctionBuffer, String> {
    let (function, shape, words) =
        typed::read(message).map_err(|error| format!("{TYPED_CALL}: {error}"))?;
    if function.is_null() {
        return Err("call of address 0".to_owned());
    }
    // SAFETY: the controller vouches for the function's type; the executor obeys it.
    unsafe { call_shaped(function, shape, words) }
}

/// The wrapper function that makes a typed call for each of many rows. It drops their results.
unsafe extern "C" fn call_for_rows(data: *const c_char, size: usize) -> WrapperFunctionBuffer {
    // SAFETY: wrapper functions are called with `size` readable bytes at `data`.
    let rows = match typed::read_rows(unsafe { argument(data, size) }) {
        Ok(rows) => rows,
        Err(error) => {
            return WrapperFunctionBuffer::out_of_band(&format!("{TYPED_ROWS}: {error}"));
        }
    };
    if rows.function.is_null() {
        return WrapperFunctionBuffer::out_of_band("call of address 0");
    }
    let done = rows.for_each(|words| {
        // SAFETY: the controller vouches for the function's type; the executor obeys it.
        unsafe { call_shaped(rows.function, rows.shape, words) }.map(drop)
    });
    match done {
        Ok(()) => WrapperFunctionBuffer::from_bytes(&[]),
        Err((row, why)) => WrapperFunctionBuffer::out_of_band(&format!("row {row}: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::typed::{HEAD_WORDS, head, write};
    use crate::types::abi::scalars;

    extern "C" fn mix(a: i64, b: f64, c: i64, d: f32) -> f64 {
        a as f64 + 10.0 * b + 100.0 * c as f64 + 1000.0 * f64::from(d)
    }

    #[test]
    fn a_function_gets_its_arguments_and_nonsense_is_refused() {
        let function = ExecutorAddr::new(mix as *const () as u64);
        let (shape, places) = scalars([false, true, false, true], true);
        let arguments = [1, 2.0_f64.to_bits(), 3, u64::from(4.0_f32.to_bits())];
        let mut words = [[0; 8]; HEAD_WORDS + 4];
        write(&mut words, &head(function, shape), arguments, &places);
        let bytes = words.as_flattened();
        // SAFETY: the bytes come from a call of such a function.
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
