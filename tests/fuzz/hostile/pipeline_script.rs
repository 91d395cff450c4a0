//! The controller's part of a case of a pipeline, and the outcomes that are allowed.
//!
//! Invariant: everything from an honest peer is compared with what it sent.

use crate::deadline::Deadline;
use crate::transport::{End, Lifeline, PollPolicy};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::Totals;
use super::behaviour::Behaviour;
use super::pipeline_peer::PipelinePeer;
use super::random::Random;
use crate::call::pipeline::{Arrived, Caller, Completion};
use crate::error::{ErrorKind, Result};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::shm::Segment;
use crate::sync::hostile::{answer_for, be_honest};
use crate::transport::{Side, pipeline};
use crate::wire::pipeline::WORD_BYTES;

/// Runs the case with this number; `after` is called after each result.
pub(super) fn run(number: u64, totals: &mut Totals, after: impl Fn(&Segment)) {
    let mut random = Random::new(number);
    let behaviour = Behaviour::new(number, &mut random);
    let Ok(segment) = pipeline::create_segment(PollPolicy::default()) else { return };
    let segment = Arc::new(segment);
    // Counters mostly wrap during a case.
    let near_the_end = |random: &mut Random| u64::MAX - random.next() % 16;
    let (position, last) = (near_the_end(&mut random), near_the_end(&mut random));
    // No executor is there yet.
    let end = pipeline::end(&segment, Side::Controller, &Lifeline::new(End::new()), position);
    let peer = Rc::new(PipelinePeer::new(&segment, position, Random::new(!number), behaviour));
    let caller = Arc::new(Caller::new(end, last));
    peer.meet(&caller);
    answer_for(segment.words(), peer.clone());
    let mut controller = Controller { caller, peer, random, results: 0, failures: 0, after };
    match controller.session(&segment) {
        Ok(()) => totals.ends += 1,
        Err(error) => {
            let is_fair = behaviour.may_break() || error.kind() != ErrorKind::Violation;
            assert!(is_fair, "case {number}: honest, and yet {error}");
            totals.violations += u64::from(error.kind() == ErrorKind::Violation);
            totals.ends += u64::from(error.kind() != ErrorKind::Violation);
            // An ended pipeline refuses further calls.
            assert!(controller.submit(1).is_err(), "case {number}: another call after {error}");
        }
    }
    totals.results += controller.results;
    totals.failures += controller.failures;
    totals.late += controller.caller.late();
    be_honest();
    controller.peer.count(totals);
}

struct Controller<F> {
    caller: Arc<Caller>,
    peer: Rc<PipelinePeer>,
    random: Random,
    results: u64,
    failures: u64,
    after: F,
}

impl<F: Fn(&Segment)> Controller<F> {
    fn session(&mut self, segment: &Segment) -> Result<()> {
        let steps = 1 + self.random.below(6);
        for step in 0..steps {
            let calls = 1 + self.random.below(5);
            let completion = self.submit(calls)?;
            let is_last = step + 1 == steps;
            match self.random.below(8) {
                // Results of a call that timed out are dropped, so they cannot be compared with what an honest peer sent.
                0 if is_last => {
                    let past = Deadline::now();
                    if !self.caller.wait(&completion, calls, past) {
                        self.caller.expire(&completion);
                        while self.caller.late() < calls as u64 && !self.caller.has_ended() {
                            self.caller.poll();
                        }
                        return Ok(());
                    }
                }
                1 => while self.caller.poll() == 0 && !self.caller.has_ended() {},
                _ => {}
            }
            self.take(segment, &completion, calls)?;
        }
        Ok(())
    }

    fn submit(&mut self, calls: usize) -> Result<Arc<Completion>> {
        // Several calls share a record then.
        let are_words = self.random.one_in(2);
        let args: Vec<_> = (0..calls)
            .map(|_| {
                let length = if are_words { WORD_BYTES } else { self.random.length() };
                self.random.bytes(length)
            })
            .collect();
        if self.random.one_in(64) {
            let long = vec![0; usize::try_from(PAYLOAD_BYTES_MAX).unwrap_or(0) + 1];
            let refused = self.caller.submit(0, [(7, &long[..])].into_iter());
            assert!(refused.is_err_and(|error| error.kind() == ErrorKind::Exhausted), "too long");
        }
        let epoch = self.random.below(2) as u64;
        self.caller.submit(epoch, args.iter().map(|args| (7, &args[..])))
    }

    /// Takes the results of a submission.
    fn take(&mut self, segment: &Segment, completion: &Completion, calls: usize) -> Result<()> {
        let mut arrived = Arrived::default();
        for _ in 0..calls {
            if arrived.is_used_up() {
                assert!(self.caller.wait(completion, 1, Deadline::SESSION_END), "no deadline");
                completion.take(&mut arrived)?;
            }
            match arrived.next() {
                Some(Ok(bytes)) => {
                    self.results += 1;
                    self.peer.check(Some(bytes));
                }
                Some(Err(error)) if error.kind() == ErrorKind::Remote => {
                    self.failures += 1;
                    self.peer.check(None);
                }
                Some(Err(error)) => return Err(error),
                None => panic!("no result, and no end"),
            }
            (self.after)(segment);
        }
        assert!(arrived.is_used_up(), "more results than calls");
        Ok(())
    }
}
