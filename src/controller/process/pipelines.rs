//! The open pipelines of a session.

use std::sync::{Arc, Weak};

use crate::call::pipeline::Caller;
use crate::error::Error;
use crate::sync::Mutex;

/// The open pipelines of a session.
#[derive(Debug, Default)]
pub(crate) struct Pipelines(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    callers: Vec<Weak<Caller>>,
    /// The session is over: pipelines that are added end at once.
    is_closed: bool,
    /// Calls, and late results, of pipelines that were removed.
    removed: [u64; 2],
}

impl Pipelines {
    /// Adds a pipeline. It ends at once if the session is over.
    pub(crate) fn add(&self, caller: &Arc<Caller>) {
        let mut open = self.0.lock();
        open.callers.retain(|caller| caller.strong_count() > 0);
        if open.is_closed {
            caller.end(&gone());
        }
        open.callers.push(Arc::downgrade(caller));
    }

    /// Ends all pipelines, and those that are added later.
    pub(crate) fn close(&self) {
        let mut open = self.0.lock();
        open.is_closed = true;
        let callers: Vec<_> = open.callers.iter().filter_map(Weak::upgrade).collect();
        drop(open);
        for caller in callers {
            caller.end(&gone());
        }
    }

    /// The open pipelines.
    pub(crate) fn callers(&self) -> Vec<Arc<Caller>> {
        self.0.lock().callers.iter().filter_map(Weak::upgrade).collect()
    }

    /// Calls submitted so far, and results that arrived after their calls had timed out or were dropped.
    pub(crate) fn sums(&self) -> [u64; 2] {
        let open = self.0.lock();
        open.callers.iter().filter_map(Weak::upgrade).fold(open.removed, |[calls, late], caller| {
            [calls.wrapping_add(caller.calls()), late.wrapping_add(caller.late())]
        })
    }

    /// Removes a pipeline that was closed.
    pub(crate) fn forget(&self, caller: &Caller) {
        let mut open = self.0.lock();
        let counts = [caller.calls(), caller.late()];
        for (sum, more) in open.removed.iter_mut().zip(counts) {
            *sum = sum.wrapping_add(more);
        }
        open.callers.retain(|other| !std::ptr::eq(other.as_ptr(), caller));
    }
}

fn gone() -> Error {
    Error::disconnected("the peer is gone")
}
