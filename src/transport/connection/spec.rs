//! Connections as text: `transport[:action]=descriptor`, for command lines.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// A connection as text: the transport, what to do there, and the transport's own descriptor. `socket:adopt=5`,
/// `tcp:connect=host:4000`.
///
/// The first `=` ends the part before the descriptor; a `:` separates only within that part. The descriptor may be
/// empty. Words of direction are said from the reading side: `tcp:connect` at an executor meets `tcp:listen` at a
/// controller.
///
/// # Examples
///
/// ```
/// use farcall::session::ConnectionSpec;
///
/// let spec: ConnectionSpec = "tcp:connect=host:4000".parse()?;
/// assert_eq!((spec.transport(), spec.action(), spec.descriptor()), ("tcp", Some("connect"), "host:4000"));
/// assert_eq!(spec.to_string(), "tcp:connect=host:4000");
/// # Ok::<(), farcall::Error>(())
/// ```
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

    /// The action, if the text has one.
    #[must_use]
    pub fn action(&self) -> Option<&str> {
        self.action.as_deref()
    }

    /// The descriptor, which only the transport understands.
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
