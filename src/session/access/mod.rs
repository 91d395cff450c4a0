//! Access to a controller: the one interface between a session and whatever connects it.

pub(in crate::session) mod bootstrap;
#[cfg(not(model))]
pub(in crate::session) mod connector_registry;
pub(in crate::session) mod symbol_table;

use std::sync::Arc;

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::session::life::core::Core;
use crate::session::{Answer, BootstrapInfo, Completion, SessionHandle};

/// Carries calls between a session and its controller.
///
/// The session calls [`connect`](ControllerAccess::connect) first. It calls the other functions after that, from any thread,
/// several at once, and never with a lock of its own held.
///
/// # Examples
///
/// An access whose controller answers every call with its arguments:
///
/// ```
/// use std::sync::Mutex;
/// use farcall::session::{Answer, Attachment, BootstrapInfo, Completion, ControllerAccess, SessionBuilder};
///
/// #[derive(Default)]
/// struct Echo(Mutex<Option<Attachment>>);
///
/// impl ControllerAccess for Echo {
///     fn connect(&self, attachment: Attachment, _: &BootstrapInfo) -> farcall::Result<()> {
///         *self.0.lock().unwrap() = Some(attachment);
///         Ok(())
///     }
///     fn disconnect(&self) {
///         let attachment = self.0.lock().unwrap().take();
///         attachment.into_iter().for_each(|attachment| attachment.notify_disconnected(Ok(())));
///     }
///     fn call_controller(&self, _tag: u64, args: Vec<u8>, completion: Completion) {
///         match self.0.lock().unwrap().clone() {
///             Some(attachment) => attachment.complete(completion, Ok(args)),
///             None => drop(completion), // completes it with an error
///         }
///     }
///     fn send_result(&self, _call: u64, _: Answer) {}
/// }
/// # let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).build()?;
/// # session.attach(Echo::default())?;
/// # assert_eq!(session.call(1, vec![7])?, [7]);
/// # Ok::<(), farcall::Error>(())
/// ```
pub trait ControllerAccess: Send + Sync {
    /// Connects. The session calls this once. Calls may arrive through `attachment` from now on, before this returns.
    ///
    /// # Errors
    ///
    /// The reason for which there is no connection. The session takes it as the end of the connection, so the access
    /// must not call [`Attachment::notify_disconnected`] as well.
    fn connect(&self, attachment: Attachment, info: &BootstrapInfo) -> Result<()>;

    /// Ends the connection in order. The session calls this at most once, perhaps while the controller ends the
    /// connection too. When it returns, no call goes out any more:
    /// [`call_controller`](ControllerAccess::call_controller) fails.
    ///
    /// The access first fails all pending calls, then calls [`Attachment::notify_disconnected`] once, in this
    /// function or later. It must not wait for the calling thread.
    fn disconnect(&self);

    /// Calls the controller's handler with this tag. `completion` is completed exactly once: by
    /// [`Attachment::complete`], or by [`Completion::complete`] on this thread if the connection is over before the
    /// call is sent.
    fn call_controller(&self, tag: u64, args: Vec<u8>, completion: Completion);

    /// Answers the call with this number. After the end of the connection this does nothing.
    fn send_result(&self, call: u64, answer: Answer);
}

/// A session's side of an attached [`ControllerAccess`].
///
/// # Examples
///
/// ```
/// use farcall::ExecutorAddr;
/// use farcall::session::Attachment;
///
/// /// Passes a message of the controller on to the session.
/// fn received(attachment: &Attachment, function: u64, args: Vec<u8>, call: u64) {
///     attachment.handle_call(ExecutorAddr::new(function), args, call);
/// }
/// ```
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

    /// Runs the function at an address with these arguments, as a task. [`ControllerAccess::send_result`] receives
    /// the answer with the number `call`, which the access chooses and which no pending call may have. If the session
    /// is being detached, this does nothing.
    pub fn handle_call(&self, function: ExecutorAddr, args: Vec<u8>, call: u64) {
        self.session.core().handle_call(function, args, call);
    }

    /// Completes a call of the controller. A callback of the host runs as a task; a waiting thread is woken at once.
    pub fn complete(&self, completion: Completion, outcome: Result<Vec<u8>>) {
        self.session.core().complete(completion, outcome);
    }

    /// Passes an error that belongs to no call to the session's error reporter.
    pub fn report_error(&self, error: Error) {
        self.session.report_error(error);
    }

    /// Notifies the session that the connection is over: in order, or with the reason. Call it once, after all
    /// pending calls are completed; the session drops its access then. Runs the disconnect handler and notifies the
    /// services on this thread.
    pub fn notify_disconnected(&self, cause: Result<()>) {
        self.session.core().disconnected(cause);
    }
}
