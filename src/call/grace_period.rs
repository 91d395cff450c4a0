//! When all calls that may use replaced code have returned.
//!
//! A grace period begins behind a change of a word that calls read, such as the slot through which a stub jumps. It is over
//! when every call has ended that may have read the old value. Each end of a lane counts in one word its depth in calls, and
//! how often it left the outermost call. Any thread may read that word.
//!
//! | the thread that changes | the threads of a call |
//! |---|---|
//! | stores the slot | the caller counts the call, then hands it over |
//! | full fence | the callee takes the call over |
//! | reads the count | the callee reads the slot |
//!
//! If the changing thread does not see a call counted, that call therefore reads the new slot.

use std::sync::Arc;

use super::counters::Counters;
use super::pipeline::Caller;

/// The time until the calls that were under way at some moment have ended.
#[derive(Debug, Default)]
pub(crate) struct GracePeriod {
    /// The counters of each lane that was inside of a call, and how often it had been outside of all calls.
    pub(super) lanes: Vec<(Arc<Counters>, u64)>,
    /// Pipelines, and how many calls each had submitted.
    pub(super) pipelines: Vec<(Arc<Caller>, u64)>,
}

impl GracePeriod {
    /// Adds the calls that a pipeline has under way.
    pub(crate) fn add_pipeline(&mut self, caller: Arc<Caller>) {
        let submitted = caller.calls();
        self.pipelines.push((caller, submitted));
    }

    /// True when all of those calls have ended. Forgets the lanes and pipelines that have no such calls left.
    pub(crate) fn is_over(&mut self) -> bool {
        self.lanes.retain(|(counters, outside)| counters.is_inside_since(*outside));
        self.pipelines.retain(|(caller, submitted)| {
            // Receives what has come: perhaps no other thread does.
            caller.poll();
            !caller.has_ended() && caller.received() < *submitted
        });
        self.lanes.is_empty() && self.pipelines.is_empty()
    }
}
