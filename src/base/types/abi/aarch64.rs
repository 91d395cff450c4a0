//! The calling convention of 64-bit Arm (AAPCS64): numbers and vectors. Structures by value are not placed yet.

use super::{Piece, Place, Plan, RESULT_WORDS_MAX, Taken, eightbytes};
use crate::types::layout::Type;

/// The number of registers for integers and pointers: `x0` to `x7`.
pub const INTEGERS: usize = 8;
/// The number of registers for floating-point numbers: `v0` to `v7`.
pub const FLOATS: usize = 8;
/// The words of the result registers: `x0`, `x1`, both halves of `v0`.
pub const RESULT_WORDS: usize = 4;
/// The numbers of `x0` and `v0` among them, from 1.
pub const INTEGER_RESULT: u8 = 1;
pub const FLOAT_RESULT: u8 = 3;

/// Places arguments and a result.
pub(super) fn place(parameters: &[Type], result: Option<&Type>) -> Result<Plan, String> {
    let mut taken = Taken::NONE;
    if let Some(kind) = parameters.iter().chain(result).find(|kind| matches!(kind, Type::Struct(_)))
    {
        return Err(format!(
            "{kind} cannot be passed by value on this processor; pass its address"
        ));
    }
    let places: Vec<Vec<Place>> = parameters.iter().map(|kind| places(kind, &mut taken)).collect();
    let arguments = parameters.iter().zip(places).map(|(kind, places)| {
        eightbytes(kind.bytes(), places.into_iter().map(|place| taken.word(place)))
    });
    let arguments = arguments.collect();
    let (results, result) = place_result(result);
    Ok(Plan { shape: taken.shape(results, 0), words: taken.words(), arguments, result })
}

fn place_result(result: Option<&Type>) -> ([u8; RESULT_WORDS_MAX], Vec<Piece>) {
    match result {
        None => ([INTEGER_RESULT, 0, 0, 0], Vec::new()),
        Some(Type::V128) => ([FLOAT_RESULT, FLOAT_RESULT + 1, 0, 0], eightbytes(16, 0..2)),
        Some(kind) => {
            let register = if kind.is_float() { FLOAT_RESULT } else { INTEGER_RESULT };
            ([register, 0, 0, 0], eightbytes(kind.bytes(), 0..1))
        }
    }
}

fn places(kind: &Type, taken: &mut Taken) -> Vec<Place> {
    if *kind == Type::V128 {
        let wide = taken.wide();
        return wide.map_or_else(|| taken.on_stack(16, 16).collect(), |places| places.to_vec());
    }
    let (next, place) = taken.scalar(kind.is_float());
    *taken = next;
    vec![place]
}
