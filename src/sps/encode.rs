//! Writing values.

use crate::{AddrRange, ExecutorAddr};

/// A value that can be written.
///
/// # Examples
///
/// ```
/// use farcall::sps::{Encode, to_bytes};
///
/// struct Point {
///     x: u16,
///     y: u16,
/// }
///
/// impl Encode for Point {
///     fn encoded_bytes(&self) -> usize {
///         self.x.encoded_bytes() + self.y.encoded_bytes()
///     }
///     fn encode(&self, out: &mut Vec<u8>) {
///         self.x.encode(out);
///         self.y.encode(out);
///     }
/// }
///
/// assert_eq!(to_bytes(&Point { x: 1, y: 2 }), [1, 0, 2, 0]);
/// ```
pub trait Encode {
    /// The number of bytes `encode` appends.
    fn encoded_bytes(&self) -> usize;
    /// Appends the value to `out`.
    fn encode(&self, out: &mut Vec<u8>);
}

macro_rules! scalar {
    ($($type:ty),*) => {$(
        impl Encode for $type {
            fn encoded_bytes(&self) -> usize {
                size_of::<$type>()
            }
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
scalar!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Encode for bool {
    fn encoded_bytes(&self) -> usize {
        1
    }
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Encode for str {
    fn encoded_bytes(&self) -> usize {
        8 + self.len()
    }
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
}

impl Encode for String {
    fn encoded_bytes(&self) -> usize {
        self.as_str().encoded_bytes()
    }
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_str().encode(out);
    }
}

impl<T: Encode> Encode for [T] {
    fn encoded_bytes(&self) -> usize {
        8 + self.iter().map(Encode::encoded_bytes).sum::<usize>()
    }
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        for element in self {
            element.encode(out);
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encoded_bytes(&self) -> usize {
        self.as_slice().encoded_bytes()
    }
    fn encode(&self, out: &mut Vec<u8>) {
        self.as_slice().encode(out);
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encoded_bytes(&self) -> usize {
        1 + self.as_ref().map_or(0, Encode::encoded_bytes)
    }
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl Encode for ExecutorAddr {
    fn encoded_bytes(&self) -> usize {
        8
    }
    fn encode(&self, out: &mut Vec<u8>) {
        self.get().encode(out);
    }
}

impl Encode for AddrRange {
    fn encoded_bytes(&self) -> usize {
        16
    }
    fn encode(&self, out: &mut Vec<u8>) {
        (self.start, self.end).encode(out);
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encoded_bytes(&self) -> usize {
        (**self).encoded_bytes()
    }
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

macro_rules! tuple {
    ($($name:ident)*) => {
        impl<$($name: Encode),*> Encode for ($($name,)*) {
            fn encoded_bytes(&self) -> usize {
                #[expect(non_snake_case, reason = "a value is named after its type")]
                let ($($name,)*) = self;
                0 $(+ $name.encoded_bytes())*
            }
            fn encode(&self, out: &mut Vec<u8>) {
                #[expect(non_snake_case, reason = "a value is named after its type")]
                let ($($name,)*) = self;
                $($name.encode(out);)*
            }
        }
    };
}
tuple!(A);
tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);

impl Encode for () {
    fn encoded_bytes(&self) -> usize {
        0
    }
    fn encode(&self, _out: &mut Vec<u8>) {}
}
