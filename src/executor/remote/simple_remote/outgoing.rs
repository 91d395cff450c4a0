//! Frames that go out: at once what there is room for, the rest later.

use std::sync::Arc;
use std::thread::ThreadId;

use crate::deadline::Deadline;
use crate::error::Error;
use crate::sys::stream::Writer;
use crate::wire::frame::Header;

/// What goes out.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) stage: Stage,
    pub(super) writer: Arc<Writer>,
    /// What is to be written: from `written` on.
    queue: Vec<u8>,
    written: usize,
    /// Writing has failed: nothing more goes out.
    pub(super) failed: Option<Error>,
    /// The controller is one of ours.
    pub(super) is_ours: bool,
    /// Who writes what is queued.
    pub(super) thread: Option<ThreadId>,
}

/// How far the connection is.
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
    /// Nothing goes out before the stage changes.
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

    /// Bytes that are still to be written.
    pub(super) fn queued(&self) -> usize {
        self.queue.len() - self.written
    }

    /// Writes what there is room for of a frame, and queues the rest. True when there is something to do for the thread that
    /// it does not know of: the first of a queue, or that writing has failed.
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

    /// Writes what there is room for.
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

    /// Nothing goes out any more.
    pub(super) fn close(&mut self) {
        self.stage = Stage::Closed;
        (self.queue, self.written) = (Vec::new(), 0);
        self.writer.shut_down();
    }
}
