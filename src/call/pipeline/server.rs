//! The executor's end of a pipeline.

use std::collections::VecDeque;

use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::limits::ERROR_BYTES_MAX;
use crate::transport::pipeline::{EMPTY_LINE, Inbound, Outbound, Received};
use crate::transport::{Moment, Polling};
use crate::wire::pipeline::{CallsHead, Record, SHARED_WORDS_MAX, WORD_BYTES, next_sequence};

/// Lines that are fetched ahead when several calls have come in one line. Lines further ahead are too often still being
/// written.
const PREFETCH_LINES: u64 = 3;
/// The largest buffer that is kept for the next long payload.
const RESULT_BYTES_KEPT: usize = 64 << 10;

/// The executor's end of a pipeline. Runs calls on the serving thread.
#[derive(Debug)]
pub(crate) struct Server {
    inbound: Inbound,
    outbound: Outbound,
    polling: Polling,
    /// Results that did not fit the ring, in order. While there are any, later results go here too.
    backlog: VecDeque<Waiting>,
}

/// Runs calls. A trait and no closure, so that it is compiled into the loop of calls.
pub(crate) trait Handler {
    type Answer: AsRef<[u8]>;

    /// Runs the call with this number of the function `target`. `None` if its result is one word, which is then `word`. `Err` has the
    /// words that are answered out of band.
    fn run(
        &self,
        sequence: u64,
        target: u64,
        args: &[u8],
        word: &mut u64,
    ) -> Option<std::result::Result<Self::Answer, String>>;
}

#[cfg(test)]
impl<R: AsRef<[u8]>, F: Fn(u64, &[u8]) -> std::result::Result<R, String>> Handler for F {
    type Answer = R;

    fn run(
        &self,
        _: u64,
        target: u64,
        args: &[u8],
        _: &mut u64,
    ) -> Option<std::result::Result<R, String>> {
        Some(self(target, args))
    }
}

/// A result that waits for room in the ring.
#[derive(Debug)]
struct Waiting {
    kind: Record,
    sequence: u64,
    bytes: Vec<u8>,
    /// Bytes that were sent.
    sent: usize,
}

impl Server {
    pub(crate) fn new((outbound, inbound, polling): (Outbound, Inbound, Polling)) -> Self {
        Self { inbound, outbound, polling, backlog: VecDeque::new() }
    }

    /// Has `handler` run calls until the controller closes the pipeline. Calls that were submitted before the close are run, even
    /// when their results are not received any more.
    ///
    /// # Errors
    ///
    /// When the controller broke the protocol.
    pub(crate) fn serve(mut self, handler: &impl Handler) -> Result<()> {
        let mut line = EMPTY_LINE;
        let mut long = Vec::new();
        loop {
            let (kind, sequence, target, payload) =
                match self.inbound.receive(&mut line, &mut long)? {
                    Received::Line(head) => {
                        let payload = line.get_mut(..head.payload_bytes()).unwrap_or_default();
                        (head.kind(), head.sequence, head.target, payload)
                    }
                    Received::Long(head) => (head.kind, head.sequence, head.target, &mut long[..]),
                    Received::Closed => return Ok(()),
                    Received::Nothing | Received::Words(_) => {
                        self.idle()?;
                        continue;
                    }
                };
            if kind == Record::Calls as u8 {
                self.run_several(sequence, target, payload, handler)?;
            } else if kind == Record::Call as u8 {
                // The call may take long, and the next fence comes only behind it.
                self.outbound.wake_seen();
                let mut word = 0;
                match handler.run(sequence, target, payload, &mut word) {
                    None => self.answer(Record::Result, sequence, &word.to_le_bytes())?,
                    Some(Ok(result)) => self.answer(Record::Result, sequence, result.as_ref())?,
                    Some(Err(message)) => self.fail(sequence, message)?,
                }
            } else {
                let bytes = payload.len();
                let message = format!("record {kind} of {bytes} bytes where a call was due");
                return Err(Error::violation(message));
            }
            if long.capacity() > RESULT_BYTES_KEPT {
                long = Vec::new();
            }
        }
    }

    /// Runs the calls of one record.
    #[inline(always)]
    fn run_several(
        &mut self,
        mut sequence: u64,
        target: u64,
        payload: &mut [u8],
        handler: &impl Handler,
    ) -> Result<()> {
        let bytes = payload.len();
        let Some(CallsHead { target, shared, row }) = CallsHead::unpack(target, bytes) else {
            return Err(Error::violation(format!("{bytes} bytes that are no calls")));
        };
        // A batch mostly continues in the next lines.
        (0..PREFETCH_LINES).for_each(|line| self.inbound.prefetch(line));
        self.outbound.prefetch();
        let mut common = [0; SHARED_WORDS_MAX * WORD_BYTES];
        common[..shared].copy_from_slice(&payload[..shared]);
        let are_several = bytes > shared + row;
        let mut start = 0;
        while start + shared < bytes {
            let end = start + shared + row;
            let args = &mut payload[start..end];
            // The shared bytes go in front of each call, over what the calls before it had.
            args[..shared].copy_from_slice(&common[..shared]);
            // The call may take long, and the next fence comes only behind it.
            self.outbound.wake_seen();
            let is_last = end == bytes;
            let mut word = 0;
            match handler.run(sequence, target, args, &mut word) {
                None if are_several => self.answer_word(sequence, word.to_le_bytes(), is_last)?,
                None => self.answer(Record::Result, sequence, &word.to_le_bytes())?,
                Some(Ok(result)) => match result.as_ref().try_into() {
                    Ok(word) if are_several => self.answer_word(sequence, word, is_last)?,
                    _ => self.answer(Record::Result, sequence, result.as_ref())?,
                },
                Some(Err(message)) => self.fail(sequence, message)?,
            }
            sequence = next_sequence(sequence);
            start += row;
        }
        Ok(())
    }

    /// Answers one of several calls in a record. The result is published at once, in the line of those before it.
    #[inline(always)]
    fn answer_word(&mut self, sequence: u64, word: [u8; WORD_BYTES], is_last: bool) -> Result<()> {
        if self.backlog.is_empty() {
            let went = self.outbound.send_word(sequence, word, is_last);
            if went.or_else(|error| self.unheard(error))? {
                return Ok(());
            }
        }
        let bytes = word.to_vec();
        self.keep(Waiting { kind: Record::Result, sequence, bytes, sent: 0 })
    }

    #[inline(always)]
    fn answer(&mut self, kind: Record, sequence: u64, result: &[u8]) -> Result<()> {
        let mut sent = 0;
        if self.backlog.is_empty() {
            self.outbound.complete();
            let went = self.outbound.send(kind, sequence, 0, result, &mut sent);
            if went.or_else(|error| self.unheard(error))? {
                return Ok(());
            }
        }
        self.keep(Waiting { kind, sequence, bytes: result.to_vec(), sent })
    }

    #[cold]
    fn fail(&mut self, sequence: u64, mut message: String) -> Result<()> {
        message.truncate(message.floor_char_boundary(ERROR_BYTES_MAX));
        self.answer(Record::Failure, sequence, message.as_bytes())
    }

    #[cold]
    fn keep(&mut self, result: Waiting) -> Result<()> {
        self.backlog.push_back(result);
        self.send_backlog()
    }

    /// Drops the backlog: nothing can be sent any more. That is an error only when the controller broke the protocol.
    #[cold]
    fn unheard(&mut self, error: Error) -> Result<bool> {
        self.backlog.clear();
        if error.kind() == ErrorKind::Violation { Err(error) } else { Ok(true) }
    }

    /// Sends as much of the backlog as there is room for.
    #[cold]
    fn send_backlog(&mut self) -> Result<()> {
        while let Some(Waiting { kind, sequence, bytes, sent }) = self.backlog.front_mut() {
            match self.outbound.send(*kind, *sequence, 0, bytes, sent) {
                Ok(true) => drop(self.backlog.pop_front()),
                Ok(false) => break,
                Err(error) => drop(self.unheard(error)?),
            }
        }
        Ok(())
    }

    /// Sends what there is room for. Then waits for the next call, or for room for the backlog: polls for a while, then sleeps.
    #[cold]
    fn idle(&mut self) -> Result<()> {
        self.send_backlog()?;
        if self.inbound.take_room_news() {
            self.outbound.wake();
        }
        let Self { inbound, outbound, backlog, polling } = self;
        let left = backlog.front().map(|result| result.bytes.len() - result.sent);
        polling.wait(Deadline::SESSION_END, |moment| {
            let has_cause = |outbound: &mut Outbound| {
                !inbound.is_empty() || left.is_some_and(|bytes| outbound.has_room(bytes))
            };
            match moment {
                Moment::Poll => return has_cause(outbound).then_some(()),
                // A controller that sleeps is woken to the results that have gone out.
                Moment::Look => outbound.wake(),
                Moment::Sleep { .. } => {
                    outbound.wake();
                    inbound.sleep_unless(Deadline::SESSION_END, || has_cause(outbound));
                }
            }
            None
        });
        Ok(())
    }
}
