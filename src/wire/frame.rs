//! Frames of a byte stream, as LLVM's `SimpleRemoteEPC` has them: 32 bytes, then the payload.
//!
//! ```text
//! bytes 0..8   size of the whole frame, these 32 bytes included    8..16 opcode    16..24 sequence number    24..32 tag
//! ```
//!
//! All little-endian. Opcodes 0 to 3 are LLVM's. Those above are this library's, since LLVM ends a session on them. They are
//! sent only to a peer that sent [`Opcode::Hello`] or was created for it.

use crate::error::{Error, Result};
use crate::limits::PAYLOAD_BYTES_MAX;

/// Bytes in front of every payload.
pub(crate) const HEADER_BYTES: usize = 32;

/// The version of the opcodes above LLVM's, the tag of [`Opcode::Hello`].
pub(crate) const OWN_VERSION: u64 = 1;

/// The tag of a result that is a value. LLVM 22 knows no other one.
pub(crate) const RESULT_VALUE: u64 = 0;
/// The tag of a result that is an out-of-band error, whose message is an SPS string. LLVM's later versions send it. It is never
/// sent here, since LLVM 22 ends a session on it.
pub(crate) const RESULT_OUT_OF_BAND: u64 = 1;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Opcode {
    /// The executor's first frame: what it is and what it offers.
    Setup = 0,
    /// The session ends; an SPS status says why.
    Hangup = 1,
    /// The result of the call with this number of the receiver's. Its tag says which kind of result ([`RESULT_VALUE`]).
    Result = 2,
    /// Run the function, or the handler, at the tag.
    Call = 3,
    /// The sender understands this opcode and those after it. Its tag is [`OWN_VERSION`]; no payload.
    Hello = 4,
    /// As a result: the call failed out of band, the payload is the message.
    Failure = 5,
    /// A call without an answer. If it fails, the next call fails for the same reason instead of being run.
    Posted = 6,
}

/// The first bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) opcode: Opcode,
    pub(crate) sequence: u64,
    pub(crate) tag: u64,
    pub(crate) payload_bytes: usize,
}

impl Header {
    /// The bytes to send.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let total = (HEADER_BYTES + self.payload_bytes) as u64;
        let words = [total, self.opcode as u64, self.sequence, self.tag];
        let mut bytes = [0; HEADER_BYTES];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        bytes
    }

    /// Decodes a received header.
    ///
    /// # Errors
    ///
    /// When the size is too small for a header or too large for any payload, or the opcode or the tag is invalid.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self> {
        let word = |at: usize| u64::from_le_bytes(bytes.as_chunks().0[at]);
        let (total, opcode, sequence, tag) = (word(0), word(1), word(2), word(3));
        let payload_bytes = total
            .checked_sub(HEADER_BYTES as u64)
            .filter(|payload| *payload <= PAYLOAD_BYTES_MAX)
            .and_then(|payload| usize::try_from(payload).ok())
            .ok_or_else(|| {
                Error::violation(format!(
                    "a frame of {total} bytes: {HEADER_BYTES} to {} may be",
                    HEADER_BYTES as u64 + PAYLOAD_BYTES_MAX
                ))
            })?;
        let opcode = Opcode::from_number(opcode)
            .ok_or_else(|| Error::violation(format!("a frame with opcode {opcode}")))?;
        let is_valid = match opcode {
            Opcode::Result => matches!(tag, RESULT_VALUE | RESULT_OUT_OF_BAND),
            Opcode::Failure => tag == 0,
            _ => true,
        };
        if !is_valid {
            return Err(Error::violation(format!("{opcode:?} {sequence} with tag {tag:#x}")));
        }
        Ok(Self { opcode, sequence, tag, payload_bytes })
    }
}

/// The status in a hangup, as bytes. An LLVM peer may leave it out, which is an orderly end.
///
/// # Errors
///
/// When a peer of this library has left it out.
pub(crate) fn hangup_status(mut payload: Vec<u8>, is_ours: bool) -> Result<Vec<u8>> {
    if payload.is_empty() {
        if is_ours {
            return Err(Error::violation(
                "a hangup without a status, which only an LLVM peer may send",
            ));
        }
        payload.push(0);
    }
    Ok(payload)
}

impl Opcode {
    fn from_number(number: u64) -> Option<Self> {
        let all = [
            Self::Setup,
            Self::Hangup,
            Self::Result,
            Self::Call,
            Self::Hello,
            Self::Failure,
            Self::Posted,
        ];
        all.into_iter().find(|opcode| *opcode as u64 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn headers_round_trip_and_have_llvms_bytes() {
        let mut seen = 0;
        for number in 0..16 {
            let Some(opcode) = Opcode::from_number(number) else { continue };
            let header = Header { opcode, sequence: u64::MAX, tag: 0, payload_bytes: 5 };
            assert_eq!(Header::decode(&header.encode()).expect("decodes"), header);
            seen += 1;
        }
        assert_eq!(seen, 7);
        let call = Header { opcode: Opcode::Call, sequence: 2, tag: 0x1020, payload_bytes: 0x2000 };
        let mut expected = [0; 32];
        (expected[0], expected[1], expected[8], expected[16]) = (0x20, 0x20, 3, 2);
        (expected[24], expected[25]) = (0x20, 0x10);
        assert_eq!(call.encode(), expected);
    }

    #[test]
    fn only_an_llvm_peer_may_leave_the_status_of_a_hangup_out() {
        assert_eq!(hangup_status(Vec::new(), false).expect("an orderly end"), [0]);
        assert_eq!(hangup_status(vec![0], true).expect("an orderly end"), [0]);
        let error = hangup_status(Vec::new(), true).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Violation);
    }

    #[test]
    fn frames_that_no_encoder_writes_are_refused() {
        let mut refused = 0;
        for (word, value) in [
            (0, 0),
            (0, 31),
            (0, HEADER_BYTES as u64 + PAYLOAD_BYTES_MAX + 1),
            (0, u64::MAX),
            (1, 7),
            (1, 1 << 32),
            (1, u64::MAX),
            (3, 2),
            (3, u64::MAX),
        ] {
            let header = Header { opcode: Opcode::Result, sequence: 1, tag: 0, payload_bytes: 0 };
            let mut bytes = header.encode();
            bytes[word * 8..word * 8 + 8].copy_from_slice(&u64::to_le_bytes(value));
            assert!(
                Header::decode(&bytes).expect_err("refused").kind() == ErrorKind::Violation,
                "{word} {value}"
            );
            refused += 1;
        }
        assert_eq!(refused, 9);
    }
}
