//! What linked code can call in the controller.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::call::{Handler, LaneEnd, Lanes};
use crate::deadline::Deadline;
use crate::error::{Result, panicked};
use crate::sys::hazard::HazardTable;
use crate::transport::{Lane, Payload};

/// The name of a handler in calls from the executor: a number that means nothing anywhere else, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandlerTag(u64);

impl HandlerTag {
    /// The number to pass to linked code, for `farcall_call_controller`.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

type Function =
    dyn Fn(&[u8], &mut Vec<u8>) -> std::result::Result<(), String> + Send + Sync + 'static;

/// The registered handlers of a session.
#[derive(Debug)]
pub(super) struct Handlers {
    functions: HazardTable<Box<Function>>,
    lanes: Arc<Lanes>,
}

impl Handlers {
    pub(super) fn new(lanes: Arc<Lanes>) -> Arc<Self> {
        Arc::new(Self { functions: HazardTable::new(), lanes })
    }

    pub(super) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    pub(super) fn add(&self, function: Box<Function>) -> HandlerTag {
        HandlerTag(self.functions.add(function))
    }

    pub(super) fn remove(&self, tag: HandlerTag) {
        self.functions.remove(tag.0);
    }
}

impl Handler<Lane> for Handlers {
    type Reply = Vec<u8>;

    #[inline(always)]
    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        mut result: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, String> {
        let args = args.bytes();
        let mut failure = String::new();
        let run = || {
            self.functions.with(target, |function| {
                let outcome = function(&args, &mut result);
                outcome.map_err(|error| failure = error).is_ok()
            })
        };
        // A panic that went through the lane's own frames would leave the executor without an answer.
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Some(true)) => Ok(result),
            Ok(Some(false)) => Err(failure),
            Ok(None) => Err(format!("no handler is registered for tag {target:#x}")),
            Err(panic) => Err(format!("the handler {}", panicked(panic))),
        }
    }

    #[inline]
    fn spare(reply: Vec<u8>) -> Option<Vec<u8>> {
        Some(reply)
    }

    #[inline]
    fn ahead(&self, end: &LaneEnd, deadline: Deadline) -> Result<()> {
        self.lanes.go_ahead(end, deadline)
    }
}
