//! Reading values from bytes that may be hostile.

use crate::error::{Error, Result};
use crate::{AddrRange, ExecutorAddr};

/// A value that can be decoded. It may borrow from the bytes.
///
/// # Examples
///
/// ```
/// use farcall::Result;
/// use farcall::sps::{Decode, Reader, from_bytes};
///
/// #[derive(Debug, PartialEq)]
/// struct Point {
///     x: u16,
///     y: u16,
/// }
///
/// impl Decode<'_> for Point {
///     const BYTES_MIN: usize = 4;
///     fn decode(reader: &mut Reader<'_>) -> Result<Self> {
///         Ok(Self { x: u16::decode(reader)?, y: u16::decode(reader)? })
///     }
/// }
///
/// assert_eq!(from_bytes::<Point>(&[1, 0, 2, 0])?, Point { x: 1, y: 2 });
/// assert!(from_bytes::<Point>(&[1, 0]).is_err());
/// # Ok::<(), farcall::Error>(())
/// ```
pub trait Decode<'a>: Sized {
    /// The fewest bytes a value takes; bounds the count of a sequence before anything is allocated.
    const BYTES_MIN: usize;

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// When the bytes end too soon or are no value of this type.
    fn decode(reader: &mut Reader<'a>) -> Result<Self>;
}

/// Bytes and how far they have been read.
///
/// # Examples
///
/// ```
/// use farcall::sps::{Decode, Reader};
///
/// let mut reader = Reader::new(&[1, 2, 0, 9]);
/// assert_eq!(u8::decode(&mut reader)?, 1);
/// assert_eq!(u16::decode(&mut reader)?, 2);
/// assert_eq!(reader.read(1)?, [9]);
/// assert!(reader.read(1).is_err());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next `count` bytes.
    ///
    /// # Errors
    ///
    /// When fewer bytes are left.
    #[inline]
    pub fn read(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.too_short(count));
        };
        self.rest = rest;
        Ok(taken)
    }

    #[cold]
    fn too_short(&self, count: usize) -> Error {
        Error::violation(format!(
            "serialized data ends too soon: {count} bytes wanted, {} left",
            self.rest.len()
        ))
    }

    /// Takes a count of elements of at least `bytes_min` bytes each. The bytes that are left must be enough for them.
    pub(super) fn count(&mut self, bytes_min: usize) -> Result<usize> {
        let count = u64::decode(self)?;
        let most = self.rest.len() / bytes_min.max(1);
        usize::try_from(count).ok().filter(|count| *count <= most).ok_or_else(|| {
            Error::violation(format!(
                "serialized sequence of {count} elements, {} bytes left",
                self.rest.len()
            ))
        })
    }
}

macro_rules! scalar {
    ($($type:ty),*) => {$(
        impl Decode<'_> for $type {
            const BYTES_MIN: usize = size_of::<$type>();
            fn decode(reader: &mut Reader<'_>) -> Result<Self> {
                let mut bytes = [0; size_of::<$type>()];
                bytes.copy_from_slice(reader.read(size_of::<$type>())?);
                Ok(<$type>::from_le_bytes(bytes))
            }
        }
    )*};
}
scalar!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Decode<'_> for bool {
    const BYTES_MIN: usize = 1;
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        match u8::decode(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::violation(format!("serialized bool with value {other}"))),
        }
    }
}

/// Text may be any bytes on the wire; bytes that are not UTF-8 are replaced.
impl Decode<'_> for String {
    const BYTES_MIN: usize = 8;
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let count = reader.count(1)?;
        Ok(String::from_utf8_lossy(reader.read(count)?).into_owned())
    }
}

/// A sequence of bytes, borrowed.
impl<'a> Decode<'a> for &'a [u8] {
    const BYTES_MIN: usize = 8;
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let count = reader.count(1)?;
        reader.read(count)
    }
}

/// Text, borrowed. It has to be UTF-8.
impl<'a> Decode<'a> for &'a str {
    const BYTES_MIN: usize = 8;
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let bytes = <&[u8]>::decode(reader)?;
        std::str::from_utf8(bytes)
            .map_err(|error| Error::violation(format!("serialized text of no use: {error}")))
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    const BYTES_MIN: usize = 8;
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let count = reader.count(T::BYTES_MIN)?;
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(T::decode(reader)?);
        }
        Ok(elements)
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    const BYTES_MIN: usize = 1;
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(if bool::decode(reader)? { Some(T::decode(reader)?) } else { None })
    }
}

impl Decode<'_> for ExecutorAddr {
    const BYTES_MIN: usize = 8;
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(ExecutorAddr::new(u64::decode(reader)?))
    }
}

impl Decode<'_> for AddrRange {
    const BYTES_MIN: usize = 16;
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let (start, end) = Decode::decode(reader)?;
        if end < start {
            return Err(Error::violation(format!("address range {start}..{end} is inverted")));
        }
        Ok(AddrRange { start, end })
    }
}

macro_rules! tuple {
    ($($name:ident)*) => {
        impl<'a, $($name: Decode<'a>),*> Decode<'a> for ($($name,)*) {
            const BYTES_MIN: usize = 0 $(+ $name::BYTES_MIN)*;
            fn decode(reader: &mut Reader<'a>) -> Result<Self> {
                Ok(($($name::decode(reader)?,)*))
            }
        }
    };
}
tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);

impl Decode<'_> for () {
    const BYTES_MIN: usize = 0;
    fn decode(_reader: &mut Reader<'_>) -> Result<Self> {
        Ok(())
    }
}
