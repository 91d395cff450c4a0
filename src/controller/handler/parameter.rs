//! The parameters of a handler.
//!
//! Invariant: every value comes from checked bytes. No bytes of the executor can make a string without a NUL, or a slice that is
//! longer than what came.

use std::ffi::CStr;

use crate::call::contract::handler_call::{Arguments, Kind};
use crate::controller::calls::scalar::{FromWord, Scalar};
use crate::error::{Error, Result};

/// A parameter of a [`Handler`](super::definition::Handler):
///
/// | type | in C | what the handler receives |
/// |---|---|---|
/// | a [`Scalar`]: integers, floating-point numbers, `bool`, [`ExecutorAddr`](crate::ExecutorAddr) | the same; any pointer | the value |
/// | `&CStr` | `const char *` | a copy of the string |
/// | `&[T]` with a [`Scalar`] `T` | `const T *, size_t`: two parameters | a copy of the elements |
///
/// The executor copies strings and slices when linked code calls, at most
/// [`HANDLER_BYTES_MAX`](crate::limits::HANDLER_BYTES_MAX) bytes in one call. It does not trust an address: an unmapped page, and a
/// string without an end, is an error of the call. A null pointer is an error for a string, and for a slice with
/// elements.
///
/// # Examples
///
/// ```
/// use std::ffi::CStr;
///
/// use farcall::ExecutorAddr;
/// use farcall::controller::handler::{Handler, Parameter};
///
/// # fn is_parameter<P: Parameter>() {}
/// # is_parameter::<&CStr>();
/// // int scale(const double *values, size_t count, const char *unit, void *out);
/// let scale = Handler::new(|values: &[f64], unit: &CStr, out: ExecutorAddr| values.len() as i32);
/// # let _ = scale;
/// ```
#[expect(private_bounds, reason = "the form of an argument is private")]
pub trait Parameter: Argument {}

pub(super) trait Argument {
    /// What a stub says of it.
    const KIND: Kind;
    /// What holds the value while the handler runs.
    type Held<'m>;
    /// What the handler receives.
    type Item<'a>;

    /// Takes the next argument of a call.
    ///
    /// # Errors
    ///
    /// When its bytes cannot be such a value.
    fn take<'m>(arguments: &mut Arguments<'m>) -> Result<Self::Held<'m>>;

    fn lend<'a>(held: &'a Self::Held<'_>) -> Self::Item<'a>;
}

impl<T: Scalar + Copy + 'static> Parameter for T {}

impl<T: Scalar + Copy + 'static> Argument for T {
    const KIND: Kind = if T::IS_FLOAT { Kind::Float } else { Kind::Integer };
    type Held<'m> = T;
    type Item<'a> = T;

    #[inline]
    fn take<'m>(arguments: &mut Arguments<'m>) -> Result<T> {
        Ok(T::from_word(arguments.word()))
    }

    #[inline]
    fn lend(held: &T) -> T {
        *held
    }
}

impl Parameter for &CStr {}

impl Argument for &CStr {
    const KIND: Kind = Kind::Text;
    type Held<'m> = &'m CStr;
    type Item<'a> = &'a CStr;

    fn take<'m>(arguments: &mut Arguments<'m>) -> Result<&'m CStr> {
        let bytes = arguments.bytes()?;
        CStr::from_bytes_with_nul(bytes).map_err(|error| Error::violation(error.to_string()))
    }

    fn lend<'a>(held: &'a &CStr) -> &'a CStr {
        held
    }
}

impl<T: Scalar + 'static> Parameter for &[T] {}

impl<T: Scalar + 'static> Argument for &[T] {
    const KIND: Kind = Kind::Slice { element_bytes: element_bytes::<T>() };
    type Held<'m> = Vec<T>;
    type Item<'a> = &'a [T];

    fn take<'m>(arguments: &mut Arguments<'m>) -> Result<Vec<T>> {
        let elements = arguments.bytes()?.chunks_exact(size_of::<T>());
        Ok(elements.map(element).collect())
    }

    fn lend(held: &Vec<T>) -> &[T] {
        held
    }
}

const fn element_bytes<T: Scalar>() -> u8 {
    assert!(size_of::<T>() <= 8, "a number has at most 8 bytes");
    size_of::<T>().to_le_bytes()[0]
}

/// The number in at most 8 bytes.
fn element<T: FromWord>(bytes: &[u8]) -> T {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    T::from_word(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[u64], tail: &[u8]) -> Vec<u8> {
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        [&words, tail].concat()
    }

    #[test]
    fn numbers_strings_and_slices_come_from_bytes() {
        let bytes = call(&[u64::MAX, 3, 4, 8], b"no\0\x01\0\xff\xff\0\0\0\0\0\0\xf8\x3f");
        let mut arguments = Arguments::read(&bytes, 4).expect("a call");
        assert_eq!(i32::take(&mut arguments).expect("a number"), -1);
        assert_eq!(<&CStr>::take(&mut arguments).expect("a string"), c"no");
        assert_eq!(<&[i16]>::take(&mut arguments).expect("two"), [1, -1]);
        assert_eq!(<&[f64]>::take(&mut arguments).expect("one"), [1.5]);
    }

    #[test]
    fn bytes_that_are_no_string_are_refused() {
        for tail in [&b""[..], b"abc", b"a\0c\0"] {
            let bytes = call(&[tail.len() as u64], tail);
            let mut arguments = Arguments::read(&bytes, 1).expect("a call");
            assert!(<&CStr>::take(&mut arguments).is_err(), "{tail:?}");
        }
    }

    #[test]
    fn the_bytes_behind_the_last_element_do_not_count() {
        let bytes = call(&[7], &[1, 0, 0, 0, 2, 0, 0]);
        let mut arguments = Arguments::read(&bytes, 1).expect("a call");
        assert_eq!(<&[u32]>::take(&mut arguments).expect("one"), [1]);
    }
}
