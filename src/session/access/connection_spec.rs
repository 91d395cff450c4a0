//! How a program is told what to connect a session to: `transport[:action]=descriptor`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::session::SessionHandle;
use crate::sync::Mutex;

/// A connection as words: which transport, what to do there, and with what. `socket:adopt=5`, `tcp:connect=host:4000`.
///
/// The first `=` ends the words in front; a `:` counts only there. The descriptor is the transport's business and may be
/// empty. Words of direction are those of who reads them: an executor's `tcp:connect` meets a controller's `tcp:listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSpec {
    transport: String,
    action: Option<String>,
    descriptor: String,
}

impl ConnectionSpec {
    /// The name of the transport.
    #[must_use]
    pub fn transport(&self) -> &str {
        &self.transport
    }

    /// What to do, if that was said.
    #[must_use]
    pub fn action(&self) -> Option<&str> {
        self.action.as_deref()
    }

    /// What to do it with.
    #[must_use]
    pub fn descriptor(&self) -> &str {
        &self.descriptor
    }
}

impl FromStr for ConnectionSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused = |why| Error::invalid(format!("connection \"{text}\": {why}"));
        let (words, descriptor) = text.split_once('=').ok_or_else(|| refused("it has no '='"))?;
        let (transport, action) = match words.split_once(':') {
            Some((transport, action)) => (transport, Some(action)),
            None => (words, None),
        };
        if transport.is_empty() {
            return Err(refused("it names no transport"));
        }
        if action == Some("") {
            return Err(refused("nothing follows its ':'"));
        }
        Ok(Self {
            transport: transport.to_owned(),
            action: action.map(str::to_owned),
            descriptor: descriptor.to_owned(),
        })
    }
}

impl fmt::Display for ConnectionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.transport)?;
        if let Some(action) = &self.action {
            write!(f, ":{action}")?;
        }
        write!(f, "={}", self.descriptor)
    }
}

type Connector = dyn Fn(&ConnectionSpec, &SessionHandle) -> Result<()> + Send + Sync;

/// What connects sessions, by the names of transports. Nothing is in it that was not registered.
#[derive(Default)]
pub struct ConnectorRegistry(Mutex<BTreeMap<String, Arc<Connector>>>);

impl ConnectorRegistry {
    /// A registry without connectors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on `connector` attaches sessions for this transport. It is called with no lock held.
    ///
    /// # Errors
    ///
    /// When the transport has one.
    pub fn register(
        &self,
        transport: &str,
        connector: impl Fn(&ConnectionSpec, &SessionHandle) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let mut connectors = self.0.lock();
        if connectors.contains_key(transport) {
            return Err(Error::invalid(format!("transport {transport} has a connector already")));
        }
        connectors.insert(transport.to_owned(), Arc::new(connector));
        Ok(())
    }

    /// Attaches a session as `spec` says.
    ///
    /// # Errors
    ///
    /// When that is no connection, names a transport that nobody registered, or the connector refuses it.
    pub fn connect(&self, spec: &str, session: &SessionHandle) -> Result<()> {
        let spec: ConnectionSpec = spec.parse()?;
        let connector = {
            let connectors = self.0.lock();
            connectors.get(spec.transport()).cloned()
        };
        let connector = connector
            .ok_or_else(|| Error::invalid(format!("connection \"{spec}\": no such transport")))?;
        connector(&spec, session)
    }
}

impl fmt::Debug for ConnectorRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connectors = self.0.lock();
        f.debug_tuple("ConnectorRegistry").field(&connectors.keys().collect::<Vec<_>>()).finish()
    }
}
