//! A session: everything that one controller has in this process, as a host program embeds it.
//!
//! A [`Session`] is attached to one controller through a [`ControllerAccess`]. It runs the controller's calls as
//! tasks of the host, lets linked code call the controller, and owns [`Service`]s. It ends in two steps: *detached*
//! (the controller is gone, linked code still runs) and *shut down* (linked code has ended, everything is released).
//! `life::teardown` lists the order of the end, `life::stage` the states.
//!
//! Threads: the room starts none. Every function may be called from any thread at any time. No code of the host runs
//! under a lock. Calls and completions run where the host's dispatch function runs them.
//!
//! Ownership: the session owns its services, its access and the host's functions. A [`SessionHandle`] keeps the
//! session in memory and does not delay its end.
//!
//! Invariant: no IO and no unsafe. A call completes exactly once, in both directions; a service receives each stage
//! once.
//!
//! # Examples
//!
//! A host that is its own controller:
//!
//! ```
//! use farcall::session::{InProcess, SessionBuilder};
//!
//! let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).build()?;
//! let (access, controller) = InProcess::new(|_tag, args, reply| reply.send(Ok(args)));
//! session.attach(access)?;
//! assert_eq!(session.call(1, b"hello".to_vec())?, b"hello");
//! controller.disconnect();
//! # Ok::<(), farcall::Error>(())
//! ```
#![forbid(unsafe_code)]

mod access;
mod builder;
mod calls;
mod in_process;
mod life;
#[cfg(test)]
#[cfg(shuttle)]
mod shuttle;
#[cfg(test)]
#[cfg(not(model))]
mod tests;

use std::sync::Arc;

pub use access::bootstrap::{BootstrapInfo, SESSION_SYMBOL, SUBTARGET_FEATURES};
#[cfg(not(model))]
pub use access::connector_registry::ConnectorRegistry;
pub use access::symbol_table::{SimpleSymbolTable, SymbolLookupResult, SymbolLookupSet};
pub use access::{Attachment, ControllerAccess};
pub use builder::SessionBuilder;
pub use calls::pending::PendingCalls;
pub use calls::reply::{Answer, Completion, Reply};
pub use in_process::{InProcess, InProcessController};
pub use life::service::{Done, Service};
pub use life::task_group::{TaskGroup, Token};

#[cfg(not(model))]
pub use crate::transport::ConnectionSpec;

use self::calls::reply::Waiter;
use self::life::core::Core;
use self::life::stage::Stage;
use crate::ExecutorAddr;
use crate::error::{Error, ErrorKind, Result};
use crate::task::Task;

/// The owner of a session. Several sessions may live in one process.
///
/// Dropping it shuts the session down and waits for that, as [`SessionHandle::wait`] does. If the session does not end, the
/// error reporter receives the reason. If the end waits for the dropping thread, the drop does not wait.
///
/// # Examples
///
/// ```
/// use farcall::session::SessionBuilder;
///
/// let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).build()?;
/// session.shutdown(|| println!("released"));
/// session.wait()?; // as dropping it does
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct Session(SessionHandle);

/// A reference to a session. The session stays in memory while a handle exists, also after its end.
///
/// # Examples
///
/// ```
/// use farcall::session::{SessionBuilder, SessionHandle};
///
/// let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).build()?;
/// let handle = SessionHandle::clone(&session);
/// let sum = handle.call_with_keepalive("a sum", || 1 + 2);
/// assert_eq!(sum, Some(3));
/// drop(session); // shuts it down
/// assert_eq!(handle.call_with_keepalive("too late", || ()), None);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SessionHandle(Arc<Core>);

impl std::ops::Deref for Session {
    type Target = SessionHandle;

    fn deref(&self) -> &SessionHandle {
        &self.0
    }
}

impl Drop for Session {
    /// Shuts it down. Has no effect in a forked child: the session, and its threads, are the parent's.
    fn drop(&mut self) {
        if !self.core().origin.is_own() {
            return;
        }
        self.shutdown(|| {});
        match self.wait() {
            Err(error) if error.kind() != ErrorKind::InvalidArgument => self.report_error(error),
            _ => {}
        }
    }
}

impl SessionHandle {
    fn new(core: &Arc<Core>) -> Self {
        Self(Arc::clone(core))
    }

    fn core(&self) -> &Arc<Core> {
        &self.0
    }

    /// The address that identifies the session: the one of [`SESSION_SYMBOL`].
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.0.address()
    }

    /// The session's words to its controller.
    #[must_use]
    pub fn bootstrap_info(&self) -> &BootstrapInfo {
        &self.0.info
    }

    /// Attaches a controller; once in a session's life. If `access` cannot connect, this still succeeds: the session
    /// is detached, and the disconnect handler receives the reason, as at every end of a connection.
    ///
    /// # Errors
    ///
    /// If a controller was attached before, or a detach or shutdown was requested. The session is unchanged then.
    pub fn attach(&self, access: impl ControllerAccess + 'static) -> Result<()> {
        self.0.attach(Arc::new(access))
    }

    /// Makes an access and attaches it.
    ///
    /// # Errors
    ///
    /// As [`SessionHandle::attach`]; and the error of `access`, after which the session is unchanged and may be
    /// attached later.
    pub fn try_attach<A: ControllerAccess + 'static>(
        &self,
        access: impl FnOnce(&SessionHandle) -> Result<A>,
    ) -> Result<()> {
        self.attach(access(self)?)
    }

    /// Ends the connection to the controller, if there is one. Linked code continues to run. `on_detach` runs once,
    /// after every service is detached; at once, on this thread, if that has happened.
    pub fn detach(&self, on_detach: impl FnOnce() + Send + 'static) {
        self.0.request(Stage::Detached, Box::new(on_detach));
    }

    /// Detaches, waits for managed code to end and releases everything, without blocking this thread. `on_shutdown`
    /// runs once, after every service is shut down; at once, on this thread, if that has happened.
    pub fn shutdown(&self, on_shutdown: impl FnOnce() + Send + 'static) {
        self.0.request(Stage::Shutdown, Box::new(on_shutdown));
    }

    /// Waits until the session is shut down. The shutdown must have been requested, by any thread.
    ///
    /// # Errors
    ///
    /// - After the grace period (`ErrorKind::Timeout`): the message names what still runs. The session still ends when that
    ///   ends.
    /// - On a thread that runs a call or a callback of this session, which would wait for itself
    ///   (`ErrorKind::InvalidArgument`).
    pub fn wait(&self) -> Result<()> {
        self.0.wait()
    }

    /// Adds a service and returns it. If the session is detached or shut down already, the service is notified at
    /// once.
    pub fn add_service<S: Service + 'static>(&self, service: S) -> Arc<S> {
        let service = Arc::new(service);
        self.0.add_service(Arc::clone(&service) as Arc<dyn Service>);
        service
    }

    /// A token for a span of managed code, which delays the shutdown. `None` after the shutdown has begun: no linked
    /// code may be entered then. `what` names the span in the error of [`SessionHandle::wait`].
    ///
    /// A token covers code on the stack. A continuation that runs later needs a token of its own.
    #[must_use]
    pub fn keepalive(&self, what: &'static str) -> Option<Token> {
        self.0.managed.acquire(what)
    }

    /// Runs `code` with a [keepalive](SessionHandle::keepalive) token; `None`, without running it, if there is none.
    pub fn call_with_keepalive<R>(
        &self,
        what: &'static str,
        code: impl FnOnce() -> R,
    ) -> Option<R> {
        let _token = self.keepalive(what)?;
        Some(self.0.inside(code))
    }

    /// Calls the controller's handler with this tag. `on_complete` runs exactly once, as a task, with the handler's
    /// answer (`ErrorKind::Remote` for its error) or with the reason for which there is none (`is_disconnected`). In the
    /// latter case it may run on this thread before this function returns, so the caller must hold no lock that it
    /// takes.
    pub fn call_controller(
        &self,
        tag: u64,
        args: Vec<u8>,
        on_complete: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) {
        self.0.call_controller(tag, args, Completion::new(on_complete));
    }

    /// Calls the controller's handler with this tag and waits for the answer. The answer needs no task, so it arrives
    /// even if all threads of the host wait like this one.
    ///
    /// # Errors
    ///
    /// The handler's error (`ErrorKind::Remote`), or the reason for which there is no answer (`is_disconnected`).
    pub fn call(&self, tag: u64, args: Vec<u8>) -> Result<Vec<u8>> {
        let waiter = Arc::new(Waiter::default());
        self.0.call_controller(tag, args, Completion::waiter(&waiter));
        waiter.wait()
    }

    /// Passes a task to the host's dispatch function.
    pub fn dispatch(&self, task: Task) {
        self.0.dispatch(task);
    }

    /// Passes an error that belongs to no call to the session's error reporter.
    pub fn report_error(&self, error: Error) {
        self.0.report(error);
    }
}
