//! Simple Packed Serialization: the byte format of LLVM ORC's wrapper-function arguments and results.
//!
//! Little-endian, packed, without padding, type tags or versions; both sides know the types. Sequences carry a
//! u64 count, strings are sequences of bytes, tuples are concatenations, an optional value is a bool and then
//! the value. Source of the format: LLVM's `SimplePackedSerialization` headers.
//!
//! Decoding trusts nothing: every length is checked against what is left before anything is allocated, and a
//! bool other than 0 or 1 is refused. Trailing bytes are left alone, as LLVM does.
//!
//! Invariant: no IO and no unsafe; encoding is exact (`encoded_bytes` is what `encode` appends).
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod values;

pub use decode::{Decode, Reader};
pub use encode::Encode;
pub use values::{AllocGroup, Bytes, Expected, Lifetime, Status};

use crate::error::Result;

/// The bytes of `value`.
#[must_use]
pub fn to_bytes<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.encoded_bytes());
    value.encode(&mut out);
    out
}

/// The value at the start of `bytes`.
///
/// # Errors
///
/// When the bytes end too soon or are no value of the type.
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T> {
    T::decode(&mut Reader::new(bytes))
}

#[cfg(test)]
mod tests;
