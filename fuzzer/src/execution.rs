//! The target as LibAFL's executor: an execution is a call, and its edges go to the map that LibAFL observes.

use libafl::Error;
use libafl::HasNamedMetadata;
use libafl::corpus::Corpus;
use libafl::executors::{Executor, ExitKind, HasObservers};
use libafl::feedbacks::map::MapFeedbackMetadata;
use libafl::inputs::{BytesInput, HasMutatorBytes};
use libafl::observers::{HitcountsMapObserver, StdMapObserver};
use libafl::state::{HasCorpus, HasExecutions};
use libafl_bolts::tuples::RefIndexable;

use crate::faults::{Fault, Faults};
use crate::progress::{Numbers, Progress};
use crate::target::{End, Target};

/// The name of the map and of its feedback.
const EDGES: &str = "edges";

/// How often each edge was passed, in classes as of AFL.
pub(crate) type Edges = HitcountsMapObserver<StdMapObserver<'static, u8, false>>;

/// Runs the target, keeps its faults, and reports progress.
pub(crate) struct TargetExecutor {
    target: Target,
    observers: (Edges, ()),
    faults: Faults,
    progress: Progress,
}

impl TargetExecutor {
    pub(crate) fn new(target: Target, faults: Faults, progress: Progress) -> Self {
        let map = StdMapObserver::owned(EDGES, vec![0; target.counters()]);
        Self { target, observers: (HitcountsMapObserver::new(map), ()), faults, progress }
    }

    pub(crate) fn edges(&self) -> &Edges {
        &self.observers.0
    }

    /// Writes the last line.
    pub(crate) fn end<S: HasCorpus<BytesInput> + HasExecutions + HasNamedMetadata>(
        &self,
        state: &S,
    ) {
        self.progress.end(self.numbers(state));
    }

    fn numbers<S: HasCorpus<BytesInput> + HasExecutions + HasNamedMetadata>(
        &self,
        state: &S,
    ) -> Numbers {
        let edges = state.named_metadata::<MapFeedbackMetadata<u8>>(EDGES);
        Numbers {
            executions: *state.executions(),
            corpus: state.corpus().count(),
            edges: edges.map_or(0, |edges| edges.num_covered_map_indexes),
            crashes: self.faults.crashes(),
            hangs: self.faults.hangs(),
        }
    }

    /// Keeps a fault that is new, after another run in a fresh process. True if it was new.
    fn keep(&mut self, fault: &Fault, input: &[u8]) -> Result<bool, Error> {
        if !self.faults.is_new(fault) {
            return Ok(false);
        }
        let edges: &mut [u8] = &mut self.observers.0;
        let end = self.target.run_fresh(input, edges).map_err(failure)?;
        let again = Fault::of(&end, edges);
        self.faults.keep(fault, input, again.as_ref())?;
        Ok(true)
    }
}

/// An error that ends the run.
fn failure(error: farcall::Error) -> Error {
    Error::unknown(error.to_string())
}

impl<EM, S, Z> Executor<EM, BytesInput, S, Z> for TargetExecutor
where
    S: HasCorpus<BytesInput> + HasExecutions + HasNamedMetadata,
{
    fn run_target(
        &mut self,
        _fuzzer: &mut Z,
        state: &mut S,
        _manager: &mut EM,
        input: &BytesInput,
    ) -> Result<ExitKind, Error> {
        if self.progress.is_over(*state.executions()) {
            return Err(Error::shutting_down());
        }
        if self.progress.is_due() {
            let numbers = self.numbers(state);
            self.progress.line(numbers);
        }
        *state.executions_mut() += 1;
        let input = input.mutator_bytes();
        let edges: &mut [u8] = &mut self.observers.0;
        let end = self.target.run(input, edges).map_err(failure)?;
        if let End::Returned = end {
            return Ok(ExitKind::Ok);
        }
        let fault = Fault::of(&end, edges);
        let is_new = match &fault {
            Some(fault) => self.keep(fault, input)?,
            None => false,
        };
        // The corpus takes what passes new edges: no input that was rejected or had a fault.
        let edges: &mut [u8] = &mut self.observers.0;
        edges.fill(0);
        Ok(match end {
            End::Late if is_new => ExitKind::Timeout,
            End::Died(_) | End::Failed(_) if is_new => ExitKind::Crash,
            // A fault that is known is no news.
            _ => ExitKind::Ok,
        })
    }
}

impl HasObservers for TargetExecutor {
    type Observers = (Edges, ());

    fn observers(&self) -> RefIndexable<&Self::Observers, Self::Observers> {
        RefIndexable::from(&self.observers)
    }

    fn observers_mut(&mut self) -> RefIndexable<&mut Self::Observers, Self::Observers> {
        RefIndexable::from(&mut self.observers)
    }
}
