//! How a session is made.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::life::core::Core;
use super::{BootstrapInfo, Reply, Service, Session, SessionHandle};
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::task::Task;

pub(super) type Dispatch = Arc<dyn Fn(Task) + Send + Sync>;
pub(super) type Reporter = Arc<dyn Fn(&SessionHandle, Error) + Send + Sync>;
pub(super) type OnDisconnect = Box<dyn FnOnce(&SessionHandle, Result<()>) + Send>;
type OnStart = Box<dyn FnOnce(&SessionHandle) + Send>;
/// Runs the wrapper function at an address.
pub(crate) type RunAddress = fn(&SessionHandle, ExecutorAddr, Vec<u8>, Reply);

/// A function of the host that is no wrapper function of the C ABI.
pub(super) struct HostFunction(pub(super) Box<Function>);

type Function = dyn Fn(&SessionHandle, Vec<u8>, Reply) + Send + Sync;

/// What a test has the session do wrong.
#[cfg(shuttle)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A callback that comes late waits for a moment that has passed.
    LateCallbackWaits,
    /// Services are shut down while managed code runs.
    DoesNotDrain,
}

/// What a [`Session`] is made with.
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
    /// A session that offers nothing of its own.
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

    /// Makes the session. It has no controller yet.
    ///
    /// # Errors
    ///
    /// When a symbol has the name that stands for the session itself ([`SESSION_SYMBOL`](super::SESSION_SYMBOL)).
    pub fn build(mut self) -> Result<Session> {
        let start = self.on_start.take();
        let session = Session(SessionHandle(Core::new(self)?));
        if let Some(start) = start {
            start(&session);
        }
        Ok(session)
    }

    /// Calls `report` with each error that is nobody's answer, instead of writing it to standard error. It is called
    /// from any thread, concurrently, and must not panic.
    #[must_use]
    pub fn on_error(
        mut self,
        report: impl Fn(&SessionHandle, Error) + Send + Sync + 'static,
    ) -> Self {
        self.report = Arc::new(report);
        self
    }

    /// Calls `handler` once, when the session stops having a controller or is known never to get one: before the services are
    /// told, with no lock held. It is told that the end was orderly, or why it was not, which is then not reported as
    /// an error. It may detach or shut down the session, and must not block.
    #[must_use]
    pub fn on_disconnect(
        mut self,
        handler: impl FnOnce(&SessionHandle, Result<()>) + Send + 'static,
    ) -> Self {
        self.on_disconnect = Some(Box::new(handler));
        self
    }

    /// Who waits for a shutdown waits no longer than this from the moment when the shutdown was asked for; the error names
    /// what still runs. Without it, who waits does so for as long as linked code runs.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Offers the controller these symbols too: all of them or, on an error, none.
    ///
    /// # Errors
    ///
    /// When a name has another address already; the message has all of them.
    pub fn symbols<N: Into<String>>(
        mut self,
        symbols: impl IntoIterator<Item = (N, ExecutorAddr)>,
    ) -> Result<Self> {
        self.info.symbols.add_unique(symbols)?;
        Ok(self)
    }

    /// Tells the controller these bytes under this name.
    ///
    /// # Errors
    ///
    /// When the name has other bytes already.
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

    /// Offers a function of this program under a name. The controller calls it as any other, by the address that it finds
    /// there (which holds no code). It runs as a task, and answers when it likes.
    ///
    /// # Errors
    ///
    /// When the name is taken.
    pub fn function(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&SessionHandle, Vec<u8>, Reply) + Send + Sync + 'static,
    ) -> Result<Self> {
        let function = Arc::new(HostFunction(Box::new(function)));
        let address = Arc::as_ptr(&function) as u64;
        self.info.symbols.add_unique([(name, ExecutorAddr::new(address))])?;
        self.functions.insert(address, function);
        Ok(self)
    }

    /// Adds a service, behind those that are there.
    #[must_use]
    pub fn service(mut self, service: impl Service + 'static) -> Self {
        self.services.push(Arc::new(service));
        self
    }

    /// Runs what is called by address with `run` instead.
    pub(crate) fn run_addresses(mut self, run: RunAddress) -> Self {
        self.run = run;
        self
    }

    /// Calls `start` with the new session, before anybody else has it.
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
