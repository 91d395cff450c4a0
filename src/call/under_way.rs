//! Which calls are under way, for who wants to know when those have ended.
//!
//! Each end of a lane counts how deep it is in calls, and how often it came out of the outermost one, in one word that any
//! thread may look at. A call is counted before it is sent.
//!
//! Whoever changes something that calls look at (a word through which they jump) and then asks, learns of every call that may have
//! seen the old state: the change comes before a full fence and that before the look at the word; who calls stores the
//! word before it hands the call over, and the one who runs the call looks only after it was handed over. So a call that is not
//! counted yet sees the change.

use std::sync::Arc;

use super::counts::Counts;
use super::pipeline::Caller;

/// Calls that were under way at some moment.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    /// Ends of lanes, and how often they had been outside of all calls.
    pub(super) lanes: Vec<(Arc<Counts>, u64)>,
    /// Pipelines, and how many calls had been submitted.
    pub(super) pipelines: Vec<(Arc<Caller>, u64)>,
}

impl UnderWay {
    /// Adds what a pipeline has under way.
    pub(crate) fn add_pipeline(&mut self, caller: Arc<Caller>) {
        let submitted = caller.calls();
        self.pipelines.push((caller, submitted));
    }

    /// True when all of them have ended. Forgets those that have.
    pub(crate) fn are_over(&mut self) -> bool {
        self.lanes.retain(|(counts, outside)| counts.is_inside_since(*outside));
        self.pipelines.retain(|(caller, submitted)| {
            // Nobody else may be receiving.
            caller.poll();
            !caller.has_ended() && caller.received() < *submitted
        });
        self.lanes.is_empty() && self.pipelines.is_empty()
    }
}
