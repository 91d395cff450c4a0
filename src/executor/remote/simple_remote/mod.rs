//! Access to a controller over a byte stream, with calls in both directions at once and results in any order.
//!
//! Frames are as in LLVM's `SimpleRemoteEPC` ([`wire::frame`](crate::wire::frame)); the controller may be LLVM's, or
//! a [`Client`](crate::controller::Client) of this library, which says hello.
//!
//! Threads: one, which reads and gives calls to the session. A sending thread writes at once what there is room for; the rest
//! is queued and written by the reading thread. A thread that sends while much is queued waits for room. The reading thread
//! never does, since what it reads may make the room.
//!
//! The end: what is queued is sent, then a hangup and nothing behind it, as far as the peer takes it in time ([`DRAIN`]). The
//! reason that a peer gives counts more than that writing to it failed: what it sent is read to the end.

mod outgoing;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use self::outgoing::{Out, Stage};
use crate::ExecutorAddr;
use crate::call::contract::ConnectionSetup;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::{ERROR_BYTES_MAX, PAYLOAD_BYTES_MAX, SEND_QUEUE_BYTES_MAX};
use crate::origin::Origin;
use crate::session::{
    Answer, Attachment, BootstrapInfo, Completion, ControllerAccess, PendingCalls,
};
use crate::sps::{self, Bytes, Status};
use crate::sync::{Condvar, Mutex};
use crate::sys::io::stream::{self, Reader, Ready, Writer};
use crate::wire::frame::{Header, OWN_VERSION, Opcode, hangup_status};
use crate::wire::frame_reader::FrameReader;

/// How long an end waits for a peer to take what was sent before.
const DRAIN: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5000 });

/// A session's access to a controller at the other end of a byte stream.
///
/// # Examples
///
/// ```
/// use farcall::{Connection, controller::Client, executor::SimpleRemote, session::SessionBuilder};
///
/// let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
/// let dispatch = |task: farcall::task::Task| drop(std::thread::spawn(|| task.run()));
/// let session = SessionBuilder::new(dispatch)
///     .function("shout", |_, args, reply| reply.send(Ok(args.to_ascii_uppercase())))?
///     .build()?;
/// session.attach(SimpleRemote::socket(theirs)?)?;
/// let client = Client::connect(Connection::socket(ours)?)?;
/// let shout = client.symbol("shout").expect("the session offers it");
/// assert_eq!(client.call(shout, b"hello", None)?, b"HELLO");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SimpleRemote {
    shared: Arc<Shared>,
    /// Until it is connected.
    reading: Mutex<Option<Reading>>,
}

/// The state that all threads have.
#[derive(Debug)]
struct Shared {
    pending: PendingCalls,
    out: Mutex<Out>,
    /// There is room in the queue, or the end has come.
    room: Condvar,
    /// Wakes the thread that reads.
    wake: UnixStream,
    /// The process that has that thread.
    origin: Origin,
}

/// The state of the thread that reads.
#[derive(Debug)]
struct Reading {
    reader: Reader,
    woken: UnixStream,
    frames: FrameReader,
}

impl SimpleRemote {
    /// An access that reads from `reader` and writes to `writer`, two pipes for example.
    ///
    /// # Errors
    ///
    /// When a descriptor is of no use, or they run out.
    pub fn stream(reader: impl Into<OwnedFd>, writer: impl Into<OwnedFd>) -> Result<Self> {
        let refused = |error| Error::os("making a pair of sockets", error);
        let (wake, woken) = UnixStream::pair().map_err(refused)?;
        for end in [&wake, &woken] {
            end.set_nonblocking(true).map_err(refused)?;
        }
        let shared = Shared {
            pending: PendingCalls::new(),
            out: Mutex::new(Out::new(Writer::new(writer.into())?)),
            room: Condvar::new(),
            wake,
            origin: Origin::new(),
        };
        let reader = Reader::new(reader.into());
        let reading = Reading { reader, woken, frames: FrameReader::new() };
        Ok(Self { shared: Arc::new(shared), reading: Mutex::new(Some(reading)) })
    }

    /// The same over one connected stream socket. For TCP, switch `nodelay` on before.
    ///
    /// # Errors
    ///
    /// When it is no such socket, which is closed then, or descriptors run out.
    pub fn socket(socket: impl Into<OwnedFd>) -> Result<Self> {
        let reader = socket.into();
        stream::expect_stream_socket(&reader)?;
        let writer = reader
            .try_clone()
            .map_err(|error| Error::os("doubling a socket's descriptor", error))?;
        Self::stream(reader, writer)
    }
}

impl ControllerAccess for SimpleRemote {
    fn connect(&self, attachment: Attachment, info: &BootstrapInfo) -> Result<()> {
        let reading = self.reading.lock().take();
        let reading = reading.ok_or_else(|| Error::invalid("this access was connected before"))?;
        {
            // Nothing goes out ahead of the setup.
            let (mut out, setup) = (self.shared.out.lock(), setup(info, &[]));
            let (opcode, payload_bytes) = (Opcode::Setup, setup.len());
            let header = Header { opcode, sequence: 0, tag: 0, payload_bytes };
            self.shared.put(&mut out, header, &setup);
            out.stage = Stage::Running;
        }
        let shared = Arc::clone(&self.shared);
        let thread = thread::Builder::new().name("farcall-session".to_owned());
        let started = thread.spawn(move || {
            shared.out.lock().thread = Some(thread::current().id());
            let cause = reading.run(&shared, &attachment);
            shared.end(&attachment, cause);
        });
        started.map(drop).map_err(|error| {
            self.shared.out.lock().stage = Stage::Closed;
            Error::os("starting the thread of a session", error)
        })
    }

    fn disconnect(&self) {
        self.shared.hang_up();
    }

    fn call_controller(&self, tag: u64, args: Vec<u8>, completion: Completion) {
        let number = match self.shared.pending.register(completion) {
            Ok(number) => number,
            Err(completion) => return completion.complete(Err(is_over())),
        };
        if let Err(error) = self.shared.send(Opcode::Call, number, tag, &args) {
            // Unless it was failed with all others.
            if let Some(completion) = self.shared.pending.take(number) {
                completion.complete(Err(error));
            }
        }
    }

    fn send_result(&self, call: u64, answer: Answer) {
        let failure = match answer {
            Ok(bytes) => match self.shared.send(Opcode::Result, call, 0, &bytes) {
                Err(error) if error.kind() == ErrorKind::Exhausted => error.to_string(),
                _ => return,
            },
            Err(message) => message,
        };
        let end = failure.floor_char_boundary(ERROR_BYTES_MAX);
        let is_ours = self.shared.out.lock().is_ours;
        // LLVM has no word for it.
        let (opcode, text) =
            if is_ours { (Opcode::Failure, &failure[..end]) } else { (Opcode::Result, "") };
        let _ = self.shared.send(opcode, call, 0, text.as_bytes());
    }
}

impl Shared {
    /// Sends a frame, or queues it.
    ///
    /// # Errors
    ///
    /// When the connection is over, or the payload is too long. In a forked child.
    fn send(&self, opcode: Opcode, sequence: u64, tag: u64, payload: &[u8]) -> Result<()> {
        self.origin.check()?;
        if payload.len() as u64 > PAYLOAD_BYTES_MAX {
            return Err(Error::exhausted(format!(
                "a payload of {} bytes; at most {PAYLOAD_BYTES_MAX} travel in one call",
                payload.len()
            )));
        }
        let mut out = self.out.lock();
        while out.stage == Stage::Running
            && out.queued() > SEND_QUEUE_BYTES_MAX
            && out.thread != Some(thread::current().id())
        {
            out = self.room.wait(out);
        }
        if out.stage != Stage::Running {
            return Err(is_over());
        }
        self.put(&mut out, Header { opcode, sequence, tag, payload_bytes: payload.len() }, payload);
        Ok(())
    }

    /// Writes what there is room for, and leaves the rest to the thread.
    fn put(&self, out: &mut Out, header: Header, payload: &[u8]) {
        if out.put(header, payload) {
            self.wake();
        }
    }

    /// Queues the hangup, if nothing has ended yet.
    fn hang_up(&self) {
        if !self.origin.is_own() {
            return;
        }
        let mut out = self.out.lock();
        if out.stage == Stage::Running {
            let payload = sps::to_bytes(&Status(Ok(())));
            let payload_bytes = payload.len();
            let header = Header { opcode: Opcode::Hangup, sequence: 0, tag: 0, payload_bytes };
            self.put(&mut out, header, &payload);
            out.stage = Stage::Draining { deadline: Deadline::after(DRAIN) };
            self.room.notify_all();
            self.wake();
        }
    }

    fn wake(&self) {
        // When there is no room it is being woken already.
        let _ = std::io::Write::write(&mut &self.wake, &[0]);
    }

    /// The meaning of a stream that has ended between two frames.
    fn ended(&self) -> Result<()> {
        let mut out = self.out.lock();
        match out.failed.take() {
            Some(error) => Err(error),
            // As LLVM's controllers end a session; one of ours says so first.
            None if out.is_ours && out.stage == Stage::Running => Err(Error::disconnected(
                "the controller is gone: its stream ended without a hangup",
            )),
            None => Ok(()),
        }
    }

    /// Handles a frame; returns how the connection has ended, if it has.
    ///
    /// # Errors
    ///
    /// When the controller must not send it.
    fn handle(
        &self,
        attachment: &Attachment,
        header: Header,
        mut payload: Vec<u8>,
    ) -> Result<Option<Result<()>>> {
        let Header { opcode, sequence, tag, .. } = header;
        match opcode {
            Opcode::Call => attachment.handle_call(ExecutorAddr::new(tag), payload, sequence),
            Opcode::Result | Opcode::Failure => {
                let completion = self.pending.take(sequence).ok_or_else(|| {
                    Error::violation(format!("{opcode:?} {sequence}, for which no call waits"))
                })?;
                let outcome = match opcode {
                    Opcode::Result => Ok(payload),
                    _ => {
                        payload.truncate(ERROR_BYTES_MAX);
                        Err(Error::remote(String::from_utf8_lossy(&payload)))
                    }
                };
                attachment.complete(completion, outcome);
            }
            Opcode::Hangup => {
                let payload = hangup_status(payload, self.out.lock().is_ours)?;
                let Status(reason) = sps::from_bytes(&payload)?;
                return Ok(Some(reason.map_err(Error::disconnected)));
            }
            Opcode::Hello if tag == OWN_VERSION && !self.out.lock().is_ours => {
                self.out.lock().is_ours = true;
            }
            Opcode::Hello | Opcode::Setup | Opcode::Posted => {
                return Err(Error::violation(format!(
                    "{opcode:?} {sequence} with tag {tag:#x} has no place here"
                )));
            }
        }
        Ok(None)
    }

    /// The connection is over: fails what is under way, then tells the session.
    fn end(&self, attachment: &Attachment, cause: Result<()>) {
        {
            let mut out = self.out.lock();
            out.close();
            self.room.notify_all();
        }
        for completion in self.pending.close() {
            attachment.complete(completion, Err(is_over()));
        }
        attachment.notify_disconnected(cause);
    }
}

impl Reading {
    /// Reads, and writes what is queued, to the end; returns why it came. Closes the reader.
    fn run(mut self, shared: &Shared, attachment: &Attachment) -> Result<()> {
        let mut failed_by = None;
        loop {
            let (writer, deadline) = {
                let mut out = shared.out.lock();
                if let Stage::Draining { .. } = out.stage
                    && out.queued() == 0
                    && out.failed.is_none()
                {
                    return Ok(());
                }
                let deadline = match out.stage {
                    Stage::Draining { deadline } => deadline,
                    _ if out.failed.is_some() => {
                        *failed_by.get_or_insert_with(|| Deadline::after(DRAIN))
                    }
                    _ => Deadline::SESSION_END,
                };
                if deadline.has_passed() {
                    return Err(out.failed.take().unwrap_or_else(|| {
                        Error::disconnected(format!("the hangup was not taken in {DRAIN:?}"))
                    }));
                }
                let wants_room = out.queued() > 0 && out.failed.is_none();
                (wants_room.then(|| Arc::clone(&out.writer)), deadline)
            };
            let Ready { reader, writer, wake } =
                stream::wait_for_either(&self.reader, writer.as_deref(), &self.woken, deadline)?;
            if wake {
                let _ = std::io::Read::read(&mut &self.woken, &mut [0; 64]);
            }
            // First, so that what the peer says counts more than that it does not listen.
            if reader && let Some(end) = self.read(shared, attachment) {
                return end;
            }
            if writer {
                let mut out = shared.out.lock();
                out.flush();
                if out.queued() <= SEND_QUEUE_BYTES_MAX {
                    shared.room.notify_all();
                }
            }
        }
    }

    /// Reads what there is and handles it; returns how the connection has ended, if it has.
    fn read(&mut self, shared: &Shared, attachment: &Attachment) -> Option<Result<()>> {
        let count = match self.reader.read(self.frames.space(), Deadline::now()) {
            Ok(None) => return None,
            Ok(Some(count)) => count,
            Err(error) => return Some(Err(shared.out.lock().failed.take().unwrap_or(error))),
        };
        if count == 0 {
            return Some(self.frames.ended().and_then(|()| shared.ended()));
        }
        self.frames.received(count);
        loop {
            let end = match self.frames.next() {
                Ok(None) => return None,
                Ok(Some((header, payload))) => shared.handle(attachment, header, payload),
                Err(error) => Err(error),
            };
            match end {
                Ok(None) => {}
                Ok(Some(end)) => return Some(end),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The payload of the setup, in which these are symbols as well.
pub(super) fn setup(info: &BootstrapInfo, others: &[(&str, ExecutorAddr)]) -> Vec<u8> {
    let values = info.values().map(|(name, bytes)| (name.to_owned(), Bytes(bytes.to_vec())));
    let symbols = info.symbols().iter().chain(others.iter().copied());
    let symbols = symbols.map(|(name, address)| (name.to_owned(), address));
    let setup: ConnectionSetup =
        (info.triple().to_owned(), info.page_bytes(), values.collect(), symbols.collect());
    sps::to_bytes(&setup)
}

fn is_over() -> Error {
    Error::disconnected("disconnected")
}
