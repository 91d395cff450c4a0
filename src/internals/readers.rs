//! Everything that reads bytes of others, as functions of bytes.
//!
//! Invariant: each returns for every input; a panic, or more memory than `tests/coverage_fuzz` allows, is a fault.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::AddrRange;
use crate::controller::process::lane_opener::LaneOpener;
use crate::controller::profile::jit_records::{Records, closing};
use crate::deadline::Deadline;
use crate::error::ErrorKind;
use crate::link::PlacedObject;
use crate::sync::AtomicU64;
use crate::transport::{Incoming, PollPolicy, Stream, Transport};
use crate::wire::Kind;
use crate::wire::control::{ControlMessage, MESSAGE_BYTES_MAX};
use crate::wire::frame::{HEADER_BYTES, Opcode};
use crate::wire::frame_reader::FrameReader;
use crate::wire::layout::VERSION;

/// Takes frames out of bytes that come in pieces of this size, as an embedded session does. Returns how many those are.
///
/// # Panics
///
/// When a frame has bytes that never came, or a payload other than its bytes.
#[must_use]
pub fn frames(bytes: &[u8], piece_bytes: usize) -> usize {
    let (mut frames, mut count, mut taken) = (FrameReader::new(), 0, 0);
    // Between two reads less than a header is left over.
    let most = frames.space().len() - HEADER_BYTES;
    for piece in bytes.chunks(piece_bytes.clamp(1, most)) {
        frames.space()[..piece.len()].copy_from_slice(piece);
        frames.received(piece.len());
        loop {
            match frames.next() {
                Ok(Some((header, payload))) => {
                    let size = bytes[taken..].first_chunk().copied().map(u64::from_le_bytes);
                    let size = size.and_then(|size| usize::try_from(size).ok()).expect("a size");
                    let came = &bytes[taken..taken + size];
                    // The reader gives an out-of-band result as a failure, with a message of its own.
                    let is_out_of_band =
                        header.opcode == Opcode::Failure && came[8] == Opcode::Result as u8;
                    assert!(is_out_of_band || payload == came[HEADER_BYTES..], "{header:?}");
                    taken += size;
                    count += 1;
                }
                Ok(None) => break,
                Err(_) => return count,
            }
        }
    }
    let is_whole = frames.ended().is_ok();
    assert_eq!(is_whole, taken == bytes.len());
    count
}

/// Receives what a peer sends that closes behind it, while this number of calls waits for answers. Returns how many messages came.
///
/// # Panics
///
/// When the system refuses a pair of sockets, or more messages come than the bytes can be.
#[must_use]
pub fn stream(bytes: &[u8], calls: u8) -> usize {
    let pair = || UnixStream::pair().expect("sockets");
    let (ours, mut theirs) = pair();
    let (sent, _kept) = pair();
    let mut stream = Stream::new(ours.into(), OwnedFd::from(sent)).expect("of use");
    for _ in 0..calls {
        stream.send(Kind::Call, 0, &[], Deadline::SESSION_END).expect("room for a header");
    }
    // Bytes for which the socket has no room are left out.
    theirs.set_nonblocking(true).expect("a socket");
    let mut message = Incoming::new();
    let mut count = 0;
    for piece in bytes.chunks(1 << 16) {
        let written = theirs.write(piece).unwrap_or(0);
        if written < piece.len() {
            break;
        }
    }
    drop(theirs);
    while matches!(stream.receive(Deadline::SESSION_END, &mut message), Ok(true)) {
        count += 1;
        assert!(count <= bytes.len() / 32 + 1, "{count} messages");
        if message.kind == Kind::Hangup {
            break;
        }
    }
    count
}

/// A message of the control socket: any of its forms, by number.
#[must_use]
pub fn control_message(form: usize, numbers: u64) -> Vec<u8> {
    let forms = ControlMessage::FORMS;
    let form = forms[form % forms.len()];
    let mut bytes = vec![form.letter];
    bytes.resize(form.bytes, numbers.to_le_bytes()[0]);
    // The first number of a few is a version.
    if let Some(version) = bytes[1..].first_chunk_mut::<8>() {
        *version = if numbers.is_multiple_of(4) { numbers } else { VERSION }.to_le_bytes();
    }
    bytes.extend_from_slice(if form.has_text { b"no memory" } else { b"" });
    bytes
}

/// Decodes a message of the control socket, and gives it to a controller as its executor's. True when it decodes.
///
/// # Panics
///
/// When the message that was decoded has other bytes than those that it encodes to, or the error has no name for the message.
#[must_use]
pub fn control(bytes: &[u8]) -> bool {
    let message = match ControlMessage::decode(bytes) {
        Ok(message) => {
            let encoded = message.encode();
            assert!(encoded.len() <= MESSAGE_BYTES_MAX, "{} bytes", encoded.len());
            let again = ControlMessage::decode(&encoded).expect("what was encoded decodes");
            assert_eq!(again, message);
            Some(message)
        }
        Err(error) => {
            assert!(error.kind() == ErrorKind::Violation && !error.to_string().is_empty());
            None
        }
    };
    let (ours, theirs) = UnixStream::pair().expect("sockets");
    theirs.set_nonblocking(true).expect("a socket");
    // Bytes for which the socket has no room are left out.
    let written = (&theirs).write(bytes).unwrap_or(0);
    let opener = LaneOpener::new(ours.into(), PollPolicy::default());
    let is_taken = opener.answer();
    // Other messages are not for a controller, or come too early, or find no sweeper expected.
    let is_due = match message {
        Some(
            ControlMessage::Refused { .. }
            | ControlMessage::LastWords { .. }
            | ControlMessage::NotInterrupted { .. },
        ) => true,
        Some(_) | None => written == 0,
    };
    assert!(!is_taken || is_due, "taken, and not due: {bytes:x?}");
    assert!(is_taken || written == 0 || opener.violation().is_some(), "{bytes:x?}");
    message.is_some()
}

/// The file for perf of a link with these objects and functions. `code` returns the bytes of a range.
#[must_use]
pub fn jit_dump<'a>(
    objects: &[PlacedObject],
    functions: impl Iterator<Item = (AddrRange, &'a str)>,
    code: impl Fn(AddrRange) -> &'a [u8],
) -> Vec<u8> {
    let records = Records { pid: 1, time: 2, next: &AtomicU64::new(0) };
    [records.of_link(objects, functions, code), closing(3)].concat()
}
