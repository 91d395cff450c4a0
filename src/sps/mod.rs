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
/// When the bytes end too soon or no value of the type has them.
pub fn from_bytes<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T> {
    T::decode(&mut Reader::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AddrRange, ExecutorAddr, Prot};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn round_trip<T>(value: T, expected: &str)
    where
        T: Encode + for<'a> Decode<'a> + PartialEq + std::fmt::Debug,
    {
        let bytes = to_bytes(&value);
        assert_eq!(hex(&bytes), expected);
        assert_eq!(value.encoded_bytes(), bytes.len());
        assert_eq!(from_bytes::<T>(&bytes).expect("decodes"), value);
        for end in 0..bytes.len() {
            assert!(from_bytes::<T>(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
        }
    }

    #[test]
    fn conformance_vectors() {
        round_trip((1_u32, true, "ab".to_owned()), "010000000102000000000000006162");
        round_trip(Status(Ok(())), "00");
        round_trip(Status(Err("x".to_owned())), "01010000000000000078");
        round_trip(Expected(Ok(7_u8)), "0107");
        round_trip(Expected::<u8>(Err("x".to_owned())), "00010000000000000078");
        round_trip(None::<u16>, "00");
        round_trip(Some(0x1234_u16), "013412");
        let range = AddrRange { start: ExecutorAddr::new(0x1000), end: ExecutorAddr::new(0x2000) };
        round_trip(range, "00100000000000000020000000000000");
    }

    #[test]
    fn memory_is_never_writable_and_executable() {
        round_trip(AllocGroup::standard(Prot::Code), "05");
        round_trip(AllocGroup { prot: Prot::Data, lifetime: Lifetime::Finalize }, "0b");
        let valid = (0..=u8::MAX).filter(|byte| from_bytes::<AllocGroup>(&[*byte]).is_ok());
        assert_eq!(valid.collect::<Vec<_>>(), [1, 3, 5, 9, 11, 13]);
    }

    #[test]
    fn every_scalar() {
        round_trip(-2_i8, "fe");
        round_trip(0x0102_u16, "0201");
        round_trip(-2_i16, "feff");
        round_trip(-2_i32, "feffffff");
        round_trip(0x0102_0304_0506_0708_u64, "0807060504030201");
        round_trip(-2_i64, "feffffffffffffff");
        round_trip(ExecutorAddr::new(0x10), "1000000000000000");
        round_trip((), "");
    }

    #[test]
    fn sequences_nest() {
        let value = vec![vec![1_u16], vec![]];
        round_trip(value, "0200000000000000010000000000000001000000000000000000");
        round_trip(Bytes(vec![1, 2, 3]), "0300000000000000010203");
        assert_eq!(to_bytes(&Bytes(vec![7])), to_bytes(&vec![7_u8]));
    }

    #[test]
    fn a_bool_is_zero_or_one() {
        assert!(from_bytes::<bool>(&[2]).is_err());
        assert!(from_bytes::<Option<u8>>(&[0xff, 0]).is_err());
    }

    #[test]
    fn a_count_beyond_the_bytes_allocates_nothing() {
        let huge = to_bytes(&u64::MAX);
        assert!(from_bytes::<Vec<u64>>(&huge).is_err());
        assert!(
            from_bytes::<Vec<()>>(&huge).is_err(),
            "elements without bytes are bounded as well"
        );
        assert!(from_bytes::<String>(&huge).is_err());
        assert!(from_bytes::<Bytes>(&huge).is_err());
    }

    #[test]
    fn text_may_be_any_bytes() {
        let text = from_bytes::<String>(&to_bytes(&Bytes(vec![b'a', 0xff]))).expect("decodes");
        assert_eq!(text, "a\u{fffd}");
    }
}
