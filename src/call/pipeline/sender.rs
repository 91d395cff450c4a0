//! The writing half of the controller's end of a pipeline.

use std::sync::Arc;

use super::bundle::{Alike, Bundle};
use super::completion::{Calls, Completion};
use super::receiver::Run;
use super::reception::Reception;
use crate::error::{Error, Result};
use crate::limits::PIPELINE_CALLS_MAX;
use crate::sync::Ordering;
use crate::transport::pipeline::Outbound;
use crate::wire::pipeline::{Record, next_sequence, sequence_after};

/// Completions that are kept for later submissions.
const SPARE_MAX: usize = 4;

/// The most runs that can be noted. Each has a call under way, except the run that is being submitted.
const RUNS_MAX: usize = PIPELINE_CALLS_MAX + 1;

/// The writing half of an end.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) outbound: Outbound,
    /// Runs that were submitted and have not been received, except the run that the receiver holds. A run is noted before it
    /// is sent.
    runs: rtrb::Producer<Run>,
    /// The number of the last call.
    sequence: u64,
    /// Calls submitted, and results received as last seen.
    submitted: u64,
    received: u64,
    /// The number of the code of which the executor was told last.
    code_epoch: u64,
    /// Completions for later submissions, each with room for results.
    spare: Vec<Arc<Completion>>,
    /// Room for the payload of a record of alike calls.
    payload: Vec<u8>,
}

impl Sender {
    /// A sender that numbers its first call after `last_sequence`, and the end at which the receiver takes the runs.
    pub(super) fn new(outbound: Outbound, last_sequence: u64) -> (Self, rtrb::Consumer<Run>) {
        let (runs, runs_to_come) = rtrb::RingBuffer::new(RUNS_MAX);
        let sender = Self {
            outbound,
            runs,
            sequence: last_sequence,
            submitted: 0,
            received: 0,
            code_epoch: 0,
            spare: Vec::with_capacity(SPARE_MAX),
            payload: Vec::new(),
        };
        (sender, runs_to_come)
    }

    /// Notes that `calls` calls are submitted, and returns where their results will arrive.
    ///
    /// # Errors
    ///
    /// When too many submissions are under way.
    #[inline(always)]
    pub(super) fn note(&mut self, calls: usize) -> Result<Arc<Completion>> {
        let mut completion: Arc<Completion> = self.spare.pop().unwrap_or_default();
        // A new or spare completion has no other owner.
        if let Some(completion) = Arc::get_mut(&mut completion) {
            completion.expect(Calls {
                first: next_sequence(self.sequence),
                before: self.submitted,
                count: calls,
            });
        }
        let run = Run { completion: Arc::clone(&completion), calls };
        match self.runs.push(run) {
            Ok(()) => Ok(completion),
            Err(_) => Err(Error::exhausted(format!("{RUNS_MAX} submissions under way"))),
        }
    }

    /// Sends the calls of one submission, alone or in bundles.
    ///
    /// # Errors
    ///
    /// Why the pipeline has ended.
    pub(super) fn send_all<'a>(
        &mut self,
        reception: &Reception,
        mut calls: impl ExactSizeIterator<Item = (u64, &'a [u8])>,
    ) -> Result<()> {
        if calls.len() == 1 {
            return calls.try_for_each(|(target, args)| self.send_call(reception, target, args));
        }
        let mut bundle = Bundle::new();
        for (target, args) in calls {
            if bundle.add(target, args) {
                continue;
            }
            self.send_several(reception, bundle.count(), bundle.record())?;
            bundle = Bundle::new();
            if !bundle.add(target, args) {
                self.send_call(reception, target, args)?;
            }
        }
        self.send_several(reception, bundle.count(), bundle.record())
    }

    /// Sends calls that are alike, several in each record.
    ///
    /// # Errors
    ///
    /// Why the pipeline has ended.
    pub(super) fn send_alike(&mut self, reception: &Reception, calls: &Alike<'_>) -> Result<()> {
        let mut payload = std::mem::take(&mut self.payload);
        let bytes = calls.rest_bytes();
        let sent = match calls.in_a_record() {
            None => (0..calls.calls).try_for_each(|at| {
                payload.clear();
                payload.extend_from_slice(calls.shared);
                payload.extend_from_slice(&calls.rests[at * bytes..(at + 1) * bytes]);
                self.send_call(reception, calls.target, &payload)
            }),
            Some((most, target)) => calls.rests.chunks(most * bytes).try_for_each(|rests| {
                payload.clear();
                payload.extend_from_slice(calls.shared);
                payload.extend_from_slice(rests);
                let several = rests.len() / bytes;
                self.send_several(reception, several, (Record::Calls, target, &payload))
            }),
        };
        self.payload = payload;
        sent
    }

    /// Sends the news of code, unless the executor has them.
    ///
    /// # Errors
    ///
    /// Why the pipeline has ended.
    pub(super) fn send_news(&mut self, reception: &Reception, code_epoch: u64) -> Result<()> {
        if self.code_epoch == code_epoch {
            return Ok(());
        }
        self.code_epoch = code_epoch;
        self.send(reception, Record::Fresh, 0, 0, &[])
    }

    #[inline(always)]
    fn send_call(&mut self, reception: &Reception, target: u64, args: &[u8]) -> Result<()> {
        self.count(reception, 1)?;
        self.sequence = next_sequence(self.sequence);
        self.send(reception, Record::Call, self.sequence, target, args)
    }

    /// Sends a record of `calls` calls.
    #[inline(always)]
    fn send_several(
        &mut self,
        reception: &Reception,
        calls: usize,
        (kind, target, args): (Record, u64, &[u8]),
    ) -> Result<()> {
        let calls = calls as u64;
        if calls == 0 {
            return Ok(());
        }
        self.count(reception, calls)?;
        let first = next_sequence(self.sequence);
        self.sequence = sequence_after(self.sequence, calls);
        self.outbound.prefetch();
        self.send(reception, kind, first, target, args)
    }

    /// Counts the calls that are sent next, as soon as that many more may be under way.
    #[inline(always)]
    fn count(&mut self, reception: &Reception, calls: u64) -> Result<()> {
        if self.is_full(reception, calls) {
            self.wait_for_room(reception, |sender| !sender.is_full(reception, calls))?;
        }
        self.submitted += calls;
        // Relaxed: the record that is pushed next publishes it.
        reception.progress.submitted.store(self.submitted, Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn send(
        &mut self,
        reception: &Reception,
        kind: Record,
        sequence: u64,
        target: u64,
        args: &[u8],
    ) -> Result<()> {
        let mut sent = 0;
        while !self.outbound.send(kind, sequence, target, args, &mut sent)? {
            self.wait_for_room(reception, |sender| sender.outbound.has_room(args.len() - sent))?;
        }
        Ok(())
    }

    /// Receives for all waiters until `has_room`.
    #[cold]
    fn wait_for_room(
        &mut self,
        reception: &Reception,
        mut has_room: impl FnMut(&mut Self) -> bool,
    ) -> Result<()> {
        self.outbound.wake();
        while !has_room(self) {
            if reception.progress.has_ended() {
                return Err(reception.progress.reason());
            }
            reception.demand(|_| has_room(self));
        }
        Ok(())
    }

    /// Keeps a completion for a later submission.
    pub(super) fn keep(&mut self, completion: Arc<Completion>) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(completion);
        }
    }

    /// True when `calls` more calls would be too many under way.
    #[inline]
    fn is_full(&mut self, reception: &Reception, calls: u64) -> bool {
        if self.submitted - self.received + calls <= PIPELINE_CALLS_MAX as u64 {
            return false;
        }
        // [CAP] Acquire: pairs with the receiver's store.
        self.received = reception.progress.received.load(Ordering::Acquire);
        self.submitted - self.received + calls > PIPELINE_CALLS_MAX as u64
    }
}
