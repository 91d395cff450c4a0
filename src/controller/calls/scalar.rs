//! Numbers of C as words of a call.

use crate::ExecutorAddr;
use crate::types::Type;

/// A number that a C function takes or returns: an integer, a floating-point number, `bool`, or a pointer of the executor, which is
/// an [`ExecutorAddr`].
///
/// # Examples
///
/// ```
/// use farcall::controller::Function;
/// use farcall::controller::calls::Scalar;
///
/// fn pass<T: Scalar>(function: &Function<extern "C" fn(T)>, value: T) -> farcall::Result<()> {
///     function.call((value,))
/// }
/// # fn is_scalar<T: Scalar>() {}
/// # is_scalar::<f64>();
/// ```
#[expect(private_bounds, reason = "the form of a number as a word is private")]
pub trait Scalar: Word {}

/// The result of a C function: a [`Scalar`], or `()` for none.
///
/// # Examples
///
/// ```
/// use farcall::controller::Function;
/// use farcall::controller::calls::Return;
///
/// fn run<R: Return>(function: &Function<extern "C" fn() -> R>) -> farcall::Result<R> {
///     function.call(())
/// }
/// # fn is_return<R: Return>() {}
/// # is_return::<()>();
/// ```
#[expect(private_bounds, reason = "the form of a number as a word is private")]
pub trait Return: FromWord {}

pub(in crate::controller) trait Word: FromWord {
    /// The value in 64 bits, sign-extended if its type is signed.
    fn to_word(self) -> u64;

    /// Its type.
    fn kind() -> Type;
}

pub(in crate::controller) trait FromWord: Sized {
    const IS_FLOAT: bool = false;

    /// The value in the low bytes of any word.
    fn from_word(word: u64) -> Self;

    /// Its type; `None` for no value.
    fn result_kind() -> Option<Type>;
}

macro_rules! integers {
    ($($kind:ty: $type:ident),*) => {$(
        impl Scalar for $kind {}
        impl Return for $kind {}

        impl Word for $kind {
            #[inline]
            #[allow(clippy::cast_lossless, reason = "the cast extends the sign")]
            fn to_word(self) -> u64 {
                self as u64
            }

            fn kind() -> Type {
                Type::$type
            }
        }

        impl FromWord for $kind {
            #[inline]
            #[allow(clippy::cast_possible_truncation, reason = "the other bits mean nothing")]
            #[allow(clippy::cast_possible_wrap, reason = "two's complement")]
            fn from_word(word: u64) -> Self {
                word as Self
            }

            fn result_kind() -> Option<Type> {
                Some(Type::$type)
            }
        }
    )*};
}

integers!(i8: I8, i16: I16, i32: I32, i64: I64, u8: U8, u16: U16, u32: U32, u64: U64);

macro_rules! floats {
    ($($kind:ty: $bits:ty, $type:ident),*) => {$(
        impl Scalar for $kind {}
        impl Return for $kind {}

        impl Word for $kind {
            #[inline]
            fn to_word(self) -> u64 {
                self.to_bits().into()
            }

            fn kind() -> Type {
                Type::$type
            }
        }

        impl FromWord for $kind {
            const IS_FLOAT: bool = true;

            #[inline]
            #[allow(clippy::cast_possible_truncation, reason = "the other bits mean nothing")]
            fn from_word(word: u64) -> Self {
                Self::from_bits(word as $bits)
            }

            fn result_kind() -> Option<Type> {
                Some(Type::$type)
            }
        }
    )*};
}

floats!(f32: u32, F32, f64: u64, F64);

impl Scalar for bool {}
impl Return for bool {}

impl Word for bool {
    #[inline]
    fn to_word(self) -> u64 {
        self.into()
    }

    fn kind() -> Type {
        Type::Bool
    }
}

impl FromWord for bool {
    #[inline]
    fn from_word(word: u64) -> Self {
        u8::from_word(word) != 0
    }

    fn result_kind() -> Option<Type> {
        Some(Type::Bool)
    }
}

impl Scalar for ExecutorAddr {}
impl Return for ExecutorAddr {}

impl Word for ExecutorAddr {
    #[inline]
    fn to_word(self) -> u64 {
        self.get()
    }

    fn kind() -> Type {
        Type::Pointer
    }
}

impl FromWord for ExecutorAddr {
    #[inline]
    fn from_word(word: u64) -> Self {
        Self::new(word)
    }

    fn result_kind() -> Option<Type> {
        Some(Type::Pointer)
    }
}

impl Return for () {}

impl FromWord for () {
    fn from_word(_word: u64) -> Self {}

    fn result_kind() -> Option<Type> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    fn round<T: Scalar + PartialEq + fmt::Debug + Copy>(values: &[(T, u64)]) {
        for (value, word) in values {
            assert_eq!(value.to_word(), *word, "{value:?}");
            assert_eq!(T::from_word(*word), *value);
        }
    }

    #[test]
    fn numbers_become_words_and_words_numbers() {
        round(&[(0_i8, 0), (-1, u64::MAX), (i8::MIN, 0xffff_ffff_ffff_ff80)]);
        round(&[(u8::MAX, 0xff), (0x80, 0x80)]);
        round(&[(i16::MIN, 0xffff_ffff_ffff_8000), (1, 1)]);
        round(&[(i32::MIN, 0xffff_ffff_8000_0000), (i32::MAX, 0x7fff_ffff)]);
        round(&[(u32::MAX, 0xffff_ffff)]);
        round(&[(i64::MIN, 1 << 63), (u64::MAX.cast_signed(), u64::MAX)]);
        round(&[(u64::MAX, u64::MAX)]);
        round(&[(1.5_f32, 0x3fc0_0000), (-0.0, 0x8000_0000)]);
        round(&[(1.5_f64, 0x3ff8_0000_0000_0000), (f64::NEG_INFINITY, 0xfff0_0000_0000_0000)]);
        round(&[(true, 1), (false, 0)]);
    }

    #[test]
    fn any_word_is_a_number_of_any_type() {
        let word = 0xffff_ffff_0000_8000;
        assert_eq!((i8::from_word(word), u16::from_word(word)), (0, 0x8000));
        assert_eq!((i16::from_word(word), i32::from_word(word)), (i16::MIN, 0x8000));
        assert!(!bool::from_word(word), "its low byte is zero");
        assert!(bool::from_word(word + 2));
        assert!(f32::from_word(0x7fc0_1234).is_nan());
    }
}
