//! Frames out of the bytes of a stream, which arrive in pieces of any size.
//!
//! Invariant: a frame's header is checked before memory is allocated for its payload, and memory is allocated as the payload's
//! bytes arrive.

use super::frame::{HEADER_BYTES, Header, Opcode, RESULT_OUT_OF_BAND};
use crate::error::{Error, Result};

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// Takes bytes and gives frames: read into [`space`](FrameReader::space), say [how many](FrameReader::received), then take
/// frames until there is [none](FrameReader::next).
#[derive(Debug)]
pub(crate) struct FrameReader {
    /// Bytes that were received and belong to later frames: those from `start` to `end`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The frame that is arriving.
    header: Option<Header>,
    payload: Vec<u8>,
}

impl FrameReader {
    pub(crate) fn new() -> Self {
        let buffer = vec![0; READ_BYTES].into();
        Self { buffer, start: 0, end: 0, header: None, payload: Vec::new() }
    }

    /// Where the next bytes of the stream are to be stored. It is not empty when [`next`](FrameReader::next) has said that
    /// no frame is whole: less than a header is left over then.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.buffer[self.end..]
    }

    /// `bytes` bytes were stored in the [`space`](FrameReader::space).
    pub(crate) fn received(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// The next frame, if it is whole. An out-of-band error of LLVM's comes as [`Opcode::Failure`].
    ///
    /// # Errors
    ///
    /// `ErrorKind::Violation` when the next header is invalid.
    pub(crate) fn next(&mut self) -> Result<Option<(Header, Vec<u8>)>> {
        if self.header.is_none() {
            let Some(bytes) = self.buffer[self.start..self.end].first_chunk() else {
                return Ok(None);
            };
            self.header = Some(Header::decode(bytes)?);
            self.start += HEADER_BYTES;
        }
        let Some(header) = self.header else { return Ok(None) };
        let missing = header.payload_bytes - self.payload.len();
        let bytes = missing.min(self.end - self.start);
        self.payload.extend_from_slice(&self.buffer[self.start..self.start + bytes]);
        self.start += bytes;
        if bytes < missing {
            return Ok(None);
        }
        self.header = None;
        let payload = std::mem::take(&mut self.payload);
        Ok(Some(match (header.opcode, header.tag) {
            (Opcode::Result, RESULT_OUT_OF_BAND) => {
                let payload = out_of_band(payload);
                let payload_bytes = payload.len();
                (Header { opcode: Opcode::Failure, tag: 0, payload_bytes, ..header }, payload)
            }
            _ => (header, payload),
        }))
    }

    /// The stream has ended.
    ///
    /// # Errors
    ///
    /// `is_disconnected` when the end is inside of a frame.
    pub(crate) fn ended(&self) -> Result<()> {
        match self.header {
            None if self.end == self.start => Ok(()),
            None => Err(Error::disconnected(format!(
                "the stream ended after {} of a header's {HEADER_BYTES} bytes",
                self.end - self.start
            ))),
            Some(header) => Err(Error::disconnected(format!(
                "the stream ended after {} of {} bytes of {:?} {}",
                self.payload.len(),
                header.payload_bytes,
                header.opcode,
                header.sequence
            ))),
        }
    }
}

/// The message of an out-of-band error: an SPS string. A damaged one fails its call too, so that the call ends.
fn out_of_band(payload: Vec<u8>) -> Vec<u8> {
    match payload.split_first_chunk() {
        Some((bytes, message)) if u64::from_le_bytes(*bytes) == message.len() as u64 => {
            message.to_vec()
        }
        _ => format!("an error whose message of {} bytes is damaged", payload.len()).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(frames: &mut FrameReader, bytes: &[u8]) {
        frames.space()[..bytes.len()].copy_from_slice(bytes);
        frames.received(bytes.len());
    }

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
            let mut frames = FrameReader::new();
            let mut got = Vec::new();
            for piece in bytes.chunks(size) {
                push(&mut frames, piece);
                while let Some((header, payload)) = frames.next().expect("frames") {
                    got.push((header.sequence, payload));
                }
            }
            assert_eq!(got, sent, "pieces of {size}");
            frames.ended().expect("between two frames");
        }
    }

    #[test]
    fn an_out_of_band_error_of_llvms_is_a_failure() {
        for (payload, message) in [
            (&b"\x02\0\0\0\0\0\0\0no"[..], "no"),
            (b"\0\0\0\0\0\0\0\0", ""),
            (b"\x03\0\0\0\0\0\0\0no", "an error whose message of 10 bytes is damaged"),
            (
                b"\xff\xff\xff\xff\xff\xff\xff\xffno",
                "an error whose message of 10 bytes is damaged",
            ),
            (b"no", "an error whose message of 2 bytes is damaged"),
        ] {
            let (opcode, payload_bytes) = (Opcode::Result, payload.len());
            let header = Header { opcode, sequence: 7, tag: RESULT_OUT_OF_BAND, payload_bytes };
            let mut frames = FrameReader::new();
            push(&mut frames, &[&header.encode(), payload].concat());
            let (header, got) = frames.next().expect("valid").expect("whole");
            assert_eq!(String::from_utf8(got).expect("text"), message);
            let expected = (Opcode::Failure, 7, 0, message.len());
            let Header { opcode, sequence, tag, payload_bytes } = header;
            assert_eq!((opcode, sequence, tag, payload_bytes), expected);
        }
    }

    #[test]
    fn an_end_inside_of_a_frame_says_where() {
        let bytes = frame(3, b"12345");
        for end in 1..bytes.len() {
            let mut frames = FrameReader::new();
            push(&mut frames, &bytes[..end]);
            assert!(frames.next().expect("no frame").is_none());
            let text = frames.ended().expect_err("cut").to_string();
            let expected = match end.checked_sub(HEADER_BYTES) {
                None => format!("after {end} of a header's 32 bytes"),
                Some(payload) => format!("after {payload} of 5 bytes of Call 3"),
            };
            assert!(text.contains(&expected), "{text}");
        }
    }
}
