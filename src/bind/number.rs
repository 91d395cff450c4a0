//! Numbers of C as words, and as bytes of a structure.

use crate::ExecutorAddr;

/// A number of C, or an address of the library's process. `bool` is 0 or 1 there, and any other byte is true here.
///
/// # Examples
///
/// ```
/// use farcall::bind::Number;
///
/// assert_eq!(i16::from_word((-2_i16).to_word()), -2);
/// assert_eq!(f64::from_word(0.5_f64.to_word()), 0.5);
/// assert!(bool::from_word(2));
/// ```
pub trait Number: Copy {
    /// The bytes of the number in memory.
    const BYTES: usize;

    /// The number in the low bits of a word.
    fn to_word(self) -> u64;

    /// The number in the low bits of any word.
    fn from_word(word: u64) -> Self;
}

macro_rules! integers {
    ($($number:ty),*) => {$(
        impl Number for $number {
            const BYTES: usize = size_of::<Self>();

            #[inline]
            #[allow(clippy::cast_lossless, reason = "the cast extends the sign")]
            fn to_word(self) -> u64 {
                self as u64
            }

            #[inline]
            #[allow(clippy::cast_possible_truncation, reason = "the other bits mean nothing")]
            #[allow(clippy::cast_possible_wrap, reason = "two's complement")]
            fn from_word(word: u64) -> Self {
                word as Self
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! other_numbers {
    ($($number:ty, $bytes:literal: $to:expr, $from:expr;)*) => {$(
        impl Number for $number {
            const BYTES: usize = $bytes;

            #[inline]
            fn to_word(self) -> u64 {
                $to(self)
            }

            #[inline]
            fn from_word(word: u64) -> Self {
                $from(word)
            }
        }
    )*};
}

other_numbers! {
    f32, 4: |number: f32| u64::from(number.to_bits()), |word: u64| f32::from_bits(u32::from_word(word));
    f64, 8: f64::to_bits, f64::from_bits;
    bool, 1: u64::from, |word: u64| word & 0xff != 0;
    ExecutorAddr, 8: ExecutorAddr::get, ExecutorAddr::new;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_comes_back_from_its_word() {
        assert_eq!(i8::from_word(i8::MIN.to_word()), i8::MIN);
        assert_eq!(u16::from_word(0xdead_ffff), u16::MAX);
        assert_eq!(i64::from_word((-1_i64).to_word()), -1);
        assert!(f32::from_word(f32::NAN.to_word()).is_nan());
        assert_eq!(ExecutorAddr::from_word(9), ExecutorAddr::new(9));
        assert!(!bool::from_word(0x100));
    }
}
