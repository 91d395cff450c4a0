//! Calls of handlers that linked code knows as C functions: what a stub says of its handler, and the bytes of a call.
//!
//! The constants of a stub, with numbers in little-endian order:
//!
//! | bytes | what |
//! |---|---|
//! | 0 to 8 | the handler's tag |
//! | 8 to 16 | the status that linked code gets if the call fails |
//! | 16 | 1 if it gets that status, 0 if the call is unwound |
//! | 17 | the number of parameters |
//! | 18 to 34 | the kind of each |
//! | 40 and on | the name, which ends with NUL |
//!
//! A call is one word for each parameter, and behind them the bytes of its strings and slices, in order. The word of one of those
//! is its size in bytes. The answer is one word.

use crate::error::{Error, Result};
use crate::limits::TYPED_ARGUMENTS_MAX;

/// The name of the executor's function to which a stub jumps, with the address of its constants in `%r11` (`x9` on AArch64). It has
/// the stack and the other registers of a call of the stub.
pub(crate) const CALL_HANDLER: &str = "farcall_call_handler";

/// The bytes of the constants in front of the name.
pub(crate) const HEAD_BYTES: usize = 40;

/// The bytes of a word.
pub(crate) const WORD_BYTES: usize = size_of::<u64>();

/// The first byte of the kinds.
const KINDS: usize = 18;

const _: () = assert!(KINDS + TYPED_ARGUMENTS_MAX <= HEAD_BYTES);

/// A parameter of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An integer or a pointer.
    Integer,
    Float,
    /// The address of a string that ends with NUL. Its NUL is one of its bytes.
    Text,
    /// An address and a number of elements, which take two arguments in C.
    Slice {
        element_bytes: u8,
    },
}

/// What a stub says of its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) tag: u64,
    /// What linked code gets if the call fails; `None` if the call is unwound.
    pub(crate) status: Option<u64>,
    kinds: [u8; TYPED_ARGUMENTS_MAX],
    count: u8,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Integer => 0x10,
            Kind::Float => 0x20,
            Kind::Text => 0x30,
            Kind::Slice { element_bytes } => element_bytes,
        }
    }

    fn of(code: u8) -> Self {
        match code {
            0x10 => Kind::Integer,
            0x20 => Kind::Float,
            0x30 => Kind::Text,
            element_bytes => Kind::Slice { element_bytes },
        }
    }
}

impl Head {
    /// # Panics
    ///
    /// When there are more kinds than [`TYPED_ARGUMENTS_MAX`].
    pub(crate) fn new(tag: u64, status: Option<u64>, of: &[Kind]) -> Self {
        let mut kinds = [0; TYPED_ARGUMENTS_MAX];
        for (code, kind) in kinds[..of.len()].iter_mut().zip(of) {
            *code = kind.code();
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most TYPED_ARGUMENTS_MAX")]
        let count = of.len() as u8;
        Self { tag, status, kinds, count }
    }

    /// The kinds of the parameters.
    #[inline]
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> {
        self.kinds.iter().take(self.count.into()).map(|code| Kind::of(*code))
    }

    /// The constants of the stub of a handler with this name.
    pub(crate) fn constants(&self, name: &str) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.status.unwrap_or_default().to_le_bytes());
        bytes[16] = self.status.is_some().into();
        bytes[17] = self.count;
        bytes[KINDS..KINDS + TYPED_ARGUMENTS_MAX].copy_from_slice(&self.kinds);
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes
    }

    /// Reads the constants of a stub.
    #[inline]
    pub(crate) fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [tag, status, _, _, _] = *bytes.as_chunks::<WORD_BYTES>().0 else {
            return Self { tag: 0, status: None, kinds: [0; TYPED_ARGUMENTS_MAX], count: 0 };
        };
        let mut kinds = [0; TYPED_ARGUMENTS_MAX];
        kinds.copy_from_slice(&bytes[KINDS..KINDS + TYPED_ARGUMENTS_MAX]);
        let status = (bytes[16] != 0).then_some(u64::from_le_bytes(status));
        Self { tag: u64::from_le_bytes(tag), status, kinds, count: bytes[17] }
    }
}

/// The arguments of a call, which are taken one after the other.
#[derive(Debug)]
pub(crate) struct Arguments<'a> {
    words: &'a [[u8; WORD_BYTES]],
    /// The bytes of the strings and slices that were not taken.
    rest: &'a [u8],
}

impl<'a> Arguments<'a> {
    /// The arguments of a call of a handler with `count` parameters.
    ///
    /// # Errors
    ///
    /// When there are fewer bytes.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8], count: usize) -> Result<Self> {
        let (words, rest) = bytes.split_at_checked(count * WORD_BYTES).ok_or_else(|| {
            Error::violation(format!("{} bytes for {count} arguments", bytes.len()))
        })?;
        Ok(Self { words: words.as_chunks().0, rest })
    }

    /// The next number; 0 behind the last one.
    #[inline]
    pub(crate) fn word(&mut self) -> u64 {
        match self.words.split_off_first() {
            Some(word) => u64::from_le_bytes(*word),
            None => 0,
        }
    }

    /// The bytes of the next string or slice.
    ///
    /// # Errors
    ///
    /// When there are fewer bytes than its size.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let size = self.word();
        let left = self.rest.len();
        let taken = usize::try_from(size).ok().and_then(|size| self.rest.split_off(..size));
        taken.ok_or_else(|| Error::violation(format!("an argument of {size} bytes, {left} came")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stub_says_is_read() {
        let kinds = [
            Kind::Integer,
            Kind::Float,
            Kind::Text,
            Kind::Slice { element_bytes: 1 },
            Kind::Slice { element_bytes: 8 },
        ];
        let most = [Kind::Float; TYPED_ARGUMENTS_MAX];
        for (kinds, status) in [(&kinds[..], Some(u64::MAX)), (&most[..], None), (&[], Some(0))] {
            let head = Head::new(0x1234_5678_9abc, status, kinds);
            let constants = head.constants("log");
            assert_eq!(&constants[HEAD_BYTES..], b"log\0");
            let read = Head::read(constants.first_chunk().expect("a head"));
            assert_eq!(read, head);
            assert_eq!(read.kinds().collect::<Vec<_>>(), kinds);
        }
    }

    #[test]
    fn a_call_is_taken_apart_and_a_short_one_is_refused() {
        let words = [7_u64, 3, u64::MAX].map(u64::to_le_bytes).concat();
        let call = [&words[..], b"abc"].concat();
        let mut arguments = Arguments::read(&call, 3).expect("a call");
        assert_eq!(arguments.word(), 7);
        assert_eq!(arguments.bytes().expect("three"), b"abc");
        let error = arguments.bytes().expect_err("no such size").to_string();
        assert_eq!(error, "an argument of 18446744073709551615 bytes, 0 came");
        assert_eq!(arguments.word(), 0, "there is none");
        assert!(Arguments::read(&call[..23], 3).is_err());
    }
}
