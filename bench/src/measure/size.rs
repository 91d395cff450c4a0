//! Sizes of payloads, as on the command line: 8, 4K, 1M.
//!
//! Invariant: a size that was read is shown with the same value.

use std::fmt;
use std::str::FromStr;

/// A number of bytes from 1 to 1 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(usize);

impl Size {
    /// The payload of most rows.
    pub const WORD: Size = Size(8);
    /// A page.
    pub const PAGE: Size = Size(4 << 10);
    /// A mebibyte.
    pub const LARGE: Size = Size(1 << 20);
    const MAX: usize = 1 << 30;

    /// The number of bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.0
    }
}

impl FromStr for Size {
    type Err = String;

    /// Reads a number, followed by `K` or `M` for KiB or MiB.
    fn from_str(text: &str) -> Result<Size, String> {
        let (digits, unit) = match text.as_bytes() {
            [.., b'k' | b'K'] => (&text[..text.len() - 1], 1 << 10),
            [.., b'm' | b'M'] => (&text[..text.len() - 1], 1 << 20),
            _ => (text, 1),
        };
        let bytes = digits.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
        match bytes {
            Some(bytes @ 1..=Size::MAX) => Ok(Size(bytes)),
            _ => Err(format!("{text}: not a size from 1 to 1024M; write 64, 4K or 1M")),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        let read = |text: &str| text.parse::<Size>();
        for (text, bytes, shown) in [
            ("8", 8, "8 B"),
            ("1000", 1000, "1000 B"),
            ("4K", 4096, "4 KiB"),
            ("4096", 4096, "4 KiB"),
            ("1m", 1 << 20, "1 MiB"),
            ("1024M", 1 << 30, "1024 MiB"),
        ] {
            let size = read(text).unwrap();
            assert_eq!((size.bytes(), size.to_string().as_str()), (bytes, shown));
        }
        for wrong in ["", "0", "K", "4G", "-1", "1025M", "99999999999999999999"] {
            assert!(read(wrong).unwrap_err().starts_with(wrong), "{wrong}");
        }
    }
}
