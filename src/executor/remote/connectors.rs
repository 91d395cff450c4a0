//! Connectors for programs whose command line names their controller.

use super::simple_remote::SimpleRemote;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::executor::log::{self, Level};
use crate::limits::START_TIMEOUT;
use crate::session::{ConnectionSpec, ConnectorRegistry, SessionHandle};
use crate::transport::VettedPeer;
use crate::transport::opening::{self, Channel};

/// The connectors of this library, for `fd`, `socket` and `tcp`. They attach a session to what
/// [`Connection::open`](crate::Connection::open) opens by the same text. They wait up to [`START_TIMEOUT`] for the controller.
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
    for transport in ["fd", "socket", "tcp"] {
        // An empty registry refuses no name.
        let _ = registry.register(transport, connect);
    }
    registry
}

fn connect(spec: &ConnectionSpec, session: &SessionHandle) -> Result<()> {
    let (reader, writer) = channel(opening::peer(spec, Deadline::after(START_TIMEOUT))?);
    session.try_attach(|_| {
        SimpleRemote::stream(reader, writer).map_err(|error| error.during(opening::name(spec)))
    })
}

/// The channel to a controller that is trusted. Logs why it is.
pub(in crate::executor) fn channel(controller: VettedPeer<Channel>) -> Channel {
    log::write(Level::Info, format_args!("the controller is {}", controller.trust()));
    controller.take()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
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
