//! Which register or stack slot holds which part of an argument or a result.
//!
//! A call is *placed* once, from its types. Then its arguments are words in the order in which the executor loads them: integer
//! registers, floating-point registers, stack. The executor knows no types.
//!
//! Invariant: a file for each processor, behind [`place`] and [`scalars`]; no other file of the library knows a calling convention.

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
mod native;
mod shape;

pub use native::{
    FLOAT_RESULT, FLOATS, INTEGER_RESULT, INTEGERS, RESULT_ADDRESS_INTEGERS, RESULT_WORDS,
};
pub use shape::{IN_MEMORY, Shape};

use super::layout::Type;
use super::signature::Signature;
use crate::error::{Error, Result};
use crate::limits::{BY_VALUE_BYTES_MAX, TYPED_ARGUMENTS_MAX};

/// Bytes of a word of a call.
pub const WORD_BYTES: usize = 8;
/// Words of a result that comes in registers.
pub const RESULT_WORDS_MAX: usize = 4;
/// Where a word of an argument goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Integer(u8),
    Float(u8),
    /// The upper half of a floating-point register.
    Upper(u8),
    Stack(u16),
}

/// A part of a value that is one word of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it starts in the value, and its size, up to [`WORD_BYTES`].
    pub offset: u16,
    pub bytes: u8,
    /// The number of the word.
    pub word: u16,
}

/// A function's calls, placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub shape: Shape,
    /// Words of a call.
    pub words: usize,
    /// The pieces of each argument.
    pub arguments: Vec<Vec<Piece>>,
    /// The pieces of a result in registers; the words are the answer's.
    pub result: Vec<Piece>,
}

/// Which register numbers are taken while a call is placed.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    integers: u8,
    floats: u8,
    wide: u8,
    stack: u16,
}

impl Taken {
    const NONE: Taken = Taken { integers: 0, floats: 0, wide: 0, stack: 0 };

    /// A place for an integer, a pointer, or a floating-point number.
    const fn scalar(mut self, is_float: bool) -> (Taken, Place) {
        let place = if is_float && (self.floats as usize) < FLOATS {
            self.floats += 1;
            Place::Float(self.floats - 1)
        } else if !is_float && (self.integers as usize) < INTEGERS {
            self.integers += 1;
            Place::Integer(self.integers - 1)
        } else {
            self.stack += 1;
            Place::Stack(self.stack - 1)
        };
        (self, place)
    }

    /// The next two words of one floating-point register, if one is free.
    fn wide(&mut self) -> Option<[Place; 2]> {
        let register = self.floats;
        if usize::from(register) == FLOATS {
            return None;
        }
        self.floats += 1;
        self.wide |= 1 << register;
        Some([Place::Float(register), Place::Upper(register)])
    }

    /// Words of the stack for a value of this size and alignment.
    fn on_stack(&mut self, bytes: usize, alignment: usize) -> impl Iterator<Item = Place> + use<> {
        if alignment > WORD_BYTES {
            self.stack = self.stack.next_multiple_of(2);
        }
        let first = self.stack;
        // A value is at most BY_VALUE_BYTES_MAX bytes long, and there are few values.
        self.stack += u16::try_from(bytes.div_ceil(WORD_BYTES)).unwrap_or(u16::MAX / 32);
        (first..self.stack).map(Place::Stack)
    }

    /// The number of a place's word.
    const fn word(self, place: Place) -> u16 {
        match place {
            Place::Integer(at) => at as u16,
            Place::Float(at) => self.float_word(at),
            Place::Upper(at) => self.float_word(at) + 1,
            Place::Stack(at) => self.float_word(self.floats) + at,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a byte has at most 8 ones")]
    const fn float_word(self, register: u8) -> u16 {
        let wide_below = (self.wide as u16 & ((1 << register) - 1)).count_ones();
        self.integers as u16 + register as u16 + wide_below as u16
    }

    const fn words(self) -> usize {
        self.float_word(self.floats) as usize + self.stack as usize
    }
}

/// The shape of a call of numbers, and the word of each.
pub const fn scalars<const N: usize>(floats: [bool; N], returns_float: bool) -> (Shape, [u16; N]) {
    let (mut taken, mut at) = (Taken::NONE, 0);
    let mut places = [Place::Stack(0); N];
    while at < N {
        (taken, places[at]) = taken.scalar(floats[at]);
        at += 1;
    }
    let mut words = [0; N];
    at = 0;
    while at < N {
        words[at] = taken.word(places[at]);
        at += 1;
    }
    let result = if returns_float { native::FLOAT_RESULT } else { native::INTEGER_RESULT };
    (taken.shape([result, 0, 0, 0], 0), words)
}

impl Taken {
    const fn shape(self, results: [u8; RESULT_WORDS_MAX], result_bytes: u16) -> Shape {
        let Taken { integers, floats, wide, .. } = self;
        Shape::new(integers, floats, wide, results, result_bytes)
    }
}

/// Places the calls of a function.
///
/// # Errors
///
/// When C has no such function, or it has more arguments or larger structures than calls may have.
pub fn place(signature: &Signature) -> Result<Plan> {
    let refuse = |why: String| Err(Error::invalid(format!("{signature}: {why}")));
    let parameters = signature.parameters();
    if parameters.len() > TYPED_ARGUMENTS_MAX {
        let given = parameters.len();
        return refuse(format!("{given} parameters; a call has at most {TYPED_ARGUMENTS_MAX}"));
    }
    for kind in parameters.iter().chain(signature.result()) {
        let bytes = kind.bytes();
        if matches!(kind, Type::Array(..)) {
            return refuse(format!("{kind} is a field's type; pass an array by its address"));
        }
        if !kind.is_whole() {
            return refuse(format!("{kind} has no size"));
        }
        if bytes > BY_VALUE_BYTES_MAX {
            return refuse(format!(
                "{kind} has {bytes} bytes; at most {BY_VALUE_BYTES_MAX} are passed by value, more by their address"
            ));
        }
    }
    let plan = native::place(parameters, signature.result()).or_else(refuse)?;
    let stack = (plan.words - plan.shape.register_words()) * WORD_BYTES;
    if stack > BY_VALUE_BYTES_MAX {
        return refuse(format!(
            "its arguments take {stack} bytes; at most {BY_VALUE_BYTES_MAX} are passed on the stack"
        ));
    }
    Ok(plan)
}

/// The pieces of a value of `bytes` bytes, one for each word.
#[expect(clippy::cast_possible_truncation, reason = "the caller has checked the size")]
fn eightbytes(bytes: usize, words: impl Iterator<Item = u16>) -> Vec<Piece> {
    let piece = |(at, word): (usize, u16)| {
        let offset = at * WORD_BYTES;
        let bytes = (bytes - offset).min(WORD_BYTES);
        Piece { offset: offset as u16, bytes: bytes as u8, word }
    };
    words.enumerate().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Signature;

    /// Where the values of a call go.
    pub(super) fn plan(prototype: &str) -> Plan {
        let signature = prototype.parse::<Signature>().expect("a prototype");
        place(&signature).expect("it can be called")
    }

    /// The words of each argument.
    pub(super) fn words(plan: &Plan) -> Vec<Vec<u16>> {
        let words = |pieces: &Vec<_>| pieces.iter().map(|one: &Piece| one.word).collect();
        plan.arguments.iter().map(words).collect()
    }

    #[test]
    fn numbers_go_to_the_registers_of_their_kind() {
        let plan = plan("double f(int, double, char *, float)");
        assert_eq!(words(&plan), [[0], [2], [1], [3]]);
        assert_eq!((plan.shape.integers(), plan.shape.floats(), plan.words), (2, 2, 4));
        assert_eq!(plan.shape.results(), [FLOAT_RESULT, 0, 0, 0]);
    }
}
