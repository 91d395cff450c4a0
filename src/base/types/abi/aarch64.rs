//! The calling convention of 64-bit Arm ([AAPCS64](https://github.com/ARM-software/abi-aa), "Parameter passing").
//!
//! A structure of at most four numbers of one floating-point type, or vectors, has a register for each (a homogeneous aggregate).
//! Others of up to 16 bytes are words of integer registers. A value goes to the stack as a whole if there are too few registers, and
//! no later value of its kind gets one. A larger structure is passed by its address, which callers must do themselves; a result of
//! that size goes to memory of the caller.

use super::{IN_MEMORY, Piece, Place, Plan, RESULT_WORDS_MAX, Taken, WORD_BYTES, eightbytes};
use crate::types::layout::Type;

/// The number of registers for integers and pointers: `x0` to `x7`.
pub const INTEGERS: usize = 8;
/// The number of registers for floating-point numbers: `v0` to `v7`.
pub const FLOATS: usize = 8;
/// The words of the result registers: `x0`, `x1`, both halves of `v0` to `v3`.
pub const RESULT_WORDS: usize = 10;
/// The numbers of `x0` and `v0` among them, from 1.
pub const INTEGER_RESULT: u8 = 1;
pub const FLOAT_RESULT: u8 = 3;
/// The integer registers that the address of a result in memory takes; it has one of its own, `x8`.
pub const RESULT_ADDRESS_INTEGERS: usize = 0;

/// The largest structure in integer registers.
const IN_INTEGERS_BYTES_MAX: usize = 16;
/// The most members of a homogeneous aggregate.
const MEMBERS_MAX: usize = 4;

/// A part of a value: where it starts there, its size, and where it goes.
type Part = (usize, usize, Place);

/// Places arguments and a result.
pub(super) fn place(parameters: &[Type], result: Option<&Type>) -> Result<Plan, String> {
    let mut taken = Taken::NONE;
    let (results, result_bytes, result) = place_result(result)?;
    let parts: Vec<Vec<Part>> =
        parameters.iter().map(|kind| parts(kind, &mut taken)).collect::<Result<_, _>>()?;
    let piece = |(offset, bytes, place)| piece(offset, bytes, taken.word(place));
    let arguments = parts.into_iter().map(|parts| parts.into_iter().map(piece).collect());
    let arguments = arguments.collect();
    Ok(Plan { shape: taken.shape(results, result_bytes), words: taken.words(), arguments, result })
}

fn place_result(result: Option<&Type>) -> Result<([u8; 4], u16, Vec<Piece>), String> {
    let mut results = [0; RESULT_WORDS_MAX];
    let Some(kind) = result else { return Ok(([INTEGER_RESULT, 0, 0, 0], 0, Vec::new())) };
    if let Some(members) = members(kind) {
        let mut pieces = Vec::new();
        let registers = (FLOAT_RESULT..).step_by(2).zip(&members);
        for (register, (offset, bytes)) in registers {
            for (half, number) in (0..bytes.div_ceil(WORD_BYTES)).zip(register..) {
                let to = results.get_mut(pieces.len()).ok_or_else(|| {
                    format!("{kind} is a result of more than {RESULT_WORDS_MAX} words; return it by an address")
                })?;
                *to = number;
                let start = half * WORD_BYTES;
                let part = (bytes - start).min(WORD_BYTES);
                pieces.push(piece(offset + start, part, word(pieces.len())));
            }
        }
        return Ok((results, 0, pieces));
    }
    if kind.bytes() > IN_INTEGERS_BYTES_MAX {
        results[0] = IN_MEMORY;
        // Checked by the caller to be much less than 64 KiB.
        return Ok((results, u16::try_from(kind.bytes()).unwrap_or(u16::MAX), Vec::new()));
    }
    let pieces = eightbytes(kind.bytes(), 0..word(kind.bytes().div_ceil(WORD_BYTES)));
    for (to, number) in results.iter_mut().zip(INTEGER_RESULT..).take(pieces.len()) {
        *to = number;
    }
    Ok((results, 0, pieces))
}

/// The parts of one argument.
fn parts(kind: &Type, taken: &mut Taken) -> Result<Vec<Part>, String> {
    if let Some(members) = members(kind) {
        let mut after = *taken;
        let places: Option<Vec<Vec<Part>>> =
            members.iter().map(|member| in_float(*member, &mut after)).collect();
        if let Some(places) = places {
            *taken = after;
            return Ok(places.concat());
        }
        taken.floats = count(FLOATS);
        return Ok(on_stack(kind, taken));
    }
    if kind.bytes() > IN_INTEGERS_BYTES_MAX {
        let bytes = kind.bytes();
        return Err(format!(
            "{kind} has {bytes} bytes, and this processor's calls pass the address of such a structure; declare a pointer to it"
        ));
    }
    let words = kind.bytes().div_ceil(WORD_BYTES);
    if kind.alignment() > WORD_BYTES {
        taken.integers = taken.integers.next_multiple_of(2);
    }
    if usize::from(taken.integers) + words > INTEGERS {
        taken.integers = count(INTEGERS);
        return Ok(on_stack(kind, taken));
    }
    let first = taken.integers;
    taken.integers += count(words);
    Ok(of_words(kind, (first..taken.integers).map(Place::Integer)))
}

/// The floating-point register of a member, if one is free.
fn in_float((offset, bytes): (usize, usize), taken: &mut Taken) -> Option<Vec<Part>> {
    if bytes > WORD_BYTES {
        let halves = taken.wide()?;
        return Some(vec![
            (offset, WORD_BYTES, halves[0]),
            (offset + WORD_BYTES, WORD_BYTES, halves[1]),
        ]);
    }
    let (next, place) = taken.scalar(true);
    *taken = next;
    matches!(place, Place::Float(_)).then(|| vec![(offset, bytes, place)])
}

fn on_stack(kind: &Type, taken: &mut Taken) -> Vec<Part> {
    of_words(kind, taken.on_stack(kind.bytes(), kind.alignment()))
}

fn of_words(kind: &Type, places: impl Iterator<Item = Place>) -> Vec<Part> {
    let part = |(at, place): (usize, Place)| {
        let offset = at * WORD_BYTES;
        (offset, (kind.bytes() - offset).min(WORD_BYTES), place)
    };
    places.enumerate().map(part).collect()
}

/// The offsets and sizes of what goes to a floating-point register each; `None` if something goes elsewhere.
fn members(kind: &Type) -> Option<Vec<(usize, usize)>> {
    let mut members: Vec<(usize, usize)> = Vec::new();
    let mut first: Option<Type> = None;
    let is_alike = kind.each_number(0, &mut |number, offset| {
        let is_one = number.is_float() || *number == Type::V128;
        let is_alike = first.get_or_insert_with(|| number.clone()) == number;
        members.push((offset, number.bytes()));
        is_one && is_alike && members.len() <= MEMBERS_MAX
    });
    (is_alike && !members.is_empty()).then_some(members)
}

fn piece(offset: usize, bytes: usize, word: u16) -> Piece {
    let small = |number| u16::try_from(number).unwrap_or(u16::MAX);
    Piece { offset: small(offset), bytes: count(bytes), word }
}

/// A number of registers, or of bytes of a word.
fn count(number: usize) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// The number of a word of a result.
fn word(number: usize) -> u16 {
    u16::from(count(number))
}

#[cfg(test)]
mod tests {
    use crate::types::Signature;
    use crate::types::abi::place;
    use crate::types::abi::tests::{plan, words};

    #[test]
    fn a_homogeneous_aggregate_has_a_register_for_each_member() {
        let plan =
            plan("struct { float a, b, c; } f(struct { double a[2]; }, int, struct { float x; })");
        assert_eq!(words(&plan), [vec![1, 2], vec![0], vec![3]]);
        assert_eq!((plan.shape.floats(), plan.shape.results()), (3, [3, 5, 7, 0]));
        let offsets: Vec<u16> = plan.result.iter().map(|piece| piece.offset).collect();
        assert_eq!((offsets, plan.result[1].bytes), (vec![0, 4, 8], 4));
        // It goes to the stack as a whole, and the number behind it, too.
        let full = "void f(double, double, double, double, double, double, struct { double a, b, c; }, double)";
        let full = self::plan(full);
        assert_eq!(words(&full)[6..], [vec![8, 9, 10], vec![11]]);
        let vectors = self::plan("struct { __m128 a, b; } f(struct { __m128 a, b; })");
        assert_eq!(
            (words(&vectors), vectors.shape.results()),
            (vec![vec![0, 1, 2, 3]], [3, 4, 5, 6])
        );
    }

    #[test]
    fn other_structures_are_words_or_in_memory() {
        let plan = plan("struct { long a; double b; } f(struct { int a, b; double c; }, int)");
        assert_eq!((words(&plan), plan.shape.results()), (vec![vec![0, 1], vec![2]], [1, 2, 0, 0]));
        let full = "void f(long, long, long, long, long, long, long, struct { long a, b; }, long)";
        assert_eq!(words(&self::plan(full))[7..], [vec![8, 9], vec![10]]);
        let large = self::plan("struct { long a[3]; } f(int)");
        assert_eq!((large.shape.results()[0], large.shape.result_bytes()), (15, 24));
        assert_eq!((words(&large), large.shape.integers()), (vec![vec![0]], 1));
        let signature = "void f(struct { long a[3]; })".parse::<Signature>().expect("a prototype");
        let refused = place(&signature).expect_err("by its address").to_string();
        assert!(refused.contains("24 bytes") && refused.contains("declare a pointer"), "{refused}");
    }
}
