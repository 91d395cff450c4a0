//! Access to a controller: the one interface for everything that connects a session with one.

pub(in crate::session) mod bootstrap;
pub(in crate::session) mod connection_spec;
pub(in crate::session) mod symbol_table;

use std::sync::Arc;

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::session::life::core::Core;
use crate::session::{Answer, BootstrapInfo, Completion, SessionHandle};

/// What carries calls between a session and its controller.
///
/// Every function may be called from any thread, at any moment after [`connect`](ControllerAccess::connect), also
/// concurrently. None is called with a lock of the session held.
pub trait ControllerAccess: Send + Sync {
    /// Connects; called once. Calls may come in by `attachment` from here on, before this returns.
    ///
    /// # Errors
    ///
    /// Why there is no connection: the session takes it as the end of one, so `attachment` must not be told as well.
    fn connect(&self, attachment: Attachment, info: &BootstrapInfo) -> Result<()>;

    /// Ends the connection in order; called at most once by the session, perhaps while the controller ends it too. When it
    /// returns, no call goes out any more: [`call_controller`](ControllerAccess::call_controller) fails.
    ///
    /// In it or later the access calls [`Attachment::notify_disconnected`], once, and before that completes all calls that are under
    /// way as failed. It must not wait for the thread that calls it.
    fn disconnect(&self);

    /// Calls the controller's handler with this tag. `completion` is completed exactly once: by
    /// [`Attachment::complete`], or on this thread when the connection is over before the call is under way.
    fn call_controller(&self, tag: u64, args: Vec<u8>, completion: Completion);

    /// Answers the call with this number. When the connection is over, nothing happens.
    fn send_result(&self, call: u64, answer: Answer);
}

/// What a [`ControllerAccess`] has of its session.
#[derive(Debug, Clone)]
pub struct Attachment {
    session: SessionHandle,
}

impl Attachment {
    pub(in crate::session) fn new(core: &Arc<Core>) -> Self {
        Self { session: SessionHandle::new(core) }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionHandle {
        &self.session
    }

    /// Runs the function at an address with these arguments, as a task; the access is given the answer with the number,
    /// which is the caller's and must not be in use. When the session is being detached nothing happens.
    pub fn handle_call(&self, function: ExecutorAddr, args: Vec<u8>, call: u64) {
        self.session.core().handle_call(function, args, call);
    }

    /// Tells how a call of the controller ended. Code of the host runs as a task; a thread that waits is woken at once.
    pub fn complete(&self, completion: Completion, outcome: Result<Vec<u8>>) {
        self.session.core().complete(completion, outcome);
    }

    /// Reports something that went wrong and is nobody's answer.
    pub fn report_error(&self, error: Error) {
        self.session.report_error(error);
    }

    /// The connection is over: in order, or why. To be called once, after all calls under way were completed; the session
    /// drops its access then. Runs the host's handler and tells the services, on this thread.
    pub fn notify_disconnected(&self, cause: Result<()>) {
        self.session.core().disconnected(cause);
    }
}
