//! A round trip by two words and the kernel's futex: each side sleeps at once, each hop wakes the other.
//!
//! The reference for adaptive waiting when polling is useless, as on one CPU.
//!
//! Invariant: at most one wake and one sleep on each side of a call.

use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::processes::peer::{Peer, Slot};
use crate::processes::server::{Server, Service};
use crate::processes::shared::SharedWords;
use crate::transports::transport::Transport;
use crate::{Contender, Result, Size};

/// After a sleep of this length a side checks that the other process lives.
const TIMEOUT: Duration = Duration::from_millis(100);
const REQUEST: usize = 0;
const REPLY: usize = 1;

/// The row.
pub(crate) const TRANSPORT: Transport = Transport {
    word: "futex",
    has_sizes: false,
    row_name: |_, _| Futex::NAME.to_owned(),
    start: |setting| Ok(Box::new(Futex::new(setting.peer)?)),
};
/// Descriptor: the memfd of the words. Request and reply on two lines, for each of which the other side sleeps.
pub(crate) const SERVICE: Service = Service {
    name: "futex",
    make: |parts| {
        let [memfd] = parts.descriptors()?;
        Ok(Box::new(FutexServer::attach(memfd.as_fd())?))
    },
};

/// The request in one word, the reply in another.
#[derive(Debug)]
pub(crate) struct Futex {
    words: SharedWords,
    slot: Slot,
    sequence: u64,
}

impl Futex {
    pub(crate) fn new(peer: &Rc<Peer>) -> Result<Futex> {
        let (words, memfd) = SharedWords::create()?;
        let slot = peer.install(&SERVICE, Size::WORD, &[memfd.as_fd()])?;
        Ok(Futex { words, slot, sequence: 0 })
    }
}

impl Futex {
    /// The name of the row.
    pub(crate) const NAME: &str = "futex";
}

impl Contender for Futex {
    fn name(&self) -> &str {
        Futex::NAME
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    fn call(&mut self) -> Result<()> {
        let before = self.sequence;
        self.sequence += 1;
        // Release: pairs with the server's Acquire load of the request.
        self.words.word(REQUEST).store(self.sequence, Ordering::Release);
        self.words.wake(REQUEST);
        // Acquire: pairs with the server's Release store of the reply.
        while self.words.word(REPLY).load(Ordering::Acquire) != self.sequence {
            self.words.sleep(REPLY, before, TIMEOUT);
            if self.words.word(REPLY).load(Ordering::Relaxed) == before {
                self.slot.check_lives()?;
            }
        }
        Ok(())
    }
}

/// The other side of [`Futex`].
#[derive(Debug)]
pub(crate) struct FutexServer {
    words: SharedWords,
    sequence: u64,
}

impl FutexServer {
    pub(crate) fn attach(memfd: BorrowedFd<'_>) -> Result<FutexServer> {
        Ok(FutexServer { words: SharedWords::attach(memfd)?, sequence: 0 })
    }
}

impl Server for FutexServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        for _ in 0..calls {
            let before = self.sequence;
            self.sequence += 1;
            // Acquire: pairs with the caller's Release store of the request.
            while self.words.word(REQUEST).load(Ordering::Acquire) != self.sequence {
                // The kernel ends this process with its parent.
                self.words.sleep(REQUEST, before, TIMEOUT);
            }
            // Release: pairs with the caller's Acquire load of the reply.
            self.words.word(REPLY).store(self.sequence, Ordering::Release);
            self.words.wake(REPLY);
        }
        Ok(())
    }
}
