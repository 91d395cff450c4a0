//! A call of a C function by its type, as bytes.
//!
//! ```text
//! word 0   the function's address
//! word 1   the shape of the call (`Shape`)
//! word 2.. the words: integer registers, floating-point registers, stack
//! ```
//!
//! Integers are extended to 64 bits by their sign, as every known ABI takes them. A floating-point number of 32 bits is in the
//! low half of its word. The controller places the words (`types::abi`); the executor loads them and knows no types. The result is
//! the words of its registers, or the bytes of its memory. Up to four numbers fit a lane's line.
//!
//! A call for rows begins like the call of its first row. Behind those words are as many steps, which each further row adds to the
//! words. The last word is the number of rows.
//!
//! Invariant: no more than [`TYPED_ARGUMENTS_MAX`](crate::limits::TYPED_ARGUMENTS_MAX) arguments.

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::limits::BY_VALUE_BYTES_MAX;
use crate::types::abi::{
    FLOATS, IN_MEMORY, INTEGERS, RESULT_ADDRESS_INTEGERS, RESULT_WORDS, RESULT_WORDS_MAX, Shape,
    WORD_BYTES,
};

/// The name of the wrapper function that makes such a call. It takes no SPS arguments, so it allocates nothing.
pub(crate) const TYPED_CALL: &str = "farcall_typed_call";

/// The name of the wrapper function that makes such a call for each of many rows.
pub(crate) const TYPED_ROWS: &str = "farcall_typed_rows";

/// Words in front of the arguments.
pub(crate) const HEAD_WORDS: usize = 2;
/// Bytes in front of the arguments.
pub(crate) const HEAD_BYTES: usize = HEAD_WORDS * WORD_BYTES;

/// Writes a call of numbers: the head, and each argument at its place among the words behind it.
///
/// # Panics
///
/// When there are not [`HEAD_WORDS`] and as many words as arguments.
#[inline]
pub(crate) fn write<const N: usize>(
    to: &mut [[u8; WORD_BYTES]],
    head: &[u8; HEAD_BYTES],
    arguments: [u64; N],
    places: &[u16; N],
) {
    let (heads, words) = to.split_at_mut(HEAD_WORDS);
    heads.as_flattened_mut().copy_from_slice(head);
    for (argument, place) in arguments.into_iter().zip(places) {
        words[usize::from(*place)] = argument.to_le_bytes();
    }
}

/// What is in front of the arguments in all calls of a function.
pub(crate) fn head(function: ExecutorAddr, shape: Shape) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..WORD_BYTES].copy_from_slice(&function.get().to_le_bytes());
    head[WORD_BYTES..].copy_from_slice(&shape.word().to_le_bytes());
    head
}

/// Reads a call: its function, its shape, and the words for registers and stack.
///
/// # Errors
///
/// When the bytes are not those of a call.
#[inline]
pub(crate) fn read(bytes: &[u8]) -> Result<(ExecutorAddr, Shape, &[[u8; WORD_BYTES]])> {
    if let Some((function, shape, words)) = split_head(bytes)
        && is_sound(shape, words.len())
    {
        return Ok((function, shape, words));
    }
    Err(Error::invalid(format!("{} bytes that are no call of a C function", bytes.len())))
}

/// A call for each of many rows.
#[derive(Debug)]
pub(crate) struct CallForRows<'a> {
    pub(crate) function: ExecutorAddr,
    pub(crate) shape: Shape,
    /// The words of the first row.
    pub(crate) first: &'a [[u8; WORD_BYTES]],
    /// What each further row adds to them.
    pub(crate) steps: &'a [[u8; WORD_BYTES]],
    pub(crate) rows: u64,
}

impl CallForRows<'_> {
    /// Passes the words of each row to `each`, one row after the other, and stops at the first error.
    ///
    /// # Errors
    ///
    /// That of `each`, with the row's number.
    pub(crate) fn for_each<E>(
        &self,
        mut each: impl FnMut(&[[u8; WORD_BYTES]]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), (u64, E)> {
        let mut words = self.first.to_vec();
        for row in 0..self.rows {
            each(&words).map_err(|error| (row, error))?;
            for (word, step) in words.iter_mut().zip(self.steps) {
                let next = u64::from_le_bytes(*word).wrapping_add(u64::from_le_bytes(*step));
                *word = next.to_le_bytes();
            }
        }
        Ok(())
    }
}

/// Reads a call for rows.
///
/// # Errors
///
/// When the bytes are not those of such a call.
pub(crate) fn read_rows(bytes: &[u8]) -> Result<CallForRows<'_>> {
    if let Some((function, shape, [words @ .., rows])) = split_head(bytes)
        && words.len().is_multiple_of(2)
        && is_sound(shape, words.len() / 2)
    {
        let (first, steps) = words.split_at(words.len() / 2);
        return Ok(CallForRows { function, shape, first, steps, rows: u64::from_le_bytes(*rows) });
    }
    Err(Error::invalid(format!("{} bytes that are no call for rows", bytes.len())))
}

/// The function, the shape, and the words behind them, which are not judged.
#[inline]
pub(crate) fn split_head(bytes: &[u8]) -> Option<(ExecutorAddr, Shape, &[[u8; WORD_BYTES]])> {
    let (words, []) = bytes.as_chunks::<WORD_BYTES>() else { return None };
    let [function, shape, words @ ..] = words else { return None };
    let shape = Shape::from_word(u64::from_le_bytes(*shape));
    Some((ExecutorAddr::new(u64::from_le_bytes(*function)), shape, words))
}

/// Whether the registers exist, and the words are neither too few nor too many.
#[inline]
fn is_sound(shape: Shape, words: usize) -> bool {
    let registers = shape.integers() <= INTEGERS && shape.floats() <= FLOATS;
    if shape.scalar().is_some() && words == shape.integers() + shape.floats() {
        return registers;
    }
    let [first, rest @ ..] = shape.results();
    let is_register = |result: u8| usize::from(result) <= RESULT_WORDS;
    let stack = words.checked_sub(shape.register_words());
    registers
        && u32::from(shape.wide()) >> shape.floats() == 0
        && (first == IN_MEMORY && shape.integers().checked_sub(RESULT_ADDRESS_INTEGERS).is_some()
            || first > 0 && is_register(first))
        && rest.into_iter().all(is_register)
        && usize::from(shape.result_bytes()) <= BY_VALUE_BYTES_MAX
        && stack.is_some_and(|words| words * WORD_BYTES <= BY_VALUE_BYTES_MAX)
}

const _: () = assert!(RESULT_WORDS < IN_MEMORY as usize && RESULT_WORDS_MAX == 4);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::TYPED_ARGUMENTS_MAX;
    use crate::types::abi::scalars;

    fn written<const N: usize>(
        function: ExecutorAddr,
        shape: Shape,
        arguments: [u64; N],
        places: &[u16; N],
    ) -> Vec<u8> {
        let mut words = vec![[0; WORD_BYTES]; HEAD_WORDS + N];
        write(&mut words, &head(function, shape), arguments, places);
        words.into_flattened()
    }

    #[test]
    fn what_is_written_is_read() {
        let function = ExecutorAddr::new(0x7000_0000);
        let (shape, places) = scalars([false, true, false, true], true);
        let call = written(function, shape, [1, 2, u64::MAX, 4], &places);
        assert_eq!(call.len(), 48, "a line of a lane");
        let (read_function, read_shape, words) = read(&call).expect("a call");
        assert_eq!((read_function, read_shape), (function, shape));
        let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        assert_eq!(words, [1, u64::MAX, 2, 4], "integers, then the others");
        let (shape, places) = scalars([false; TYPED_ARGUMENTS_MAX], false);
        let most = written(function, shape, [7; TYPED_ARGUMENTS_MAX], &places);
        assert_eq!(read(&most).expect("a call").2.len(), TYPED_ARGUMENTS_MAX);
    }

    #[test]
    fn rows_add_their_steps_to_the_words() {
        let (shape, places) = scalars([false, true], false);
        let call = written(ExecutorAddr::new(64), shape, [7, 5], &places);
        let [step, none, rows] = [8_i64, 0, 3].map(i64::to_le_bytes);
        let message = [&call[..], &step, &none, &rows].concat();
        let mut seen = Vec::new();
        let each = |words: &[[u8; 8]]| {
            seen.push(words.iter().map(|word| u64::from_le_bytes(*word)).collect::<Vec<_>>());
            if seen.len() < 3 { Ok(()) } else { Err("enough") }
        };
        let call = read_rows(&message).expect("a call for rows");
        assert_eq!(call.for_each(each), Err((2, "enough")), "the row's number");
        assert_eq!(seen, [[7, 5], [15, 5], [23, 5]]);
        for end in 0..message.len() {
            assert!(read_rows(&message[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        let (shape, places) = scalars([false; 2], false);
        let call = written(ExecutorAddr::new(1), shape, [1, 2], &places);
        for end in 0..call.len() {
            assert!(read(&call[..end]).is_err(), "{end}");
        }
        let many = [&call[..], &[0; BY_VALUE_BYTES_MAX + 8]].concat();
        assert!(read(&many).expect_err("too many").to_string().contains("4136 bytes"));
        let whole = [&call[..], &[0; BY_VALUE_BYTES_MAX]].concat();
        assert!(read(&whole).is_ok());
        // One field of the shape after the other that no processor has.
        for (at, value) in [(0, 9), (1, 9), (2, 0xff), (3, 0), (3, 0x9e), (4, 0xe1), (7, 0xff)] {
            let mut bytes = whole.clone();
            bytes[8 + at] = value;
            assert!(read(&bytes).is_err(), "{at}: {value}");
        }
    }
}
