//! The receiving half of a lane's end.

use super::Lane;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::ring::LINE_WORDS;
use crate::sync::Ordering;
use crate::sys::cpu;
use crate::transport::message::{Content, Incoming};
use crate::wire::Kind;
use crate::wire::baton::{Word, decode_place, hop_of, next_hop};

use super::LINE_BYTES;

impl Lane {
    /// Receives a message while others are kept: the first of those that are due, or what answers or comes inside of the
    /// innermost call.
    #[cold]
    pub(super) fn receive_inside(
        &mut self,
        deadline: Deadline,
        message: &mut Incoming,
    ) -> Result<bool> {
        if !self.inbox.is_empty() {
            self.receive_kept(message)?;
        } else if !self.receive_next(deadline, message)? {
            return Ok(false);
        }
        if matches!(message.kind, Kind::Result | Kind::Failure) && message.posted.is_none() {
            self.inbox.answer_came();
        }
        Ok(true)
    }

    /// Receives the next message that the peer sends.
    #[inline(always)]
    pub(super) fn receive_next(
        &mut self,
        deadline: Deadline,
        message: &mut Incoming,
    ) -> Result<bool> {
        let Some(word) = self.take_baton(deadline)? else { return Ok(false) };
        if word.ring {
            return self.receive_ring(word, deadline, message);
        }
        self.read_baton(word, message);
        if word.bulk {
            self.read_bulk(message)?;
        }
        Ok(true)
    }

    /// Finds the payload that a baton says is in the bulk buffer.
    fn read_bulk(&mut self, message: &mut Incoming) -> Result<()> {
        let (line, bytes) =
            decode_place(u64::from_le_bytes(message.inline[..8].try_into().unwrap_or_default()));
        let start = line.saturating_mul(LINE_BYTES as u64);
        let place = self.bulk.at(start, bytes).ok_or_else(|| {
            Error::violation(format!(
                "{bytes} bytes at {start:#x} of a bulk buffer of {:#x}",
                self.bulk.bytes()
            ))
        })?;
        if message.kind == Kind::Call {
            let end = usize::try_from(start + bytes).unwrap_or_default();
            self.free = self.free.max(end.next_multiple_of(LINE_BYTES));
        }
        message.content = Content::Shared(place);
        Ok(())
    }

    /// Receives the next message, when `word` says that the ring has part of it or messages before it. False when the rest has
    /// not come by the deadline.
    #[cold]
    fn receive_ring(
        &mut self,
        word: Word,
        deadline: Deadline,
        message: &mut Incoming,
    ) -> Result<bool> {
        let mut is_message = self.read_ring(word, message)?;
        while self.inbox.is_empty() {
            if is_message {
                return Ok(true);
            }
            let Some(taken) = self.take_message(deadline, message)? else { return Ok(false) };
            is_message = taken;
        }
        if is_message {
            let content = Content::Heap(message.payload().bytes().into_owned());
            let Incoming { kind, target, posted, mark, .. } = *message;
            self.inbox.keep(Incoming { kind, target, posted, mark, content, ..Incoming::new() })?;
        }
        self.receive_kept(message).map(|()| true)
    }

    #[cold]
    fn receive_kept(&mut self, message: &mut Incoming) -> Result<()> {
        *message = self.inbox.next().ok_or_else(|| Error::violation("no message was kept"))?;
        Ok(())
    }

    /// Waits for the baton and drains the inbound ring as far as it says. False when the peer only wanted room in its ring: it
    /// has room and the baton then. `None` when the baton has not come by the deadline.
    pub(super) fn take_message(
        &mut self,
        deadline: Deadline,
        message: &mut Incoming,
    ) -> Result<Option<bool>> {
        let Some(word) = self.take_baton(deadline)? else { return Ok(None) };
        if word.ring {
            return self.read_ring(word, message).map(Some);
        }
        self.read_baton(word, message);
        if word.bulk {
            self.read_bulk(message)?;
        }
        Ok(Some(true))
    }

    /// Waits for the baton; `None` when it has not come by the deadline.
    #[inline(always)]
    fn take_baton(&mut self, deadline: Deadline) -> Result<Option<Word>> {
        let Some(found) = self.waiter.for_change(&self.baton[0], self.word, deadline)? else {
            return Ok(None);
        };
        let hop = next_hop(self.hop);
        match Word::decode(found) {
            Some(word) if word.hop == hop => {
                (self.word, self.hop) = (found, hop);
                if word.fresh {
                    // Most likely this message calls the new code.
                    cpu::serialize_for(self.baton[1].load(Ordering::Relaxed));
                }
                Ok(Some(word))
            }
            _ => Err(bad_word(found, hop)),
        }
    }

    /// Reads a message that is in the baton alone.
    #[inline(always)]
    fn read_baton(&self, word: Word, message: &mut Incoming) {
        let baton = &*self.baton;
        // Copies all words, however many are used: that is quicker than to count.
        for (bytes, word) in message.inline.as_chunks_mut().0.iter_mut().zip(&baton[2..LINE_WORDS])
        {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        message.kind = word.kind;
        message.target = baton[1].load(Ordering::Relaxed);
        message.posted = None;
        message.mark = self.free;
        message.content = Content::Inline(word.inline_bytes);
    }

    /// Reads a message that is in the baton and in the ring, which is drained as far as the baton says. False when the peer
    /// only wanted room in its ring.
    fn read_ring(&mut self, word: Word, message: &mut Incoming) -> Result<bool> {
        self.read_baton(word, message);
        // The first word is the ring position, the others are payload.
        let position = message.inline.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        message.inline.rotate_left(8);
        self.inbox.drain(position)?;
        if word.kind == Kind::Part {
            self.hand_over(Kind::Continue, 0, &[], self.outbox.is_untold(), false);
            return Ok(false);
        }
        if word.bulk {
            self.read_bulk(message)?;
        } else if let Some(payload) = self.inbox.take_parts() {
            message.content = Content::Heap(payload);
        }
        Ok(true)
    }
}

/// The error for a word that is not that of `hop`, which was due.
#[cold]
fn bad_word(found: u64, hop: u64) -> Error {
    if hop_of(found) == hop {
        Error::violation(format!("baton word {found:#x}"))
    } else {
        Error::violation(format!("baton hop {:#x}, not {hop:#x}", hop_of(found)))
    }
}
