//! Frames out of bytes that arrive in any pieces.

use crate::error::{Error, Result};
use crate::wire::frame::{HEADER_BYTES, Header};

/// Takes bytes and gives frames. A frame is judged by its header before memory is taken for it, and memory is taken as its
/// bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// How many of the bytes belong to frames that were given.
    given: usize,
}

impl Frames {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.given);
        self.given = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next frame, if all of it is there.
    ///
    /// # Errors
    ///
    /// When its header is none.
    pub(crate) fn next(&mut self) -> Result<Option<(Header, Vec<u8>)>> {
        let rest = &self.bytes[self.given..];
        let Some(header) = rest.first_chunk().map(Header::decode).transpose()? else {
            return Ok(None);
        };
        let Some(payload) = rest[HEADER_BYTES..].get(..header.payload_bytes) else {
            return Ok(None);
        };
        let payload = payload.to_vec();
        self.given += HEADER_BYTES + header.payload_bytes;
        Ok(Some((header, payload)))
    }

    /// The stream has ended.
    ///
    /// # Errors
    ///
    /// When that was inside of a frame.
    pub(crate) fn end(&self) -> Result<()> {
        let rest = &self.bytes[self.given..];
        match rest.first_chunk().map(Header::decode).transpose()? {
            None if rest.is_empty() => Ok(()),
            None => Err(Error::disconnected(format!(
                "the stream ended after {} of a header's {HEADER_BYTES} bytes",
                rest.len()
            ))),
            Some(header) => Err(Error::disconnected(format!(
                "the stream ended after {} of {} bytes of {:?} {}",
                rest.len() - HEADER_BYTES,
                header.payload_bytes,
                header.opcode,
                header.sequence
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::Opcode;

    fn frame(sequence: u64, payload: &[u8]) -> Vec<u8> {
        let (opcode, payload_bytes) = (Opcode::Call, payload.len());
        let header = Header { opcode, sequence, tag: 1, payload_bytes };
        [&header.encode(), payload].concat()
    }

    #[test]
    fn frames_come_out_of_pieces_of_any_size() {
        let sent: Vec<_> = (0..20).map(|n| (n, vec![7; usize::try_from(n * 5).unwrap()])).collect();
        let bytes: Vec<_> = sent.iter().flat_map(|(n, payload)| frame(*n, payload)).collect();
        for size in [1, 2, 31, 32, 33, 100, bytes.len()] {
            let mut frames = Frames::default();
            let mut got = Vec::new();
            for piece in bytes.chunks(size) {
                frames.push(piece);
                while let Some((header, payload)) = frames.next().expect("frames") {
                    got.push((header.sequence, payload));
                }
            }
            assert_eq!(got, sent, "pieces of {size}");
            frames.end().expect("between two frames");
        }
    }

    #[test]
    fn an_end_inside_of_a_frame_says_where() {
        let bytes = frame(3, b"12345");
        for end in 1..bytes.len() {
            let mut frames = Frames::default();
            frames.push(&bytes[..end]);
            assert!(frames.next().expect("no frame").is_none());
            let text = frames.end().expect_err("cut").to_string();
            let expected = match end.checked_sub(HEADER_BYTES) {
                None => format!("after {end} of a header's 32 bytes"),
                Some(payload) => format!("after {payload} of 5 bytes of Call 3"),
            };
            assert!(text.contains(&expected), "{text}");
        }
    }
}
