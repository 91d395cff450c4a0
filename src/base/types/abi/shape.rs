//! The shape of a call: what the executor must know of it besides its words, in one word of its own.
//!
//! | bits | |
//! |---|---|
//! | 7..0 | words for the integer registers, from the first one on |
//! | 15..8 | floating-point registers in use, from the first one on |
//! | 23..16 | a bit for each floating-point register that takes two words, the first in bit 16 |
//! | 39..24 | four numbers of 4 bits, from 1: the words of result registers that make the result, in order, then zeros |
//! | 63..48 | bytes of a result in memory, whose first number is [`IN_MEMORY`] |

use super::{FLOAT_RESULT, INTEGER_RESULT, RESULT_WORDS_MAX};

/// In place of a register's number: the result is stored to memory, whose address the callee gets.
pub const IN_MEMORY: u8 = 15;

/// The shape of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape(u64);

impl Shape {
    pub const fn new(
        integers: u8,
        floats: u8,
        wide: u8,
        results: [u8; RESULT_WORDS_MAX],
        result_bytes: u16,
    ) -> Self {
        let [a, b, c, d] = results;
        let [low, high] = result_bytes.to_le_bytes();
        let bytes = [integers, floats, wide, a | b << 4, c | d << 4, 0, low, high];
        Self(u64::from_le_bytes(bytes))
    }

    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub const fn word(self) -> u64 {
        self.0
    }

    pub const fn integers(self) -> usize {
        self.0.to_le_bytes()[0] as usize
    }

    pub const fn floats(self) -> usize {
        self.0.to_le_bytes()[1] as usize
    }

    /// The bits of the registers that take two words.
    pub const fn wide(self) -> u8 {
        self.0.to_le_bytes()[2]
    }

    pub const fn results(self) -> [u8; RESULT_WORDS_MAX] {
        let [_, _, _, ab, cd, ..] = self.0.to_le_bytes();
        [ab & 15, ab >> 4, cd & 15, cd >> 4]
    }

    pub const fn result_bytes(self) -> u16 {
        let [.., low, high] = self.0.to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    /// Words of a call that go to registers.
    pub const fn register_words(self) -> usize {
        self.integers() + self.floats() + self.wide().count_ones() as usize
    }

    /// The numbers of integer and floating-point registers in use, as bits 15..0.
    pub const fn counts(self) -> usize {
        self.integers() | self.floats() << 8
    }

    /// Whether no register takes two words, and the result is the first register of a kind: true for a floating-point number. Most
    /// calls are so. `None` for others.
    #[inline]
    pub const fn scalar(self) -> Option<bool> {
        const INTEGER: u64 = (INTEGER_RESULT as u64) << 8;
        const FLOAT: u64 = (FLOAT_RESULT as u64) << 8;
        match self.0 >> 16 {
            INTEGER => Some(false),
            FLOAT => Some(true),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_shapes_are_unpacked() {
        let shape = Shape::new(6, 8, 0b1000_0001, [1, 3, 2, 4], 4096);
        let again = Shape::from_word(shape.word());
        assert_eq!((again.integers(), again.floats(), again.wide()), (6, 8, 0b1000_0001));
        assert_eq!((again.results(), again.result_bytes()), ([1, 3, 2, 4], 4096));
        assert_eq!((again.register_words(), again.counts()), (16, 0x0806));
    }

    #[test]
    fn a_scalar_call_has_one_result_and_no_wide_register() {
        let shape = |wide, results, bytes| Shape::new(2, 1, wide, results, bytes).scalar();
        assert_eq!(shape(0, [INTEGER_RESULT, 0, 0, 0], 0), Some(false));
        assert_eq!(shape(0, [FLOAT_RESULT, 0, 0, 0], 0), Some(true));
        assert_eq!(shape(1, [FLOAT_RESULT, 0, 0, 0], 0), None);
        assert_eq!(shape(0, [INTEGER_RESULT, FLOAT_RESULT, 0, 0], 0), None);
        assert_eq!(shape(0, [IN_MEMORY, 0, 0, 0], 24), None);
        assert_eq!(shape(0, [0; 4], 0), None);
    }
}
