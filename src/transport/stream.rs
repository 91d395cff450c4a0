//! A byte stream: frames of LLVM's `SimpleRemoteEPC` over a pair of pipes, a Unix socket or TCP.
//!
//! The peer may be an LLVM controller or executor, which knows four opcodes ([`Opcode`]). Two ends of this library use more
//! opcodes. The end that learns what the other is ([`Stream::meet_ours`]) says hello in front of its next frame. From then on
//! both use those opcodes.
//!
//! | message | to LLVM | to this library |
//! |---|---|---|
//! | out-of-band failure | an empty result, as from LLVM's own executor | an opcode of its own |
//! | posted call | cannot be sent | an opcode of its own |
//!
//! Every call has its sender's number. An end knows the numbers of the calls that it has to answer, innermost last, and of
//! those that it waits for. LLVM runs calls concurrently, so the answer of a call may come before that of a call made inside
//! of it. Such an answer is kept until the inner ones have come.
//!
//! Invariant: a frame's header is checked before memory is allocated for it, and memory is allocated as its bytes arrive.

use std::os::fd::{BorrowedFd, OwnedFd};

use super::Transport;
use super::message::Incoming;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::sys::stream::{Reader, Writer};
use crate::wire::Kind;
use crate::wire::frame::{HEADER_BYTES, Header, OWN_VERSION, Opcode};

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;

/// What is known of the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    /// It may be LLVM.
    Unknown,
    /// It understands our opcodes.
    Ours,
}

/// One end of a stream.
#[derive(Debug)]
pub(crate) struct Stream {
    reader: Reader,
    writer: Writer,
    peer: Peer,
    said_hello: bool,
    heard_hello: bool,
    /// Bytes that were read and belong to later frames: those from `start` to `end`.
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The frame that is arriving.
    header: Option<Header>,
    payload: Vec<u8>,
    /// The number of the last call made.
    sequence: u64,
    /// Numbers of calls made and not answered, innermost last.
    made: Vec<u64>,
    /// Numbers of calls to answer, innermost last.
    taken: Vec<u64>,
    /// Answers that came before it was their turn.
    early: Vec<(Header, Vec<u8>)>,
}

impl Stream {
    /// One end of a stream that is read from `reader` and written to `writer`, which may be one socket twice.
    ///
    /// # Errors
    ///
    /// When the system does not describe the writer (`fstat`).
    pub(crate) fn new(reader: OwnedFd, writer: OwnedFd) -> Result<Self> {
        Ok(Self {
            reader: Reader::new(reader),
            writer: Writer::new(writer)?,
            peer: Peer::Unknown,
            said_hello: false,
            heard_hello: false,
            buffer: vec![0; READ_BYTES].into(),
            start: 0,
            end: 0,
            header: None,
            payload: Vec::new(),
            sequence: 0,
            made: Vec::new(),
            taken: Vec::new(),
            early: Vec::new(),
        })
    }

    /// Tells that the other end is this library.
    pub(crate) fn meet_ours(&mut self) {
        self.peer = Peer::Ours;
    }

    /// The descriptor that is read from.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.reader.descriptor()
    }

    /// Sets the number of the last call.
    #[cfg(test)]
    pub(crate) fn number_from(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    fn write(
        &mut self,
        opcode: Opcode,
        sequence: u64,
        tag: u64,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<()> {
        if payload.len() as u64 > PAYLOAD_BYTES_MAX {
            return Err(Error::exhausted(format!(
                "a payload of {} bytes; at most {PAYLOAD_BYTES_MAX} travel in one call",
                payload.len()
            )));
        }
        let header = Header { opcode, sequence, tag, payload_bytes: payload.len() }.encode();
        if self.peer == Peer::Ours && !self.said_hello {
            self.said_hello = true;
            let opcode = Opcode::Hello;
            let hello = Header { opcode, sequence: 0, tag: OWN_VERSION, payload_bytes: 0 };
            return self.writer.write(&[&hello.encode(), &header, payload], deadline);
        }
        self.writer.write(&[&header, payload], deadline)
    }

    /// Answers the innermost call.
    fn answer(&mut self, opcode: Opcode, payload: &[u8], deadline: Deadline) -> Result<()> {
        let sequence = self.taken.last().copied();
        let sequence = sequence
            .ok_or_else(|| Error::invalid(format!("{opcode:?} where no call is to be answered")))?;
        self.write(opcode, sequence, 0, payload, deadline)?;
        self.taken.pop();
        Ok(())
    }

    /// Reads until a frame is whole and moves its payload to `self.payload`; `None` when the frame is not whole by the
    /// deadline.
    fn frame(&mut self, deadline: Deadline) -> Result<Option<Frame>> {
        loop {
            if self.header.is_none() && self.end - self.start >= HEADER_BYTES {
                let bytes = self.buffer[self.start..].first_chunk();
                let header = bytes.map(Header::decode).transpose()?;
                self.start += HEADER_BYTES;
                self.header = header;
                self.payload = Vec::new();
            }
            if let Some(header) = self.header {
                let wanted = header.payload_bytes - self.payload.len();
                let bytes = wanted.min(self.end - self.start);
                self.payload.extend_from_slice(&self.buffer[self.start..self.start + bytes]);
                self.start += bytes;
                if bytes == wanted {
                    self.header = None;
                    return Ok(Some(Frame::Whole(header)));
                }
            }
            // What is left is less than a header.
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            match self.reader.read(&mut self.buffer[self.end..], deadline)? {
                None => return Ok(None),
                Some(0) => return self.ended().map(Some),
                Some(bytes) => self.end += bytes,
            }
        }
    }

    /// The error for the end of the stream: an orderly end only between two frames.
    fn ended(&self) -> Result<Frame> {
        match self.header {
            None if self.end == self.start => Ok(Frame::End),
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

    /// The innermost call's answer, if it came early.
    fn take_early(&mut self) -> Option<(Header, Vec<u8>)> {
        let innermost = self.made.last()?;
        let at = self.early.iter().position(|(header, _)| header.sequence == *innermost)?;
        Some(self.early.swap_remove(at))
    }

    /// True when an answer is that of the innermost call; any other answer is kept.
    fn is_innermost(&mut self, header: Header) -> Result<bool> {
        let Header { opcode, sequence, .. } = header;
        if self.made.last() == Some(&sequence) {
            return Ok(true);
        }
        let is_early = self.early.iter().any(|(early, _)| early.sequence == sequence);
        if is_early || !self.made.contains(&sequence) {
            return Err(Error::violation(format!(
                "{opcode:?} {sequence}, and the calls that wait are {:?}",
                self.made
            )));
        }
        let kept: usize = self.early.iter().map(|(_, payload)| payload.len()).sum();
        let kept = kept + self.payload.len();
        if kept as u64 > PAYLOAD_BYTES_MAX {
            return Err(Error::violation(format!(
                "{kept} bytes of answers came before their turn, at most {PAYLOAD_BYTES_MAX} may"
            )));
        }
        self.early.push((header, std::mem::take(&mut self.payload)));
        Ok(false)
    }

    /// The answer of the innermost call as a message.
    fn deliver(&mut self, header: Header, payload: Vec<u8>, message: &mut Incoming) {
        self.made.pop();
        let kind = if header.opcode == Opcode::Failure { Kind::Failure } else { Kind::Result };
        message.set(kind, 0, None, payload);
    }
}

/// What a stream has brought.
enum Frame {
    Whole(Header),
    End,
}

impl Transport for Stream {
    fn send(&mut self, kind: Kind, target: u64, payload: &[u8], deadline: Deadline) -> Result<()> {
        match kind {
            Kind::Call => {
                let sequence = self.sequence.wrapping_add(1).max(1);
                self.write(Opcode::Call, sequence, target, payload, deadline)?;
                self.sequence = sequence;
                self.made.push(sequence);
                Ok(())
            }
            Kind::Result => self.answer(Opcode::Result, payload, deadline),
            Kind::Failure => match self.peer {
                Peer::Ours => self.answer(Opcode::Failure, payload, deadline),
                Peer::Unknown => self.answer(Opcode::Result, &[], deadline),
            },
            Kind::Setup => self.write(Opcode::Setup, 0, 0, payload, deadline),
            Kind::Hangup => self.write(Opcode::Hangup, 0, 0, payload, deadline),
            Kind::Part | Kind::Continue => {
                Err(Error::invalid(format!("{kind:?} has no place in a stream")))
            }
        }
    }

    fn post(
        &mut self,
        kind: Kind,
        sequence: u64,
        target: u64,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<()> {
        if kind != Kind::Call || self.peer != Peer::Ours {
            return Err(Error::invalid(format!(
                "{kind:?} {sequence} cannot be posted to {:?} peer",
                self.peer
            )));
        }
        self.write(Opcode::Posted, sequence, target, payload, deadline)
    }

    fn receive(&mut self, deadline: Deadline, message: &mut Incoming) -> Result<bool> {
        if let Some((header, payload)) = self.take_early() {
            self.deliver(header, payload, message);
            return Ok(true);
        }
        loop {
            let header = match self.frame(deadline)? {
                None => return Ok(false),
                Some(Frame::Whole(header)) => header,
                Some(Frame::End) => {
                    // As LLVM ends a session. An empty list of reasons: an orderly end.
                    message.set(Kind::Hangup, 0, None, vec![0]);
                    return Ok(true);
                }
            };
            match header.opcode {
                Opcode::Result | Opcode::Failure if !self.is_innermost(header)? => continue,
                Opcode::Hello if self.heard_hello || header.tag != OWN_VERSION => {
                    return Err(Error::violation(format!(
                        "a hello of version {:#x}, heard before: {}",
                        header.tag, self.heard_hello
                    )));
                }
                Opcode::Hello => {
                    (self.peer, self.said_hello, self.heard_hello) = (Peer::Ours, true, true);
                    continue;
                }
                _ => {}
            }
            let mut payload = std::mem::take(&mut self.payload);
            let tag = header.tag;
            match header.opcode {
                Opcode::Result | Opcode::Failure => self.deliver(header, payload, message),
                Opcode::Posted => message.set(Kind::Call, tag, Some(header.sequence), payload),
                Opcode::Call => {
                    self.taken.push(header.sequence);
                    message.set(Kind::Call, tag, None, payload);
                }
                Opcode::Hangup => {
                    if payload.is_empty() {
                        payload.push(0);
                    }
                    message.set(Kind::Hangup, 0, None, payload);
                }
                Opcode::Setup | Opcode::Hello => message.set(Kind::Setup, 0, None, payload),
            }
            return Ok(true);
        }
    }

    /// Nothing: a session has no other lanes beside a stream.
    fn settle(&mut self, _sequence: u64) {}

    /// Nothing: code that comes over a stream is stored by the executor itself.
    fn code_written(&mut self) {}
}
