//! Access to a controller in the same process: for hosts that are their own controller, and for tests.

use std::fmt;
use std::sync::Arc;

use super::{Answer, Attachment, BootstrapInfo, Completion, ControllerAccess, PendingCalls, Reply};
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::sync::Mutex;

/// A session's access to a controller that is an [`InProcessController`].
///
/// # Examples
///
/// ```
/// use farcall::session::{InProcess, SessionBuilder};
///
/// let session = SessionBuilder::new(|task: farcall::task::Task| task.run())
///     .function("shout", |_, args, reply| reply.send(Ok(args.to_ascii_uppercase())))?
///     .build()?;
/// let (access, controller) = InProcess::new(|_tag, _args, reply| reply.send(Ok(Vec::new())));
/// session.attach(access)?;
/// let shout = session.bootstrap_info().symbols().get("shout").expect("offered");
/// let (answer, answers) = std::sync::mpsc::channel();
/// controller.call(shout, b"hello".to_vec(), move |result| drop(answer.send(result)));
/// assert_eq!(answers.recv()??, b"HELLO");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct InProcess(Arc<Ends>);

/// The controller's end: calls functions of the session, and is called by tag. A clone is the same end.
///
/// # Examples
///
/// ```
/// use farcall::session::{InProcess, SessionBuilder};
///
/// let session = SessionBuilder::new(|task: farcall::task::Task| task.run()).build()?;
/// let (access, controller) = InProcess::new(|_tag, _args, reply| reply.send(Ok(Vec::new())));
/// session.attach(access)?;
/// controller.disconnect(); // no call passes any more
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InProcessController(Arc<Ends>);

/// Runs what the session calls: the tag, the arguments, and where the answer goes. On the thread that calls.
type Handler = dyn Fn(u64, Vec<u8>, Reply) + Send + Sync;
/// Sees what the session is, before any call.
type OnConnect = dyn Fn(&BootstrapInfo) -> Result<()> + Send + Sync;

struct Ends {
    state: Mutex<State>,
    handler: Box<Handler>,
    on_connect: Box<OnConnect>,
    /// Calls of the session.
    to_controller: PendingCalls,
    /// Calls of the controller.
    to_executor: PendingCalls,
}

enum State {
    Idle,
    Connected(Attachment),
    Over,
}

impl InProcess {
    /// Two ends. The session's calls run in `handler`, on the thread that calls; it answers when it likes.
    pub fn new(
        handler: impl Fn(u64, Vec<u8>, Reply) + Send + Sync + 'static,
    ) -> (Self, InProcessController) {
        Self::with_on_connect(handler, |_| Ok(()))
    }

    /// The same with a controller that sees first what the session is and offers, and may refuse it.
    pub fn with_on_connect(
        handler: impl Fn(u64, Vec<u8>, Reply) + Send + Sync + 'static,
        on_connect: impl Fn(&BootstrapInfo) -> Result<()> + Send + Sync + 'static,
    ) -> (Self, InProcessController) {
        let ends = Arc::new(Ends {
            state: Mutex::new(State::Idle),
            handler: Box::new(handler),
            on_connect: Box::new(on_connect),
            to_controller: PendingCalls::new(),
            to_executor: PendingCalls::new(),
        });
        (Self(Arc::clone(&ends)), InProcessController(ends))
    }

    #[cfg(shuttle)]
    pub(super) fn strands_calls(&self) {
        self.0.to_controller.stays_open();
    }
}

impl InProcessController {
    /// Calls the function at an address of the session. `on_complete` runs exactly once: with the result, the error that the
    /// function answered out of band (`ErrorKind::Remote`), or why there is no answer. It runs on the thread that answers or ends the
    /// session.
    pub fn call(
        &self,
        function: ExecutorAddr,
        args: Vec<u8>,
        on_complete: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) {
        let completion = Completion::new(on_complete);
        let Some(attachment) = self.0.attachment() else {
            return completion.complete(Err(Error::disconnected("not connected")));
        };
        match self.0.to_executor.register(completion) {
            Ok(call) => attachment.handle_call(function, args, call),
            Err(completion) => completion.complete(Err(is_over())),
        }
    }

    /// Ends the connection. When it returns, no call passes any more in either direction.
    pub fn disconnect(&self) {
        self.0.disconnect(Ok(()));
    }

    /// Ends the connection with a reason.
    pub fn abandon(&self, why: Error) {
        self.0.disconnect(Err(why));
    }
}

impl ControllerAccess for InProcess {
    fn connect(&self, attachment: Attachment, info: &BootstrapInfo) -> Result<()> {
        *self.0.state.lock() = State::Connected(attachment);
        let connected = (self.0.on_connect)(info);
        if connected.is_err()
            && let Some((attachment, calls)) = self.0.close()
        {
            // That they are over the session learns from the error.
            fail(&attachment, calls);
        }
        connected
    }

    fn disconnect(&self) {
        self.0.disconnect(Ok(()));
    }

    fn call_controller(&self, tag: u64, args: Vec<u8>, completion: Completion) {
        let call = match self.0.to_controller.register(completion) {
            Ok(call) => call,
            Err(completion) => return completion.complete(Err(is_over())),
        };
        let ends = Arc::clone(&self.0);
        (self.0.handler)(tag, args, Reply::new(move |answer| ends.answer(call, answer)));
    }

    fn send_result(&self, call: u64, answer: Answer) {
        if let Some(completion) = self.0.to_executor.take(call) {
            completion.complete(answer.map_err(Error::remote));
        }
    }
}

impl Ends {
    /// The controller's answer to a call of the session.
    fn answer(&self, call: u64, answer: Answer) {
        let Some(attachment) = self.attachment() else { return };
        if let Some(completion) = self.to_controller.take(call) {
            attachment.complete(completion, answer.map_err(Error::remote));
        }
    }

    fn attachment(&self) -> Option<Attachment> {
        match &*self.state.lock() {
            State::Connected(attachment) => Some(attachment.clone()),
            State::Idle | State::Over => None,
        }
    }

    /// Lets no more calls pass; returns those under way, if this ended a connection.
    fn close(&self) -> Option<(Attachment, [Vec<Completion>; 2])> {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut *state, State::Over);
        // Under the lock: a thread that finds the connection over finds the tables closed.
        let calls = [self.to_controller.close(), self.to_executor.close()];
        match before {
            State::Connected(attachment) => Some((attachment, calls)),
            State::Idle | State::Over => None,
        }
    }

    fn disconnect(&self, cause: Result<()>) {
        if let Some((attachment, calls)) = self.close() {
            fail(&attachment, calls);
            attachment.notify_disconnected(cause);
        }
    }
}

/// Fails the session's calls, and the controller's.
fn fail(attachment: &Attachment, [of_session, of_controller]: [Vec<Completion>; 2]) {
    for completion in of_session {
        attachment.complete(completion, Err(is_over()));
    }
    for completion in of_controller {
        completion.complete(Err(is_over()));
    }
}

fn is_over() -> Error {
    Error::disconnected("disconnected")
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.state.lock() {
            State::Idle => "idle",
            State::Connected(_) => "connected",
            State::Over => "over",
        };
        f.debug_struct("InProcess").field("state", &state).finish_non_exhaustive()
    }
}
