//! The writing half of the controller's end of a pipeline.

use std::sync::Arc;

use super::bundle::Bundle;
use super::caller::Caller;
use super::completion::Completion;
use super::receiver::Run;
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
            completion.expect(calls);
        }
        let run = Run { completion: Arc::clone(&completion), calls };
        match self.runs.push(run) {
            Ok(()) => Ok(completion),
            Err(_) => Err(Error::exhausted(format!("{RUNS_MAX} submissions under way"))),
        }
    }

    /// Sends the calls of one submission, alone or in bundles, behind the news of code.
    ///
    /// # Errors
    ///
    /// Why the pipeline has ended.
    pub(super) fn send_all<'a>(
        &mut self,
        caller: &Caller,
        code_epoch: u64,
        mut calls: impl ExactSizeIterator<Item = (u64, &'a [u8])>,
    ) -> Result<()> {
        if self.code_epoch != code_epoch {
            self.code_epoch = code_epoch;
            self.send(caller, Record::Fresh, 0, 0, &[])?;
        }
        if calls.len() == 1 {
            return calls.try_for_each(|(target, args)| self.send_call(caller, target, args));
        }
        let mut bundle = Bundle::new();
        for (target, args) in calls {
            if bundle.add(target, args) {
                continue;
            }
            self.send_bundle(caller, &bundle)?;
            bundle = Bundle::new();
            if !bundle.add(target, args) {
                self.send_call(caller, target, args)?;
            }
        }
        self.send_bundle(caller, &bundle)
    }

    #[inline(always)]
    fn send_call(&mut self, caller: &Caller, target: u64, args: &[u8]) -> Result<()> {
        self.count(caller, 1)?;
        self.sequence = next_sequence(self.sequence);
        self.send(caller, Record::Call, self.sequence, target, args)
    }

    #[inline(always)]
    fn send_bundle(&mut self, caller: &Caller, bundle: &Bundle) -> Result<()> {
        let calls = bundle.count() as u64;
        if calls == 0 {
            return Ok(());
        }
        self.count(caller, calls)?;
        let first = next_sequence(self.sequence);
        self.sequence = sequence_after(self.sequence, calls);
        self.outbound.prefetch();
        let (kind, target, args) = bundle.record();
        self.send(caller, kind, first, target, args)
    }

    /// Counts the calls that are sent next, as soon as that many more may be under way.
    #[inline(always)]
    fn count(&mut self, caller: &Caller, calls: u64) -> Result<()> {
        if self.is_full(caller, calls) {
            caller.wait_for_room(self, |sender| !sender.is_full(caller, calls))?;
        }
        self.submitted += calls;
        // Relaxed: the record that is pushed next publishes it.
        caller.submitted.store(self.submitted, Ordering::Relaxed);
        Ok(())
    }

    #[inline(always)]
    fn send(
        &mut self,
        caller: &Caller,
        kind: Record,
        sequence: u64,
        target: u64,
        args: &[u8],
    ) -> Result<()> {
        let mut sent = 0;
        while !self.outbound.send(kind, sequence, target, args, &mut sent)? {
            caller.wait_for_room(self, |sender| sender.outbound.has_room(args.len() - sent))?;
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
    fn is_full(&mut self, caller: &Caller, calls: u64) -> bool {
        if self.submitted - self.received + calls <= PIPELINE_CALLS_MAX as u64 {
            return false;
        }
        // [CAP] Acquire: pairs with the receiver's store.
        self.received = caller.received.load(Ordering::Acquire);
        self.submitted - self.received + calls > PIPELINE_CALLS_MAX as u64
    }
}
