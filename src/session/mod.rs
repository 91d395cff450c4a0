//! A session: the root of what one controller runs in this process, as a host embeds it.
//!
//! A [`Session`] is attached to one controller through a [`ControllerAccess`], runs that one's calls as tasks of the
//! host's, lets linked code call back, owns [`Service`]s, and ends: detached (the controller is gone, code goes on) and
//! then shut down (code has ended, everything is released). `teardown` says in which order, `life` when.
//!
//! Threads: the room starts none. Every function may be called from any thread at any moment; no code of the host is
//! called with a lock held. Calls run where the host's dispatch function takes them, completions too.
//!
//! Ownership: the session owns services, access and host functions. A [`SessionHandle`] keeps it in memory, not alive.
//!
//! Invariant: no IO and no unsafe. A call completes exactly once, in both directions; a service is told of each stage
//! once.
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
pub use access::connection_spec::{ConnectionSpec, ConnectorRegistry};
pub use access::symbol_table::SimpleSymbolTable;
pub use access::{Attachment, ControllerAccess};
pub use builder::SessionBuilder;
pub use calls::pending::PendingCalls;
pub use calls::reply::{Answer, Completion, Reply};
pub use in_process::{InProcess, InProcessController};
pub use life::service::{Done, Service};
pub use life::task_group::{TaskGroup, Token};

use self::calls::reply::Waiter;
use self::life::core::Core;
use self::life::stage::Stage;
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::task::Task;

/// A session that this program owns. Several may live in one process.
///
/// Dropped, it shuts down and waits for that, as [`SessionHandle::wait`] does, and reports what keeps it from ending; on a
/// thread that the end waits for it does not wait.
#[derive(Debug)]
pub struct Session(SessionHandle);

/// A session, as everybody else has it. It stays in memory as long as there is one of these, whether it lives or not.
#[derive(Debug, Clone)]
pub struct SessionHandle(Arc<Core>);

impl std::ops::Deref for Session {
    type Target = SessionHandle;

    fn deref(&self) -> &SessionHandle {
        &self.0
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shutdown(|| {});
        match self.wait() {
            Err(error) if !error.is_invalid_argument() => self.report_error(error),
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

    /// The address that stands for the session: the one under [`SESSION_SYMBOL`].
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.0.address()
    }

    /// What the controller is told of this session.
    #[must_use]
    pub fn bootstrap_info(&self) -> &BootstrapInfo {
        &self.0.info
    }

    /// Attaches the controller behind `access`; once in a session's life. If that cannot connect, the session is detached
    /// and the handler of the disconnect told why, as for every end of a connection.
    ///
    /// # Errors
    ///
    /// When a controller was attached before, or the session is to be detached or shut down. Nothing happens then.
    pub fn attach(&self, access: impl ControllerAccess + 'static) -> Result<()> {
        self.0.attach(Arc::new(access))
    }

    /// The same with an access that has to be made first.
    ///
    /// # Errors
    ///
    /// As [`SessionHandle::attach`], or when there is no access: the session stays as it is, and may be attached later.
    pub fn try_attach<A: ControllerAccess + 'static>(
        &self,
        access: impl FnOnce(&SessionHandle) -> Result<A>,
    ) -> Result<()> {
        self.attach(access(self)?)
    }

    /// Ends the connection to the controller, if there is one. Linked code goes on running. `on_detach` runs once, when
    /// every service is detached: after them, or at once, on this thread, if that has been.
    pub fn detach(&self, on_detach: impl FnOnce() + Send + 'static) {
        self.0.request(Stage::Detached, Box::new(on_detach));
    }

    /// Detaches, waits for managed code to end and releases everything, without blocking here. `on_shutdown` runs once,
    /// after every service is shut down, or at once, on this thread, if that has been.
    pub fn shutdown(&self, on_shutdown: impl FnOnce() + Send + 'static) {
        self.0.request(Stage::Shutdown, Box::new(on_shutdown));
    }

    /// Waits until the session is shut down, by whomever.
    ///
    /// # Errors
    ///
    /// When the grace period is over (then `is_timeout`): the error names what still runs, and the session still ends when
    /// that does. On a thread that runs a call or a callback of this session, which would wait for itself.
    pub fn wait(&self) -> Result<()> {
        self.0.wait()
    }

    /// Adds a service and returns it. When the session is detached or shut down already the service is told at once.
    pub fn add_service<S: Service + 'static>(&self, service: S) -> Arc<S> {
        let service = Arc::new(service);
        self.0.add_service(Arc::clone(&service) as Arc<dyn Service>);
        service
    }

    /// A token for a span of managed code, which holds the shutdown up; `None` when the session is being shut down: then
    /// no linked code may be entered. `what` names the span to who waits for its end.
    ///
    /// It stands for what is on a stack: a continuation that runs later takes one of its own.
    #[must_use]
    pub fn keepalive(&self, what: &'static str) -> Option<Token> {
        self.0.managed.acquire(what)
    }

    /// Runs `code` with a [keepalive](SessionHandle::keepalive); `None` when that is refused.
    pub fn call_with_keepalive<R>(
        &self,
        what: &'static str,
        code: impl FnOnce() -> R,
    ) -> Option<R> {
        let _token = self.keepalive(what)?;
        Some(self.0.inside(code))
    }

    /// Calls the controller's handler with this tag. `on_complete` runs exactly once, as a task, with what the handler
    /// answered (`is_remote` for its error) or with why there is no answer (`is_disconnected`); in that case perhaps before this
    /// returns, on this thread, so the caller must hold no lock that it wants.
    pub fn call_controller(
        &self,
        tag: u64,
        args: Vec<u8>,
        on_complete: impl FnOnce(Result<Vec<u8>>) + Send + 'static,
    ) {
        self.0.call_controller(tag, args, Completion::new(on_complete));
    }

    /// The same, and waits for the answer. It needs no task, so it comes even if every thread of the host waits like this
    /// one.
    ///
    /// # Errors
    ///
    /// What the handler answered with, or why there is no answer.
    pub fn call(&self, tag: u64, args: Vec<u8>) -> Result<Vec<u8>> {
        let waiter = Arc::new(Waiter::default());
        self.0.call_controller(tag, args, Completion::waiter(&waiter));
        waiter.wait()
    }

    /// Has the host run a task.
    pub fn dispatch(&self, task: Task) {
        self.0.dispatch(task);
    }

    /// Reports something that went wrong and is nobody's answer.
    pub fn report_error(&self, error: Error) {
        self.0.report(error);
    }
}
