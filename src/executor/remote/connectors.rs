//! Connectors for programs whose command line names their controller.

use std::os::fd::IntoRawFd;

use super::simple_remote::SimpleRemote;
use crate::error::{Error, Result};
use crate::session::{ConnectionSpec, ConnectorRegistry, SessionHandle};
use crate::sys::io::stream;
use crate::sys::process::child;

/// The connectors of this library: `socket:adopt=NUMBER` attaches a session to a connected stream socket that was
/// left open for this process. The connector owns a descriptor that is a socket, and closes it on an error.
///
/// # Examples
///
/// ```
/// use std::os::fd::IntoRawFd;
/// use std::os::unix::net::UnixStream;
/// use farcall::executor::connectors;
/// use farcall::session::SessionBuilder;
///
/// let (ours, _controllers) = UnixStream::pair()?;
/// let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).build()?;
/// connectors().connect(&format!("socket:adopt={}", ours.into_raw_fd()), &session)?;
/// # drop(_controllers);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn connectors() -> ConnectorRegistry {
    let registry = ConnectorRegistry::new();
    // An empty registry refuses no name.
    let _ = registry.register("socket", adopt_socket);
    registry
}

fn adopt_socket(spec: &ConnectionSpec, session: &SessionHandle) -> Result<()> {
    let refused = |why: String| Error::invalid(format!("connection \"{spec}\": {why}"));
    if spec.action() != Some("adopt") {
        return Err(refused("a socket can be adopted, nothing else".to_owned()));
    }
    let number =
        Some(spec.descriptor()).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = number.and_then(|text| text.parse::<i32>().ok());
    let number =
        number.ok_or_else(|| refused("that is not the number of a descriptor".to_owned()))?;
    let socket =
        child::adopt(number).map_err(|error| error.during(format!("connection \"{spec}\"")))?;
    if !stream::is_socket(&socket) {
        // Its owner keeps it.
        let _ = socket.into_raw_fd();
        return Err(refused("that is not a socket".to_owned()));
    }
    let during = |error: Error| error.during(format!("connection \"{spec}\""));
    session.try_attach(|_| SimpleRemote::socket(socket).map_err(during))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::session::{Session, SessionBuilder};

    fn session() -> Session {
        SessionBuilder::new(|task| drop(thread::spawn(|| task.run()))).build().expect("a session")
    }

    fn connect(what: &str, session: &Session) -> Result<()> {
        connectors().connect(what, session)
    }

    fn refused(what: &str, why: &str) {
        let error = connect(what, &session()).expect_err("refused").to_string();
        assert!(error.contains(what) && error.contains(why), "{error}");
    }

    fn is_open(number: i32) -> bool {
        std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok()
    }

    #[test]
    fn rejects_pipe() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        refused(&format!("socket:adopt={}", reader.as_raw_fd()), "not a socket");
        assert!(is_open(reader.as_raw_fd()), "it is not taken");
    }

    #[test]
    fn rejects_closed_descriptor() {
        refused("socket:adopt=987654", "connection");
    }

    #[test]
    fn rejects_what_is_no_number() {
        for text in ["", "-1", "+3", "3x", "99999999999", " 3"] {
            refused(&format!("socket:adopt={text}"), "not the number of a descriptor");
        }
        refused("socket:listen=3", "nothing else");
        refused("socket=3", "nothing else");
    }

    #[test]
    fn takes_ownership_of_a_socket_even_on_failure() {
        let (one, peer) = UnixDatagram::pair().expect("sockets");
        let number = OwnedFd::from(one).into_raw_fd();
        refused(&format!("socket:adopt={number}"), "");
        assert!(peer.send(b"x").is_err(), "the other end is closed");
    }

    #[test]
    fn adopts_a_socket() {
        let (sender, receiver) = mpsc::channel();
        let (one, other) = UnixStream::pair().expect("sockets");
        let number = OwnedFd::from(one).into_raw_fd();
        let options = SessionBuilder::new(|task| drop(thread::spawn(|| task.run())));
        let options = options.on_disconnect(move |_, cause| drop(sender.send(cause)));
        let session = options.build().expect("a session");
        connect(&format!("socket:adopt={number}"), &session).expect("attached");
        let (another, _other) = UnixStream::pair().expect("sockets");
        let again = format!("socket:adopt={}", OwnedFd::from(another).into_raw_fd());
        assert!(connect(&again, &session).is_err(), "a session is attached once");
        drop((session, other));
        receiver.try_recv().expect("it was attached").expect("an orderly end");
    }
}
