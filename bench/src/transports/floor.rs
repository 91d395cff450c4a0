//! The floors: bare cache-line ping-pong between two processes, both sides of it.
//!
//! Every other row is reported as a ratio to these. They carry one word and do nothing with it.
//!
//! Invariant: no system call on either side of a call, while the sides have a CPU each.

use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::processes::peer::{Peer, Slot};
use crate::processes::poll::Poll;
use crate::processes::server::{Server, Service};
use crate::processes::shared::SharedWords;
use crate::{Contender, Result, Size};

/// The request on one line, the reply on another, each polled with loads and pauses. This ping-pong is usually measured, and is
/// the unit in which all rows are reported.
#[derive(Debug)]
pub(crate) struct TwoLines {
    words: SharedWords,
    slot: Slot,
    sequence: u64,
}

impl TwoLines {
    pub(crate) fn new(peer: &Rc<Peer>) -> Result<TwoLines> {
        let (words, memfd) = SharedWords::create()?;
        let slot = peer.install(&TwoLines::SERVICE, Size::WORD, &[memfd.as_fd()])?;
        Ok(TwoLines { words, slot, sequence: 0 })
    }
}

impl TwoLines {
    /// The name of the row.
    pub(crate) const NAME: &str = "two-line floor";
    /// Descriptor: the memfd of the words. Request and reply on two lines, polled by loads.
    pub(crate) const SERVICE: Service = Service {
        name: "two lines",
        make: |parts| {
            let poll = parts.poll;
            let [memfd] = parts.descriptors()?;
            Ok(Box::new(TwoLinesServer::attach(memfd.as_fd(), poll)?))
        },
    };
}

impl Contender for TwoLines {
    fn name(&self) -> &str {
        TwoLines::NAME
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        self.sequence += 1;
        let (request, reply) = (self.words.word(0), self.words.word(1));
        // Release: pairs with the server's Acquire poll of the request.
        request.store(self.sequence, Ordering::Release);
        // Acquire: pairs with the server's Release store of the reply.
        self.slot.poll_until(|| reply.load(Ordering::Acquire) == self.sequence)
    }
}

/// The other side of [`TwoLines`].
#[derive(Debug)]
pub(crate) struct TwoLinesServer {
    words: SharedWords,
    poll: Poll,
    sequence: u64,
}

impl TwoLinesServer {
    pub(crate) fn attach(memfd: BorrowedFd<'_>, poll: Poll) -> Result<TwoLinesServer> {
        Ok(TwoLinesServer { words: SharedWords::attach(memfd)?, poll, sequence: 0 })
    }
}

impl Server for TwoLinesServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        let (request, reply) = (self.words.word(0), self.words.word(1));
        for _ in 0..calls {
            self.sequence += 1;
            let sequence = self.sequence;
            // Acquire: pairs with the caller's Release store of the request.
            self.poll.until(|| request.load(Ordering::Acquire) == sequence, parent_kills)?;
            // Release: pairs with the caller's Acquire poll of the reply.
            reply.store(sequence, Ordering::Release);
        }
        Ok(())
    }
}

/// Request and reply in the same line, polled with compare-exchange. So the line arrives in exclusive state, and the answering
/// store hits: the fastest round trip that the machine has.
#[derive(Debug)]
pub(crate) struct OneLine {
    words: SharedWords,
    slot: Slot,
    hop: u64,
}

impl OneLine {
    pub(crate) fn new(peer: &Rc<Peer>) -> Result<OneLine> {
        let (words, memfd) = SharedWords::create()?;
        let slot = peer.install(&OneLine::SERVICE, Size::WORD, &[memfd.as_fd()])?;
        Ok(OneLine { words, slot, hop: 0 })
    }
}

impl OneLine {
    /// The name of the row.
    pub(crate) const NAME: &str = "one-line floor";
    /// Descriptor: the memfd of the words. One line both ways, polled by compare-exchange.
    pub(crate) const SERVICE: Service = Service {
        name: "one line",
        make: |parts| {
            let poll = parts.poll;
            let [memfd] = parts.descriptors()?;
            Ok(Box::new(OneLineServer::attach(memfd.as_fd(), poll)?))
        },
    };
}

impl Contender for OneLine {
    fn name(&self) -> &str {
        OneLine::NAME
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    #[inline]
    fn call(&mut self) -> Result<()> {
        let line = self.words.word(0);
        let (request, reply) = (self.hop + 1, self.hop + 2);
        self.hop = reply;
        // Release: pairs with the Acquire of the server's `is_hop`.
        line.store(request, Ordering::Release);
        self.slot.poll_until(|| is_hop(line, reply))
    }
}

/// The other side of [`OneLine`].
#[derive(Debug)]
pub(crate) struct OneLineServer {
    words: SharedWords,
    poll: Poll,
    hop: u64,
}

impl OneLineServer {
    pub(crate) fn attach(memfd: BorrowedFd<'_>, poll: Poll) -> Result<OneLineServer> {
        Ok(OneLineServer { words: SharedWords::attach(memfd)?, poll, hop: 0 })
    }
}

impl Server for OneLineServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        let line = self.words.word(0);
        for _ in 0..calls {
            let (request, reply) = (self.hop + 1, self.hop + 2);
            self.hop = reply;
            self.poll.until(|| is_hop(line, request), parent_kills)?;
            // Release: pairs with the Acquire of the caller's `is_hop`.
            line.store(reply, Ordering::Release);
        }
        Ok(())
    }
}

/// One poll of a line: is it at `hop`, and if so, is it ours to write?
///
/// Compare-exchange with equal operands, not `fetch_add(0)` or `fetch_or(0)`. The compiler turns those into a fence and a plain
/// load, which leaves the line in shared state.
#[inline]
pub(crate) fn is_hop(line: &AtomicU64, hop: u64) -> bool {
    line.compare_exchange(hop, hop, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// A server does not watch its parent: the kernel kills it with the parent.
pub(crate) fn parent_kills() -> Result<()> {
    Ok(())
}
