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

use std::os::fd::{BorrowedFd, OwnedFd};

use super::Transport;
use super::kept::Kept;
use super::message::Incoming;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::sys::io::stream::{Reader, Writer};
use crate::wire::Kind;
use crate::wire::frame::{Header, OWN_VERSION, Opcode, hangup_status};
use crate::wire::frame_reader::FrameReader;

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
    frames: FrameReader,
    /// Frames that belong to one batch: posted calls, and the message behind them.
    kept: Kept<Arrived>,
    /// The payload bytes of those.
    kept_bytes: usize,
    /// The end of the batch that is arriving has not come.
    is_in_batch: bool,
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
            frames: FrameReader::new(),
            kept: Kept::new(),
            kept_bytes: 0,
            is_in_batch: false,
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

    /// Reads until a frame is whole; `None` when it is not whole by the deadline.
    fn frame(&mut self, deadline: Deadline) -> Result<Option<Arrived>> {
        loop {
            if let Some((header, payload)) = self.frames.next()? {
                return Ok(Some(Arrived::Frame(header, payload)));
            }
            match self.reader.read(self.frames.space(), deadline)? {
                None => return Ok(None),
                Some(0) => return self.frames.ended().map(|()| Some(Arrived::End)),
                Some(bytes) => self.frames.received(bytes),
            }
        }
    }

    /// The next frame that is due: what was kept, or what comes. Posted calls are kept until the message behind them has
    /// come, so that it runs after the calls that they make. `None` when none is due by the deadline.
    fn next(&mut self, deadline: Deadline) -> Result<Option<Arrived>> {
        loop {
            if !self.is_in_batch
                && let Some(kept) = self.kept.pop()
            {
                self.kept_bytes -= kept.bytes();
                return Ok(Some(kept));
            }
            let Some(arrived) = self.frame(deadline)? else { return Ok(None) };
            let is_posted =
                matches!(arrived, Arrived::Frame(Header { opcode: Opcode::Posted, .. }, _));
            if !is_posted && !self.is_in_batch {
                return Ok(Some(arrived));
            }
            self.kept_bytes += arrived.bytes();
            if self.kept_bytes as u64 > PAYLOAD_BYTES_MAX {
                return Err(Error::violation(format!(
                    "{} bytes were sent ahead of a message, at most {PAYLOAD_BYTES_MAX} may",
                    self.kept_bytes
                )));
            }
            self.is_in_batch = is_posted;
            self.kept.push(arrived);
        }
    }

    /// The innermost call's answer, if it came early.
    fn take_early(&mut self) -> Option<(Header, Vec<u8>)> {
        let innermost = self.made.last()?;
        let at = self.early.iter().position(|(header, _)| header.sequence == *innermost)?;
        Some(self.early.swap_remove(at))
    }

    /// Keeps an answer until the calls inside of its call are answered.
    fn keep_early(&mut self, header: Header, payload: Vec<u8>) -> Result<()> {
        let Header { opcode, sequence, .. } = header;
        let is_early = self.early.iter().any(|(early, _)| early.sequence == sequence);
        if is_early || !self.made.contains(&sequence) {
            return Err(Error::violation(format!(
                "{opcode:?} {sequence}, and the calls that wait are {:?}",
                self.made
            )));
        }
        let kept: usize = self.early.iter().map(|(_, payload)| payload.len()).sum();
        let kept = kept + payload.len();
        if kept as u64 > PAYLOAD_BYTES_MAX {
            return Err(Error::violation(format!(
                "{kept} bytes of answers came before their turn, at most {PAYLOAD_BYTES_MAX} may"
            )));
        }
        self.early.push((header, payload));
        Ok(())
    }

    /// The answer of the innermost call as a message.
    fn deliver(&mut self, header: Header, payload: Vec<u8>, message: &mut Incoming) {
        self.made.pop();
        if !self.kept.is_quiet() {
            self.kept.answer_came();
        }
        let kind = if header.opcode == Opcode::Failure { Kind::Failure } else { Kind::Result };
        message.set(kind, 0, None, payload);
    }
}

/// What a stream has brought.
#[derive(Debug)]
enum Arrived {
    Frame(Header, Vec<u8>),
    End,
}

impl Arrived {
    /// The memory that it takes. An empty frame counts too, so that a flood of them has a bound.
    fn bytes(&self) -> usize {
        let payload = if let Self::Frame(_, payload) = self { payload.len() } else { 0 };
        size_of::<Self>() + payload
    }
}

impl Transport for Stream {
    fn send(&mut self, kind: Kind, target: u64, payload: &[u8], deadline: Deadline) -> Result<()> {
        match kind {
            Kind::Call => {
                let sequence = self.sequence.wrapping_add(1).max(1);
                self.write(Opcode::Call, sequence, target, payload, deadline)?;
                self.sequence = sequence;
                self.made.push(sequence);
                if !self.kept.is_quiet() {
                    self.kept.call_was_sent();
                }
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
            let (header, payload) = match self.next(deadline)? {
                None => return Ok(false),
                Some(Arrived::Frame(header, payload)) => (header, payload),
                Some(Arrived::End) => {
                    // As LLVM ends a session. An empty list of reasons: an orderly end.
                    message.set(Kind::Hangup, 0, None, vec![0]);
                    return Ok(true);
                }
            };
            let Header { opcode, sequence, tag, .. } = header;
            match opcode {
                Opcode::Result | Opcode::Failure if self.made.last() != Some(&sequence) => {
                    self.keep_early(header, payload)?;
                    continue;
                }
                Opcode::Result | Opcode::Failure => self.deliver(header, payload, message),
                Opcode::Hello if self.heard_hello || tag != OWN_VERSION => {
                    return Err(Error::violation(format!(
                        "a hello of version {tag:#x}, heard before: {}",
                        self.heard_hello
                    )));
                }
                Opcode::Hello => {
                    (self.peer, self.said_hello, self.heard_hello) = (Peer::Ours, true, true);
                    continue;
                }
                Opcode::Posted => message.set(Kind::Call, tag, Some(sequence), payload),
                Opcode::Call => {
                    self.taken.push(sequence);
                    message.set(Kind::Call, tag, None, payload);
                }
                Opcode::Hangup => {
                    let payload = hangup_status(payload, self.peer == Peer::Ours)?;
                    message.set(Kind::Hangup, 0, None, payload);
                }
                Opcode::Setup => message.set(Kind::Setup, 0, None, payload),
            }
            return Ok(true);
        }
    }

    /// Nothing: a session has no other lanes beside a stream.
    fn settle(&mut self, _sequence: u64) {}

    /// Nothing: code that comes over a stream is stored by the executor itself.
    fn code_written(&mut self) {}
}
