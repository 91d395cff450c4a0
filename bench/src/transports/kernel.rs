//! Round trips through the kernel: messages over pipes, over a Unix stream socket and over TCP.
//!
//! Both sides block in `read`, so each hop wakes a sleeper: the cost of a call without polling.
//!
//! Invariant: one `write` and one `read` on each side of a call, if the kernel takes and gives all bytes at once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use crate::processes::peer::{Peer, Slot};
use crate::processes::server::{Server, Service};
use crate::transports::copy::{ends, mark};
use crate::transports::transport::Transport;
use crate::{Contender, Result, Size};

/// The kinds of byte streams, as rows are named.
pub(crate) const PIPES: &str = "pipe pair";
pub(crate) const UNIX: &str = "Unix stream";
const TCP: &str = "TCP";

/// The row over two pipes.
pub(crate) const OVER_PIPES: Transport = Transport {
    word: "pipe",
    has_sizes: true,
    row_name: |size, _| name(PIPES, size),
    start: |setting| Ok(Box::new(Echo::over_pipes(setting.peer, setting.size)?)),
};
/// The row over a pair of Unix stream sockets.
pub(crate) const OVER_UNIX_STREAM: Transport = Transport {
    word: "unix",
    has_sizes: true,
    row_name: |size, _| name(UNIX, size),
    start: |setting| Ok(Box::new(Echo::over_unix_stream(setting.peer, setting.size)?)),
};
/// The row over TCP.
pub(super) const OVER_TCP: Transport = Transport {
    word: "tcp",
    has_sizes: true,
    row_name: |size, _| name(TCP, size),
    start: |setting| Ok(Box::new(Echo::over_tcp(setting.peer, setting.size)?)),
};
/// Descriptors: one to read messages from, one to write them back to.
pub(super) const SERVICE: Service = Service {
    name: "echo",
    make: |parts| {
        let bytes = parts.bytes;
        let [from, to] = parts.descriptors()?;
        Ok(Box::new(EchoServer::new(from, to, bytes)))
    },
};

/// A round trip over two byte streams, one each way, or over a single stream for both ways.
#[derive(Debug)]
pub(crate) struct Echo {
    name: String,
    to: File,
    from: File,
    slot: Slot,
    number: u64,
    message: Vec<u8>,
    reply: Vec<u8>,
}

impl Echo {
    /// Two pipes, one each way.
    pub(crate) fn over_pipes(peer: &Rc<Peer>, size: Size) -> Result<Echo> {
        let (their_from, to) = io::pipe()?;
        let (from, their_to) = io::pipe()?;
        let slot = peer.install(&SERVICE, size, &[their_from.as_fd(), their_to.as_fd()])?;
        Ok(Echo::new(PIPES, size, to.into(), from.into(), slot))
    }

    /// A connected pair of Unix stream sockets.
    pub(crate) fn over_unix_stream(peer: &Rc<Peer>, size: Size) -> Result<Echo> {
        let (ours, theirs) = UnixStream::pair()?;
        let slot = peer.install(&SERVICE, size, &[theirs.as_fd(), theirs.as_fd()])?;
        Ok(Echo::new(UNIX, size, ours.try_clone()?.into(), ours.into(), slot))
    }

    /// A TCP connection through the loopback device, without delays.
    fn over_tcp(peer: &Rc<Peer>, size: Size) -> Result<Echo> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let ours = TcpStream::connect(listener.local_addr()?)?;
        let (theirs, _) = listener.accept()?;
        ours.set_nodelay(true)?;
        theirs.set_nodelay(true)?;
        let slot = peer.install(&SERVICE, size, &[theirs.as_fd(), theirs.as_fd()])?;
        Ok(Echo::new(TCP, size, ours.try_clone()?.into(), ours.into(), slot))
    }

    fn new(kind: &str, size: Size, to: OwnedFd, from: OwnedFd, slot: Slot) -> Echo {
        let name = name(kind, size);
        let (message, reply) = (vec![0x5a; size.bytes()], vec![0; size.bytes()]);
        Echo { name, to: to.into(), from: from.into(), slot, number: 0, message, reply }
    }
}

/// The name of a row: the kind alone for 8 bytes, else with the size.
fn name(kind: &str, size: Size) -> String {
    if size == Size::WORD { kind.to_owned() } else { format!("{kind} {size}") }
}

impl Contender for Echo {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    fn call(&mut self) -> Result<()> {
        self.number += 1;
        mark(&mut self.message, self.number);
        self.to.write_all(&self.message)?;
        // Ends with an error when the peer process is gone: it owned the only other end.
        self.from.read_exact(&mut self.reply)?;
        if ends(&self.reply) == ends(&self.message) {
            Ok(())
        } else {
            Err(format!("call {} came back as {:x?}", self.number, ends(&self.reply)).into())
        }
    }
}

/// The other side of [`Echo`]: sends back what comes.
#[derive(Debug)]
pub(crate) struct EchoServer {
    from: File,
    to: File,
    message: Vec<u8>,
}

impl EchoServer {
    pub(crate) fn new(from: OwnedFd, to: OwnedFd, bytes: usize) -> EchoServer {
        EchoServer { from: from.into(), to: to.into(), message: vec![0; bytes] }
    }
}

impl Server for EchoServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        for _ in 0..calls {
            self.from.read_exact(&mut self.message)?;
            self.to.write_all(&self.message)?;
        }
        Ok(())
    }
}
