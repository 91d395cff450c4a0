//! What linked code can call in the controller.

use crate::concurrent::hazard::HazardTable;

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

pub(crate) type Function =
    dyn Fn(&[u8], &mut Vec<u8>) -> std::result::Result<(), String> + Send + Sync + 'static;

/// The registered handlers of a session.
#[derive(Debug)]
pub(crate) struct Handlers(HazardTable<Box<Function>>);

impl Default for Handlers {
    fn default() -> Self {
        Self(HazardTable::new())
    }
}

impl Handlers {
    pub(crate) fn add(&self, function: Box<Function>) -> HandlerTag {
        HandlerTag(self.0.add(function))
    }

    pub(crate) fn remove(&self, tag: HandlerTag) {
        self.0.remove(tag.0);
    }

    /// Runs the handler with this tag; one that is removed meanwhile runs to its end. `None` when there is none.
    #[inline(always)]
    pub(super) fn run(
        &self,
        tag: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Option<std::result::Result<(), String>> {
        self.0.with(tag, |function| function(args, result))
    }
}
