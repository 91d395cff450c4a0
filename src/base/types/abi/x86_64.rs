//! The System V calling convention of x86-64 ([psABI](https://gitlab.com/x86-psABIs/x86-64-ABI), "Parameter Passing").
//!
//! Each eight bytes of a value have a class. A value goes to registers of its classes if there are enough for all of it, else to the
//! stack. A structure of more than 16 bytes goes to the stack, and a result of that size to memory of the caller.

use super::{IN_MEMORY, Piece, Place, Plan, RESULT_WORDS_MAX, Taken, WORD_BYTES, eightbytes};
use crate::types::layout::Type;

/// The number of registers for integers and pointers: `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`.
pub const INTEGERS: usize = 6;
/// The number of registers for floating-point numbers: `xmm0` to `xmm7`.
pub const FLOATS: usize = 8;
/// The words of the result registers: `rax`, `rdx`, both halves of `xmm0`, both of `xmm1`.
pub const RESULT_WORDS: usize = 6;
/// The numbers of `rax` and `xmm0` among them, from 1.
pub const INTEGER_RESULT: u8 = 1;
pub const FLOAT_RESULT: u8 = 3;
/// The integer registers that the address of a result in memory takes.
pub const RESULT_ADDRESS_INTEGERS: usize = 1;

/// The largest structure in registers.
const IN_REGISTERS_BYTES_MAX: usize = 16;

/// The class of eight bytes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Integer,
    Sse,
    /// The upper half of a vector.
    SseUp,
}

/// Places arguments and a result.
pub(super) fn place(parameters: &[Type], result: Option<&Type>) -> Result<Plan, String> {
    let mut taken = Taken::NONE;
    let (results, result_bytes, result) = place_result(result, &mut taken);
    let places: Vec<Vec<Place>> = parameters.iter().map(|kind| places(kind, &mut taken)).collect();
    let arguments = parameters.iter().zip(places).map(|(kind, places)| {
        eightbytes(kind.bytes(), places.into_iter().map(|place| taken.word(place)))
    });
    let arguments = arguments.collect();
    let shape = taken.shape(results, result_bytes);
    Ok(Plan { shape, words: taken.words(), arguments, result })
}

/// The registers of a result, its bytes if it is in memory, and its pieces. A result in memory takes an argument: its address.
fn place_result(result: Option<&Type>, taken: &mut Taken) -> ([u8; 4], u16, Vec<Piece>) {
    let mut results = [0; RESULT_WORDS_MAX];
    let Some(kind) = result else { return ([INTEGER_RESULT, 0, 0, 0], 0, Vec::new()) };
    let Some(classes) = classes(kind) else {
        results[0] = IN_MEMORY;
        *taken = taken.scalar(false).0;
        // Checked by the caller to be much less than 64 KiB.
        let bytes = u16::try_from(kind.bytes()).unwrap_or(u16::MAX);
        return (results, bytes, Vec::new());
    };
    let (mut integer, mut float) = (INTEGER_RESULT, FLOAT_RESULT);
    for (to, class) in results.iter_mut().zip(&classes) {
        *to = match class {
            Class::Integer => {
                integer += 1;
                integer - 1
            }
            Class::Sse => {
                float += 2;
                float - 2
            }
            Class::SseUp => float - 1,
        };
    }
    (results, 0, eightbytes(kind.bytes(), (0..).take(classes.len())))
}

/// The places of one argument.
fn places(kind: &Type, taken: &mut Taken) -> Vec<Place> {
    let classes = classes(kind);
    if let Some(places) = classes.and_then(|classes| in_registers(&classes, taken)) {
        return places;
    }
    taken.on_stack(kind.bytes(), kind.alignment()).collect()
}

/// Registers for all of an argument, unless one is missing.
fn in_registers(classes: &[Class], taken: &mut Taken) -> Option<Vec<Place>> {
    let mut after = *taken;
    let mut places = Vec::with_capacity(classes.len());
    for (at, class) in classes.iter().enumerate() {
        match class {
            Class::SseUp => {}
            Class::Sse if classes.get(at + 1) == Some(&Class::SseUp) => {
                places.extend(after.wide()?)
            }
            one => {
                let (next, place) = after.scalar(*one == Class::Sse);
                if let Place::Stack(_) = place {
                    return None;
                }
                after = next;
                places.push(place);
            }
        }
    }
    *taken = after;
    Some(places)
}

/// The classes of a value's eight bytes; `None` for one in memory.
fn classes(kind: &Type) -> Option<Vec<Class>> {
    let bytes = kind.bytes();
    if bytes > IN_REGISTERS_BYTES_MAX {
        return None;
    }
    let mut classes = vec![Class::Sse; bytes.div_ceil(WORD_BYTES)];
    kind.each_number(0, &mut |number, offset| {
        let at = offset / WORD_BYTES;
        match number {
            Type::V128 => classes[at + 1] = Class::SseUp,
            number if number.is_float() => {}
            _ => classes[at] = Class::Integer,
        }
        true
    });
    Some(classes)
}

#[cfg(test)]
mod tests {
    use crate::types::Declarations;
    use crate::types::abi::place;
    use crate::types::abi::tests::{plan, words};

    #[test]
    fn a_structure_is_split_or_goes_to_the_stack_as_a_whole() {
        // As the psABI's example: a structure of an int and a double is in one register of each kind.
        let plan = plan("struct { long a; double b; } f(struct { int a, b; double c; })");
        assert_eq!(words(&plan), [[0, 1]]);
        assert_eq!(plan.shape.results(), [1, 3, 0, 0]);
        let plan = self::plan("void f(long, long, long, long, long, struct { long a, b; }, long)");
        // One register is left, which the structure leaves to the next argument.
        assert_eq!(words(&plan)[5..], [vec![6, 7], vec![5]]);
        let large = self::plan("struct { long a[3]; } f(int, struct { char a[17]; })");
        assert_eq!((large.shape.results()[0], large.shape.result_bytes()), (15, 24));
        assert_eq!(words(&large), [vec![1], vec![2, 3, 4]]);
    }

    #[test]
    fn vectors_take_one_register_and_aligned_stack() {
        let plan = plan("__m128 f(__m128, double, struct { __m128 v; })");
        assert_eq!(words(&plan), [vec![0, 1], vec![2], vec![3, 4]]);
        assert_eq!((plan.shape.floats(), plan.shape.wide()), (3, 0b101));
        assert_eq!(plan.shape.results(), [3, 4, 0, 0]);
        let nine = "void f(__m128, __m128, __m128, __m128, __m128, __m128, __m128, __m128, double, __m128)";
        let nine = self::plan(nine);
        assert_eq!(words(&nine)[8..], [vec![16], vec![18, 19]]);
    }

    #[test]
    fn types_that_c_cannot_pass_are_refused() {
        let refused = |prototype: &str| {
            let signature = Declarations::new().signature(prototype).expect("a prototype");
            place(&signature).expect_err(prototype).to_string()
        };
        let long = format!("void f({})", vec!["int"; 17].join(", "));
        assert!(refused(&long).contains("17 parameters; a call has at most 16"));
        assert!(refused("void f(struct { char a[4097]; })").contains("4097 bytes"));
        let two = "void f(struct { char a[4000]; }, struct { char a[4000]; })";
        assert!(refused(two).contains("at most 4096 are passed on the stack"), "{}", refused(two));
    }
}
