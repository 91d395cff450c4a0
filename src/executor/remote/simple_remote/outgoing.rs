//! Outgoing frames: sent at once as far as the stream has room, and queued otherwise.

use std::sync::Arc;
use std::thread::ThreadId;

use crate::deadline::Deadline;
use crate::error::Error;
use crate::sys::io::stream::Writer;
use crate::wire::frame::Header;

/// The sending half of a connection.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) stage: Stage,
    pub(super) writer: Arc<Writer>,
    /// The queued bytes, of which those before `written` are sent.
    queue: Vec<u8>,
    written: usize,
    /// The error of a failed write, after which nothing is sent.
    pub(super) failed: Option<Error>,
    /// The controller is of this library.
    pub(super) is_ours: bool,
    /// The thread that writes the queue.
    pub(super) thread: Option<ThreadId>,
}

/// The stage of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    NotConnected,
    Running,
    /// The hangup is queued.
    Draining {
        deadline: Deadline,
    },
    Closed,
}

impl Out {
    /// Nothing is sent before the stage changes.
    pub(super) fn new(writer: Writer) -> Self {
        Self {
            stage: Stage::NotConnected,
            writer: Arc::new(writer),
            queue: Vec::new(),
            written: 0,
            failed: None,
            is_ours: false,
            thread: None,
        }
    }

    /// The number of queued bytes.
    pub(super) fn queued(&self) -> usize {
        self.queue.len() - self.written
    }

    /// Sends as much of a frame as the stream has room for, and queues the rest. True if the queue's thread must be
    /// woken: for the first bytes of a queue, or for a failed write.
    pub(super) fn put(&mut self, header: Header, payload: &[u8]) -> bool {
        if self.failed.is_some() {
            return false;
        }
        let header = header.encode();
        let (mut sent, is_first) = (0, self.queued() == 0);
        if is_first {
            match self.writer.write_some(&[&header, payload]) {
                Ok(bytes) if bytes == header.len() + payload.len() => return false,
                Ok(bytes) => sent = bytes,
                Err(error) => self.failed = Some(error),
            }
        }
        self.queue.extend_from_slice(&header[sent.min(header.len())..]);
        self.queue.extend_from_slice(&payload[sent.saturating_sub(header.len())..]);
        is_first
    }

    /// Sends as much of the queue as the stream has room for.
    pub(super) fn flush(&mut self) {
        if self.failed.is_some() || self.queued() == 0 {
            return;
        }
        match self.writer.write_some(&[&self.queue[self.written..]]) {
            Ok(bytes) => self.written += bytes,
            Err(error) => self.failed = Some(error),
        }
        if self.queued() == 0 || self.failed.is_some() {
            (self.queue, self.written) = (Vec::new(), 0);
        }
    }

    /// Closes the sending half.
    pub(super) fn close(&mut self) {
        self.stage = Stage::Closed;
        (self.queue, self.written) = (Vec::new(), 0);
        self.writer.shut_down();
    }
}
