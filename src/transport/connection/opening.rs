//! Connections that a text names, opened by either side.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use super::Connection;
use super::spec::ConnectionSpec;
use super::vetted_peer::VettedPeer;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::io::stream;
use crate::sys::io::watch::Watch;
use crate::sys::process::child;

/// The descriptors to read from and to write to.
pub(crate) type Channel = (OwnedFd, OwnedFd);

impl Connection {
    /// Opens the connection that a text names, and waits up to `timeout` for the other end.
    ///
    /// | text | connection |
    /// |---|---|
    /// | `fd=N`, `fd=R,W` | the descriptor of a stream socket, or those of two pipes, to read from and to write to |
    /// | `socket:adopt=N` | the descriptor of a stream socket, by the word of LLVM's runtime |
    /// | `tcp:connect=HOST:PORT` | to a peer that listens there |
    /// | `tcp:listen=HOST:PORT` | from the first peer that connects; without a host, or with an empty one, on this machine |
    ///
    /// Words of direction are said from the reading side: `tcp:connect` at an executor meets `tcp:listen` at a controller, and
    /// the other way round. A host is looked up for as long as the system's resolver takes.
    ///
    /// A peer that connects to `tcp:listen` shows no token, so this function listens only where other machines cannot connect. A
    /// `farcall-executor` listens elsewhere, for clients with its token. Nothing is encrypted. `ssh` does that.
    ///
    /// # Errors
    ///
    /// When the text names no such connection, the system refuses it, or no peer is at the other end in time
    /// (`ErrorKind::Timeout`). The message quotes the text. A descriptor that is no socket stays open; a socket is closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::os::fd::IntoRawFd;
    /// use std::os::unix::net::UnixStream;
    /// use std::time::Duration;
    ///
    /// use farcall::{Connection, controller::Client, executor};
    ///
    /// let (ours, theirs) = UnixStream::pair()?;
    /// let thread = std::thread::spawn(|| executor::serve(Connection::socket(theirs)?));
    /// let spec = format!("fd={}", ours.into_raw_fd()).parse()?;
    /// let client = Client::connect(Connection::open(&spec, Duration::from_secs(10))?)?;
    /// drop(client);
    /// thread.join().expect("no panic")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(spec: &ConnectionSpec, timeout: Duration) -> Result<Self> {
        let (reader, writer) = peer(spec, Deadline::after(timeout))?.take();
        Self::stream(reader, writer).map_err(|error| error.during(name(spec)))
    }
}

/// Opens the channel that a text names, and says why its peer is trusted.
///
/// # Errors
///
/// As [`Connection::open`].
pub(crate) fn peer(spec: &ConnectionSpec, deadline: Deadline) -> Result<VettedPeer<Channel>> {
    let refused = |why: &str| Error::invalid(format!("{}: {why}", name(spec)));
    let opened = match (spec.transport(), spec.action()) {
        ("fd", None) => match spec.descriptor().split_once(',') {
            None => adopt_socket(spec),
            Some((reader, writer)) => adopt(reader, writer),
        }
        .map(VettedPeer::inherited),
        ("socket", Some("adopt")) => adopt_socket(spec).map(VettedPeer::inherited),
        ("tcp", Some("connect")) => {
            connect(spec.descriptor(), deadline).and_then(both_ways).map(VettedPeer::unchecked)
        }
        ("tcp", Some("listen")) => {
            listen(spec.descriptor(), deadline).and_then(both_ways).map(VettedPeer::unchecked)
        }
        ("fd", Some(_)) => return Err(refused("a descriptor has no action: say fd=N")),
        ("socket", _) => {
            return Err(refused("a socket can be adopted, nothing else: say socket:adopt=N"));
        }
        ("tcp", _) => return Err(refused("say tcp:connect=HOST:PORT or tcp:listen=HOST:PORT")),
        _ => return Err(refused("no such transport: say fd, socket or tcp")),
    };
    opened.map_err(|error| error.during(name(spec)))
}

/// The words for a connection in messages.
pub(crate) fn name(spec: &ConnectionSpec) -> String {
    format!("connection \"{spec}\"")
}

/// The channel that a TCP socket is.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn both_ways(socket: TcpStream) -> Result<Channel> {
    socket.set_nodelay(true).map_err(|error| Error::os("switching nodelay on", error))?;
    doubled(socket.into())
}

fn doubled(socket: OwnedFd) -> Result<Channel> {
    let writer = socket.try_clone();
    let writer = writer.map_err(|error| Error::os("doubling a socket's descriptor", error))?;
    Ok((socket, writer))
}

fn number(text: &str) -> Result<i32> {
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|text| text.parse().ok());
    number.ok_or_else(|| Error::invalid(format!("\"{text}\" is not the number of a descriptor")))
}

fn adopt_socket(spec: &ConnectionSpec) -> Result<Channel> {
    let socket = child::adopt(number(spec.descriptor())?)?;
    if !stream::is_socket(&socket) {
        // Its owner keeps it.
        let _ = socket.into_raw_fd();
        return Err(Error::invalid("that is not a socket; two pipes are fd=R,W"));
    }
    stream::expect_stream_socket(&socket)?;
    doubled(socket)
}

fn adopt(reader: &str, writer: &str) -> Result<Channel> {
    let (reader, writer) = (number(reader)?, number(writer)?);
    let read_from = child::adopt(reader)?;
    if reader == writer { doubled(read_from) } else { Ok((read_from, child::adopt(writer)?)) }
}

fn connect(address: &str, deadline: Deadline) -> Result<TcpStream> {
    let mut refusal = None;
    for address in addresses(address)? {
        // A time of zero is refused as an argument.
        let left = deadline.left().unwrap_or(Duration::MAX).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => return Ok(socket),
            Err(error) => refusal = Some(error),
        }
    }
    let error = refusal.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into());
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Err(Error::new(
            ErrorKind::Timeout,
            format!("no peer answers at {address}: is it reached from here?"),
        )),
        io::ErrorKind::ConnectionRefused => Err(Error::os(
            format!(
                "connecting to {address}, where the other side must listen before (tcp:listen)"
            ),
            error,
        )),
        _ => Err(Error::os(format!("connecting to {address}"), error)),
    }
}

fn listen(address: &str, deadline: Deadline) -> Result<TcpStream> {
    let failed = |error| Error::os(format!("listening at {address}"), error);
    let addresses = addresses(address)?;
    if let Some(outside) = addresses.iter().find(|address| !address.ip().is_loopback()) {
        return Err(Error::invalid(format!(
            "listening at {outside}: every machine that reaches this address could connect. Listen at 127.0.0.1, and connect by \
             ssh, which also encrypts; or let farcall-executor listen, with a token"
        )));
    }
    if addresses.iter().any(|address| address.port() == 0) {
        return Err(Error::invalid("port 0 is any port, and no peer would learn which: say one"));
    }
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    first(&listener, deadline)?.ok_or_else(|| {
        Error::new(
            ErrorKind::Timeout,
            format!(
                "no peer has connected to {address}: start the other side with tcp:connect={address}"
            ),
        )
    })
}

/// The first peer that connects. `None` when none has by the deadline.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn first(listener: &TcpListener, deadline: Deadline) -> Result<Option<TcpStream>> {
    let failed = |error| Error::os("accepting a peer", error);
    listener.set_nonblocking(true).map_err(failed)?;
    let watch = Watch::new()?;
    watch.add(listener.as_fd(), 0)?;
    loop {
        if let Some(socket) = accepted(listener).map_err(failed)? {
            return Ok(Some(socket));
        }
        if deadline.has_passed() {
            return Ok(None);
        }
        watch.wait(deadline);
    }
}

/// The next client. `None` if it is gone already, or there is none and the listener does not wait.
pub(crate) fn accepted(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((socket, _)) => Ok(Some(socket)),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionAborted
            | io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock => Ok(None),
            _ => Err(error),
        },
    }
}

/// The socket addresses that a text means: `HOST:PORT`, or `:PORT` or `PORT` on this machine.
///
/// # Errors
///
/// When it is no address, or the host is unknown.
pub(crate) fn addresses(address: &str) -> Result<Vec<SocketAddr>> {
    let port = address.strip_prefix(':').unwrap_or(address);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(vec![(Ipv4Addr::LOCALHOST, port).into()]);
    }
    let found = address.to_socket_addrs();
    let found = found.map_err(|error| Error::os(format!("the address {address}"), error))?;
    Ok(found.collect())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn open(text: &str, timeout: Duration) -> Result<Connection> {
        Connection::open(&text.parse().expect("a connection"), timeout)
    }

    fn refused(text: &str, why: &str) {
        let error = open(text, LONG).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error:?}");
        let error = error.to_string();
        assert!(error.contains(&format!("\"{text}\"")) && error.contains(why), "{error}");
    }

    #[test]
    fn an_address_without_a_host_is_this_machine() {
        for address in ["4000", ":4000"] {
            assert_eq!(
                addresses(address).expect("an address"),
                ["127.0.0.1:4000".parse().expect("one")]
            );
        }
        let outside = addresses("0.0.0.0:4000").expect("an address");
        assert_eq!(outside, ["0.0.0.0:4000".parse().expect("one")]);
        assert_eq!(addresses("[::1]:4").expect("an address"), ["[::1]:4".parse().expect("one")]);
        for address in ["", ":", "70000", ":x", "127.0.0.1"] {
            assert!(addresses(address).is_err(), "{address}");
        }
    }

    #[test]
    fn a_text_that_names_no_connection_is_refused() {
        refused("pipe=3,4", "say fd, socket or tcp");
        refused("fd:adopt=3", "say fd=N");
        refused("fd=x", "not the number of a descriptor");
        refused("fd=3,", "not the number of a descriptor");
        refused("socket:listen=3", "socket:adopt=N");
        refused("tcp=localhost:1", "tcp:connect=HOST:PORT");
        refused("tcp:listen=0.0.0.0:4000", "ssh");
        refused("tcp:listen=:0", "port 0");
        let (pipe, _writer) = io::pipe().expect("a pipe");
        refused(&format!("fd={}", pipe.as_raw_fd()), "two pipes are fd=R,W");
    }

    #[test]
    fn two_pipes_are_a_connection() {
        let (reader, _) = io::pipe().expect("a pipe");
        let (_, writer) = io::pipe().expect("a pipe");
        let text = format!("fd={},{}", reader.into_raw_fd(), writer.into_raw_fd());
        open(&text, LONG).expect("a connection");
    }

    #[test]
    fn the_wait_for_a_peer_that_does_not_come_has_an_end() {
        // The system gives no such port to a socket by itself.
        let text = format!("tcp:listen=:{}", 16_000 + std::process::id() % 4000);
        let error = open(&text, Duration::from_millis(20)).expect_err("no peer connects");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        assert!(error.to_string().contains("tcp:connect="), "{error}");
    }

    #[test]
    fn a_side_that_connects_must_be_awaited() {
        let error = open("tcp:connect=127.0.0.1:1", LONG);
        let error = error.expect_err("no peer listens").to_string();
        assert!(error.contains("tcp:listen") && error.contains("\"tcp:connect="), "{error}");
    }
}
