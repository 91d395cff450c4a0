//! A call of a C function by its type, as bytes.
//!
//! ```text
//! word 0   the function's address
//! word 1   7..0 arguments   8 the result is a floating-point number   63..32 which arguments are, the first in bit 32
//! word 2.. the arguments
//! ```
//!
//! Integers are extended to 64 bits by their sign, as every known ABI takes them. A floating-point number of 32 bits is in the
//! low half of its word. Only the executor knows the register or stack slot of an argument, so the controller knows no ABI.
//! The result is one word of the same form. Up to four arguments fit a lane's line.
//!
//! Invariant: no more than [`TYPED_ARGUMENTS_MAX`] arguments.

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::limits::TYPED_ARGUMENTS_MAX;

/// The name of the wrapper function that makes such a call. It takes no SPS arguments, so it allocates nothing.
pub(crate) const TYPED_CALL: &str = "farcall_typed_call";

const HEAD_WORDS: usize = 2;
const WORD_BYTES: usize = 8;
const RETURNS_FLOAT: u64 = 1 << 8;
const FLOATS_SHIFT: u32 = 32;

const _: () = assert!(TYPED_ARGUMENTS_MAX <= 32 && TYPED_ARGUMENTS_MAX < 1 << 8);

/// What a call consists of besides the values of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) function: ExecutorAddr,
    /// A bit for each argument: 1 for a floating-point number. The first argument is bit 0.
    pub(crate) floats: u32,
    pub(crate) returns_float: bool,
}

/// The bytes of a call.
#[derive(Debug)]
pub(crate) struct TypedCall {
    bytes: [u8; (HEAD_WORDS + TYPED_ARGUMENTS_MAX) * WORD_BYTES],
    used: usize,
}

impl TypedCall {
    /// A call with these arguments.
    ///
    /// # Panics
    ///
    /// When there are more than [`TYPED_ARGUMENTS_MAX`].
    #[inline]
    pub(crate) fn new<const N: usize>(shape: Shape, arguments: [u64; N]) -> Self {
        let mut call =
            Self { bytes: [0; (HEAD_WORDS + TYPED_ARGUMENTS_MAX) * WORD_BYTES], used: 0 };
        let float = if shape.returns_float { RETURNS_FLOAT } else { 0 };
        call.push(shape.function.get());
        call.push(N as u64 | float | u64::from(shape.floats) << FLOATS_SHIFT);
        arguments.into_iter().for_each(|argument| call.push(argument));
        call
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    #[inline]
    fn push(&mut self, word: u64) {
        self.bytes[self.used..self.used + WORD_BYTES].copy_from_slice(&word.to_le_bytes());
        self.used += WORD_BYTES;
    }
}

/// Reads a call: its shape and its arguments.
///
/// # Errors
///
/// When the bytes are not those of a call.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> Result<(Shape, &[[u8; WORD_BYTES]])> {
    if let (words, []) = bytes.as_chunks::<WORD_BYTES>()
        && let [function, head, arguments @ ..] = words
    {
        let (function, head) = (u64::from_le_bytes(*function), u64::from_le_bytes(*head));
        let [count, ..] = head.to_le_bytes();
        if arguments.len() == usize::from(count) && arguments.len() <= TYPED_ARGUMENTS_MAX {
            let [.., a, b, c, d] = head.to_le_bytes();
            let shape = Shape {
                function: ExecutorAddr::new(function),
                floats: u32::from_le_bytes([a, b, c, d]),
                returns_float: head & RETURNS_FLOAT != 0,
            };
            return Ok((shape, arguments));
        }
    }
    Err(Error::invalid(format!("{} bytes that are no call of a C function", bytes.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let shape =
            Shape { function: ExecutorAddr::new(0x7000_0000), floats: 0b1010, returns_float: true };
        let call = TypedCall::new(shape, [1, 2, u64::MAX, 4]);
        assert_eq!(call.bytes().len(), 48, "a line of a lane");
        let (read_shape, arguments) = read(call.bytes()).expect("a call");
        assert_eq!(read_shape, shape);
        let arguments: Vec<_> = arguments.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(arguments, [1, 2, u64::MAX, 4]);
        let most = TypedCall::new(shape, [7; TYPED_ARGUMENTS_MAX]);
        assert_eq!(read(most.bytes()).expect("a call").1.len(), TYPED_ARGUMENTS_MAX);
    }

    #[test]
    fn other_bytes_are_refused() {
        let shape = Shape { function: ExecutorAddr::new(1), floats: 0, returns_float: false };
        let call = TypedCall::new(shape, [1, 2]);
        for end in 0..call.bytes().len() {
            assert!(read(&call.bytes()[..end]).is_err(), "{end}");
        }
        let many = [&call.bytes()[..8], &200_u64.to_le_bytes(), &[0; 1600]].concat();
        assert!(read(&many).expect_err("too many").to_string().contains("1616 bytes"));
    }
}
