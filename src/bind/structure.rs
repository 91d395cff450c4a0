//! Structures of C as bytes.

use super::number::Number;

/// A structure of C with public fields, which is copied into the library's memory and out of it. Bindings implement this for the structures
/// of a header: sizes and places of fields are the C compiler's. Any bytes are a value.
///
/// # Examples
///
/// ```
/// use farcall::bind::{Number, Structure};
///
/// /// `struct point { short x; double y; };`
/// #[derive(Debug, Clone, Copy, Default, PartialEq)]
/// struct Point {
///     x: i16,
///     y: f64,
/// }
///
/// impl Structure for Point {
///     const BYTES: usize = 16;
///     const ALIGNMENT: usize = 8;
///
///     fn write(&self, to: &mut [u8]) {
///         self.x.write(&mut to[0..]);
///         self.y.write(&mut to[8..]);
///     }
///
///     fn read(from: &[u8]) -> Self {
///         Self { x: Structure::read(&from[0..]), y: Structure::read(&from[8..]) }
///     }
/// }
///
/// let mut bytes = [0; 16];
/// Point { x: 1, y: 0.5 }.write(&mut bytes);
/// assert_eq!(Point::read(&bytes), Point { x: 1, y: 0.5 });
/// ```
pub trait Structure: Sized {
    /// The size in C, padding included.
    const BYTES: usize;
    /// The alignment in C.
    const ALIGNMENT: usize;

    /// Writes the fields to the first [`BYTES`](Structure::BYTES) bytes, and leaves padding untouched.
    ///
    /// # Panics
    ///
    /// When there are fewer bytes.
    fn write(&self, to: &mut [u8]);

    /// Reads the fields from the first [`BYTES`](Structure::BYTES) bytes.
    ///
    /// # Panics
    ///
    /// When there are fewer bytes.
    fn read(from: &[u8]) -> Self;
}

impl<T: Number> Structure for T {
    const BYTES: usize = <T as Number>::BYTES;
    const ALIGNMENT: usize = <T as Number>::BYTES;

    #[inline]
    fn write(&self, to: &mut [u8]) {
        let bytes = <T as Number>::BYTES;
        to[..bytes].copy_from_slice(&self.to_word().to_le_bytes()[..bytes]);
    }

    #[inline]
    fn read(from: &[u8]) -> Self {
        let mut word = [0; 8];
        let bytes = <T as Number>::BYTES;
        word[..bytes].copy_from_slice(&from[..bytes]);
        T::from_word(u64::from_le_bytes(word))
    }
}

impl<T: Structure + Copy, const N: usize> Structure for [T; N] {
    const BYTES: usize = T::BYTES * N;
    const ALIGNMENT: usize = T::ALIGNMENT;

    fn write(&self, to: &mut [u8]) {
        self.iter().zip(to.chunks_exact_mut(T::BYTES.max(1))).for_each(|(one, to)| one.write(to));
    }

    fn read(from: &[u8]) -> Self {
        std::array::from_fn(|at| T::read(&from[at * T::BYTES..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_arrays_lie_as_in_c() {
        let rows = [[1_u16, 2, 3], [4, 5, 6]];
        let mut bytes = [0xff; 13];
        rows.write(&mut bytes);
        assert_eq!(bytes, [1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 0xff]);
        assert_eq!(<[[u16; 3]; 2]>::read(&bytes), rows);
    }

    #[test]
    fn an_empty_array_takes_no_bytes() {
        [0_u64; 0].write(&mut []);
        assert_eq!(<[u64; 0]>::read(&[]), []);
    }
}
