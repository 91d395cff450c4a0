//! The types of the format for which Rust has no exact equivalent.

use super::{Decode, Encode, Reader};
use crate::Prot;
use crate::error::{Error, Result};

/// A sequence of bytes, copied at once. The same bytes on the wire as `Vec<u8>`.
///
/// # Examples
///
/// ```
/// use farcall::sps::{Bytes, to_bytes};
///
/// assert_eq!(to_bytes(&Bytes(vec![1, 2])), [2, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bytes(pub Vec<u8>);

/// LLVM's `SPSError`: a bool "has error", and the message if so.
///
/// # Examples
///
/// ```
/// use farcall::sps::{Status, from_bytes, to_bytes};
///
/// assert_eq!(to_bytes(&Status(Ok(()))), [0]);
/// let failed = Status(Err("no".to_owned()));
/// assert_eq!(from_bytes::<Status>(&to_bytes(&failed))?, failed);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status(pub std::result::Result<(), String>);

/// LLVM's `SPSExpected`: a bool "has value", then the value, or the message of the error.
///
/// Mind the polarity: [`Status`] is `00` for success, `Expected` is `01`.
///
/// # Examples
///
/// ```
/// use farcall::sps::{Expected, from_bytes, to_bytes};
///
/// assert_eq!(to_bytes(&Expected(Ok(7_u8))), [1, 7]);
/// let failed: Expected<u8> = Expected(Err("no".to_owned()));
/// let failed: Expected<u8> = from_bytes(&to_bytes(&failed))?;
/// assert!(failed.into_result().is_err_and(|error| error.kind() == farcall::ErrorKind::Remote));
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected<T>(pub std::result::Result<T, String>);

/// LLVM's `AllocGroup`: what memory may be used for, and for how long it is needed. One byte on the wire: bits for
/// read, write and execute, and one for the lifetime. Memory that is writable and executable has no value.
///
/// # Examples
///
/// ```
/// use farcall::Prot;
/// use farcall::sps::{AllocGroup, to_bytes};
///
/// // Read and execute, until it is deallocated.
/// assert_eq!(to_bytes(&AllocGroup::standard(Prot::Code)), [1 | 4]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocGroup {
    /// The protection.
    pub prot: Prot,
    /// How long the memory is needed.
    pub lifetime: Lifetime,
}

/// How long memory of an allocation is needed.
///
/// # Examples
///
/// ```
/// use farcall::Prot;
/// use farcall::sps::{AllocGroup, Lifetime, to_bytes};
///
/// let group = AllocGroup { prot: Prot::Data, lifetime: Lifetime::Finalize };
/// assert_eq!(to_bytes(&group), [1 | 2 | 8]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetime {
    /// Until it is deallocated.
    Standard,
    /// Until the finalize actions have run.
    Finalize,
}

impl AllocGroup {
    /// Memory of this protection that is needed until it is deallocated.
    #[must_use]
    pub const fn standard(prot: Prot) -> Self {
        Self { prot, lifetime: Lifetime::Standard }
    }

    /// The group with this number on the wire, if there is one.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        let lifetimes = [Lifetime::Standard, Lifetime::Finalize].into_iter();
        let mut groups =
            lifetimes.flat_map(|lifetime| Prot::ALL.map(|prot| Self { prot, lifetime }));
        groups.find(|group| group.number() == number)
    }

    const fn number(self) -> u8 {
        let prot = match self.prot {
            Prot::Constants => 1,
            Prot::Data => 1 | 2,
            Prot::Code => 1 | 4,
        };
        match self.lifetime {
            Lifetime::Standard => prot,
            Lifetime::Finalize => prot | 8,
        }
    }
}

impl Encode for AllocGroup {
    fn encoded_bytes(&self) -> usize {
        1
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.number());
    }
}

impl Decode<'_> for AllocGroup {
    const BYTES_MIN: usize = 1;
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let number = u8::decode(reader)?;
        Self::from_number(number).ok_or_else(|| {
            Error::violation(format!("memory of protection and lifetime {number:#x}"))
        })
    }
}

impl Encode for Bytes {
    fn encoded_bytes(&self) -> usize {
        8 + self.0.len()
    }
    fn encode(&self, out: &mut Vec<u8>) {
        (self.0.len() as u64).encode(out);
        out.extend_from_slice(&self.0);
    }
}

impl Decode<'_> for Bytes {
    const BYTES_MIN: usize = 8;
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let count = reader.count(1)?;
        Ok(Bytes(reader.read(count)?.to_vec()))
    }
}

impl Encode for Status {
    fn encoded_bytes(&self) -> usize {
        1 + self.0.as_ref().err().map_or(0, Encode::encoded_bytes)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.as_ref().err().encode(out);
    }
}

impl Decode<'_> for Status {
    const BYTES_MIN: usize = 1;
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Status(Option::<String>::decode(reader)?.map_or(Ok(()), Err)))
    }
}

impl<T: Encode> Encode for Expected<T> {
    fn encoded_bytes(&self) -> usize {
        1 + match &self.0 {
            Ok(value) => value.encoded_bytes(),
            Err(message) => message.encoded_bytes(),
        }
    }
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.is_ok().encode(out);
        match &self.0 {
            Ok(value) => value.encode(out),
            Err(message) => message.encode(out),
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Expected<T> {
    const BYTES_MIN: usize = 1;
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Expected(match bool::decode(reader)? {
            true => Ok(T::decode(reader)?),
            false => Err(String::decode(reader)?),
        }))
    }
}

impl<T> Expected<T> {
    /// The value.
    ///
    /// # Errors
    ///
    /// The other side's error (then `ErrorKind::Remote`).
    pub fn into_result(self) -> Result<T> {
        self.0.map_err(Error::remote)
    }
}

impl Status {
    /// Success, or what the other side said.
    ///
    /// # Errors
    ///
    /// That (then `ErrorKind::Remote`).
    pub fn into_result(self) -> Result<()> {
        self.0.map_err(Error::remote)
    }
}

impl<T> From<Result<T>> for Expected<T> {
    fn from(result: Result<T>) -> Self {
        Expected(result.map_err(|error| error.to_string()))
    }
}

impl From<Result<()>> for Status {
    fn from(result: Result<()>) -> Self {
        Status(result.map_err(|error| error.to_string()))
    }
}
