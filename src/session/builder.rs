//! Building a session.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(shuttle)]
use super::life::core::Fault;
use super::life::core::{Core, Dispatch, HostFunction, OnDisconnect, Reporter, RunAddress};
use super::{BootstrapInfo, Reply, Service, Session, SessionHandle};
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::task::Task;

type OnStart = Box<dyn FnOnce(&SessionHandle) + Send>;

/// Builds a [`Session`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use farcall::session::SessionBuilder;
///
/// let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run())))
///     .grace(Duration::from_secs(5))
///     .on_error(|_, error| eprintln!("session: {error}"))
///     .value("config", b"fast")?
///     .function("shout", |_, args, reply| reply.send(Ok(args.to_ascii_uppercase())))?
///     .build()?;
/// assert!(session.bootstrap_info().symbols().get("shout").is_some());
/// # Ok::<(), farcall::Error>(())
/// ```
pub struct SessionBuilder {
    pub(super) dispatch: Dispatch,
    pub(super) report: Reporter,
    pub(super) on_disconnect: Option<OnDisconnect>,
    pub(super) grace: Option<Duration>,
    pub(super) info: BootstrapInfo,
    pub(super) functions: HashMap<u64, Arc<HostFunction>>,
    pub(super) run: RunAddress,
    pub(super) services: Vec<Arc<dyn Service>>,
    pub(super) on_start: Option<OnStart>,
    #[cfg(shuttle)]
    pub(super) fault: Option<Fault>,
}

impl SessionBuilder {
    /// A builder of sessions that offer nothing of this process.
    pub(crate) fn bare(
        dispatch: impl Fn(Task) + Send + Sync + 'static,
        info: BootstrapInfo,
        run: RunAddress,
    ) -> Self {
        Self {
            dispatch: Arc::new(dispatch),
            report: Arc::new(|_, error| eprintln!("farcall: {error}")),
            on_disconnect: None,
            grace: None,
            info,
            functions: HashMap::new(),
            run,
            services: Vec::new(),
            on_start: None,
            #[cfg(shuttle)]
            fault: None,
        }
    }

    /// Makes the session. It has no controller yet ([`SessionHandle::attach`]).
    ///
    /// # Errors
    ///
    /// If a symbol has the name of the session itself ([`SESSION_SYMBOL`](super::SESSION_SYMBOL)).
    pub fn build(mut self) -> Result<Session> {
        let start = self.on_start.take();
        let session = Session(SessionHandle(Core::new(self)?));
        if let Some(start) = start {
            start(&session);
        }
        Ok(session)
    }

    /// Passes each error that belongs to no call to `report`, instead of writing it to standard error. Any thread may
    /// call `report`, several at once; it must not panic.
    #[must_use]
    pub fn on_error(
        mut self,
        report: impl Fn(&SessionHandle, Error) + Send + Sync + 'static,
    ) -> Self {
        self.report = Arc::new(report);
        self
    }

    /// Calls `handler` once, when the connection to the controller ends, or when the session ends without one. That is before
    /// the services are notified, with no lock held. The handler receives `Ok` for an orderly end, or the error, which is not
    /// reported otherwise. It may detach or shut down the session, and must not block.
    #[must_use]
    pub fn on_disconnect(
        mut self,
        handler: impl FnOnce(&SessionHandle, Result<()>) + Send + 'static,
    ) -> Self {
        self.on_disconnect = Some(Box::new(handler));
        self
    }

    /// Bounds [`SessionHandle::wait`] by this duration from the request of the shutdown; its error names what still
    /// runs. Without a grace period the wait lasts until linked code ends.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Offers these symbols to the controller: all of them or, on an error, none.
    ///
    /// # Errors
    ///
    /// If a name has another address already; the message lists all such names.
    pub fn symbols<N: Into<String>>(
        mut self,
        symbols: impl IntoIterator<Item = (N, ExecutorAddr)>,
    ) -> Result<Self> {
        self.info.symbols.add_unique(symbols)?;
        Ok(self)
    }

    /// Passes bytes to the controller under a name.
    ///
    /// # Errors
    ///
    /// If the name has other bytes already.
    pub fn value(mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let (name, bytes) = (name.into(), bytes.into());
        match self.info.values.get(&name) {
            Some(before) if *before != bytes => Err(Error::invalid(format!(
                "bootstrap value {name} has {} bytes already, and {} others now",
                before.len(),
                bytes.len()
            ))),
            _ => {
                self.info.values.insert(name, bytes);
                Ok(self)
            }
        }
    }

    /// Offers a function of this program under a name. The controller calls it, as any other, by the address of that
    /// name (without any code there). The function runs as a task and may answer later, on any thread.
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn function(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&SessionHandle, Vec<u8>, Reply) + Send + Sync + 'static,
    ) -> Result<Self> {
        self.offer(name, function)?;
        Ok(self)
    }

    /// As [`SessionBuilder::function`].
    pub(crate) fn offer(
        &mut self,
        name: impl Into<String>,
        function: impl Fn(&SessionHandle, Vec<u8>, Reply) + Send + Sync + 'static,
    ) -> Result<()> {
        let function = Arc::new(HostFunction(Box::new(function)));
        let address = Arc::as_ptr(&function) as u64;
        self.info.symbols.add_unique([(name, ExecutorAddr::new(address))])?;
        self.functions.insert(address, function);
        Ok(())
    }

    /// Adds a service after those added before.
    #[must_use]
    pub fn service(mut self, service: impl Service + 'static) -> Self {
        self.services.push(Arc::new(service));
        self
    }

    /// Runs calls by address with `run`.
    pub(crate) fn run_addresses(mut self, run: RunAddress) -> Self {
        self.run = run;
        self
    }

    /// Calls `start` with the new session, before any other code sees it.
    pub(crate) fn on_start(mut self, start: impl FnOnce(&SessionHandle) + Send + 'static) -> Self {
        self.on_start = Some(Box::new(start));
        self
    }

    #[cfg(shuttle)]
    pub(super) fn fault(mut self, fault: Option<Fault>) -> Self {
        self.fault = fault;
        self
    }
}

impl fmt::Debug for SessionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionBuilder")
            .field("info", &self.info)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
