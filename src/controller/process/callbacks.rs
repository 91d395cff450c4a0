//! Calls back: while the controller waits on a lane, it runs the handlers that linked code calls.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::handlers::Handlers;
use super::live_code::LiveCode;
use crate::call::contract::EXPORTS_TAG;
use crate::call::direct::DirectController;
use crate::call::{Handler, LaneEnd, Lanes};
use crate::deadline::Deadline;
use crate::error::{Result, panicked};
use crate::sys::process::stack;
use crate::transport::{Lane, Payload};

/// The handlers of a session, and the lanes, whose posted calls go ahead of an answer.
#[derive(Debug)]
pub(crate) struct Callbacks {
    handlers: Handlers,
    /// The code of which the executor may ask for the names.
    code: Arc<LiveCode>,
    lanes: Arc<Lanes>,
    /// Those of the snapshot, which a copy has as well.
    inherited: Option<Arc<Callbacks>>,
}

impl Callbacks {
    pub(crate) fn new(lanes: Arc<Lanes>) -> Arc<Self> {
        let code = Arc::new(LiveCode::new(None));
        Arc::new(Self { handlers: Handlers::default(), code, lanes, inherited: None })
    }

    /// Those of a session within this process.
    pub(crate) fn direct(lanes: Arc<Lanes>) -> Arc<Self> {
        let code = Arc::new(LiveCode::new(None));
        Arc::new(Self { handlers: Handlers::direct(), code, lanes, inherited: None })
    }

    /// Those of a copy: at first the snapshot's.
    pub(crate) fn of_copy(snapshot: &Arc<Self>, lanes: Arc<Lanes>) -> Arc<Self> {
        let handlers = Handlers::beyond(&snapshot.handlers);
        let code = Arc::new(LiveCode::new(Some(Arc::clone(&snapshot.code))));
        Arc::new(Self { handlers, code, lanes, inherited: Some(Arc::clone(snapshot)) })
    }

    pub(crate) fn handlers(&self) -> &Handlers {
        &self.handlers
    }

    pub(crate) fn code(&self) -> &Arc<LiveCode> {
        &self.code
    }

    /// Runs a handler for a tag that the session has given to none.
    #[cold]
    fn run_elsewhere(
        &self,
        target: u64,
        args: &[u8],
        result: &mut Vec<u8>,
    ) -> Option<std::result::Result<(), String>> {
        let snapshots =
            || std::iter::successors(self.inherited.as_ref(), |of| of.inherited.as_ref());
        let found = snapshots().find_map(|of| of.handlers.run_for_copy(target, args, result));
        let found = found.or_else(|| self.handlers.run_other(target, args, result));
        found.or_else(|| snapshots().find_map(|of| of.handlers.run_other(target, args, result)))
    }
}

#[cold]
fn no_room() -> String {
    "little of the calling thread's stack is left, so the handler does not run: nest handlers and calls less deep, or give the \
     thread a larger stack"
        .to_owned()
}

impl Handler<Lane> for Callbacks {
    type Reply = Vec<u8>;

    #[inline(always)]
    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        mut result: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, String> {
        // Handlers that call functions that call handlers: the host's stack may be small.
        if !stack::has_room() {
            return Err(no_room());
        }
        let args = args.bytes();
        let run = || match self.handlers.run(target, &args, &mut result) {
            None if target != EXPORTS_TAG => self.run_elsewhere(target, &args, &mut result),
            outcome => outcome,
        };
        // A panic that unwound the lane's own frames would leave the executor without an answer.
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Some(outcome)) => outcome.map(|()| result),
            Ok(None) if target == EXPORTS_TAG => {
                self.code.exports(&args).map_err(|error| error.to_string())
            }
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

impl DirectController for Callbacks {
    #[inline]
    fn handle(&self, tag: u64, args: &[u8]) -> std::result::Result<Vec<u8>, String> {
        if !stack::has_room() {
            return Err(no_room());
        }
        let mut result = Vec::new();
        let run = || match Handlers::run_direct(tag, args, &mut result) {
            None if tag != EXPORTS_TAG => self.run_elsewhere(tag, args, &mut result),
            outcome => outcome,
        };
        // Linked code has no frames that a panic could unwind.
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Some(outcome)) => outcome.map(|()| result),
            Ok(None) if tag == EXPORTS_TAG => {
                self.code.exports(args).map_err(|error| error.to_string())
            }
            Ok(None) => Err(format!("no handler is registered for tag {tag:#x}")),
            Err(panic) => Err(format!("the handler {}", panicked(panic))),
        }
    }
}
