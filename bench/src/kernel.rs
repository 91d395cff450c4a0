//! Round trips through the kernel: 8-byte messages over pipes and over a Unix stream socket.
//!
//! Both sides block in `read`, so each hop wakes a sleeper: what a call costs without polling.
//!
//! Invariant: one `write` and one `read` on each side of a call.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use crate::order::Service;
use crate::peer::{Peer, Slot};
use crate::serve::Server;
use crate::{Contender, Result};

/// A round trip over two byte streams, one each way, or one that goes both ways.
#[derive(Debug)]
pub(crate) struct Echo {
    name: &'static str,
    to: File,
    from: File,
    slot: Slot,
    sequence: u64,
}

impl Echo {
    /// Two pipes, one each way.
    pub(crate) fn over_pipes(peer: &Rc<Peer>) -> Result<Echo> {
        let (their_from, to) = io::pipe()?;
        let (from, their_to) = io::pipe()?;
        let slot = peer.install(Service::Echo, &[their_from.as_fd(), their_to.as_fd()])?;
        let (to, from) = (OwnedFd::from(to).into(), OwnedFd::from(from).into());
        Ok(Echo { name: "pipe pair", to, from, slot, sequence: 0 })
    }

    /// A connected pair of Unix stream sockets.
    pub(crate) fn over_unix_stream(peer: &Rc<Peer>) -> Result<Echo> {
        let (ours, theirs) = UnixStream::pair()?;
        let slot = peer.install(Service::Echo, &[theirs.as_fd(), theirs.as_fd()])?;
        let from = OwnedFd::from(ours.try_clone()?).into();
        Ok(Echo { name: "Unix stream", to: OwnedFd::from(ours).into(), from, slot, sequence: 0 })
    }
}

impl Contender for Echo {
    fn name(&self) -> &str {
        self.name
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    fn call(&mut self) -> Result<()> {
        self.sequence += 1;
        let request = self.sequence.to_le_bytes();
        let mut reply = [0; 8];
        self.to.write_all(&request)?;
        // Ends with an error when the peer process is gone: it had the only other end.
        self.from.read_exact(&mut reply)?;
        if reply != request {
            return Err(format!("call {} came back as {reply:?}", self.sequence).into());
        }
        Ok(())
    }
}

/// The other side of [`Echo`]: sends back what comes.
#[derive(Debug)]
pub(crate) struct EchoServer {
    from: File,
    to: File,
}

impl EchoServer {
    pub(crate) fn new(from: OwnedFd, to: OwnedFd) -> EchoServer {
        EchoServer { from: from.into(), to: to.into() }
    }
}

impl Server for EchoServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        let mut message = [0; 8];
        for _ in 0..calls {
            self.from.read_exact(&mut message)?;
            self.to.write_all(&message)?;
        }
        Ok(())
    }
}
