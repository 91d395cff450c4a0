//! Connectors by the names of their transports, for command lines.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::session::SessionHandle;
use crate::sync::Mutex;
use crate::transport::ConnectionSpec;

type Connector = dyn Fn(&ConnectionSpec, &SessionHandle) -> Result<()> + Send + Sync;

/// Connectors by the names of their transports. It contains only what was registered.
///
/// # Examples
///
/// ```
/// use farcall::session::{ConnectorRegistry, InProcess, SessionBuilder};
///
/// let connectors = ConnectorRegistry::new();
/// connectors.register("local", |_spec, session| {
///     let (access, _controller) = InProcess::new(|_tag, args, reply| reply.send(Ok(args)));
///     session.attach(access)
/// })?;
/// # let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).build()?;
/// connectors.connect("local=", &session)?;
/// assert_eq!(session.call(1, vec![7])?, [7]);
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Default)]
pub struct ConnectorRegistry(Mutex<BTreeMap<String, Arc<Connector>>>);

impl ConnectorRegistry {
    /// A registry without connectors.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers the connector of a transport. It is called with no lock held.
    ///
    /// # Errors
    ///
    /// If the transport has a connector.
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

    /// Attaches a session as `spec` describes.
    ///
    /// # Errors
    ///
    /// If `spec` is malformed or names an unregistered transport, or the connector's error.
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
