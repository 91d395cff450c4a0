//! Many messages in flight, over two queues of the `shaq` crate, polled on both sides; with the feature `shaq` only.
//!
//! Invariant: both sides publish and take all available messages at once, the fastest way of that crate.
#![expect(unsafe_code, reason = "the crate asks for a promise where it opens a queue")]

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::sys::memfd::{MFdFlags, memfd_create};
use shaq::spsc::{Consumer, Producer, minimum_file_size};

use crate::processes::peer::{Peer, Slot};
use crate::processes::poll::Poll;
use crate::processes::server::{Server, Service};
use crate::transports::transport::Transport;
use crate::{Contender, Result, Size};

/// The row.
pub(super) const TRANSPORT: Transport = Transport {
    word: "shaq",
    has_sizes: false,
    row_name: |_, in_flight| name(in_flight),
    start: |setting| Ok(Box::new(Shaq::new(setting.peer, setting.in_flight)?)),
};
/// Descriptors: the memory of the queue of calls and the memory of the queue of results.
pub(super) const SERVICE: Service = Service {
    name: "shaq",
    make: |parts| {
        let poll = parts.poll;
        let [calls, results] = parts.descriptors()?;
        Ok(Box::new(ShaqServer::attach(calls, results, poll)?))
    },
};

/// The least content of a call: the function, its number and its argument.
type Message = [u64; 3];

/// Messages that a queue has room for.
const CAPACITY: usize = 1024;

/// Messages there and back.
pub(crate) struct Shaq {
    name: String,
    to: Producer<Message>,
    from: Consumer<Message>,
    slot: Slot,
    under_way: u64,
    number: u64,
}

impl Shaq {
    /// A row with this many messages in flight.
    pub(crate) fn new(peer: &Rc<Peer>, messages: usize) -> Result<Shaq> {
        let bytes = minimum_file_size::<Message>(CAPACITY).next_multiple_of(4096);
        let file = || memfd_create("farcall-bench", MFdFlags::MFD_CLOEXEC).map(File::from);
        let [calls, results] = [file()?, file()?];
        // SAFETY: no other process has the new file yet, and the peer will be its only consumer.
        let to = unsafe { Producer::create(&calls, bytes) };
        // SAFETY: as above; the peer will be its only producer.
        let from = unsafe { Consumer::create(&results, bytes) };
        let (to, from) = (to.map_err(text)?, from.map_err(text)?);
        let slot = peer.install(&SERVICE, Size::WORD, &[calls.as_fd(), results.as_fd()])?;
        let name = name(messages);
        Ok(Shaq { name, to, from, slot, under_way: messages as u64, number: 0 })
    }

    /// Makes `calls` calls.
    fn work(&mut self, calls: u64) -> Result<()> {
        let end = self.number + calls;
        let (mut sent, mut polls) = (self.number, 0);
        while self.number < end {
            let most = end.min(self.number + self.under_way);
            if sent < most {
                self.to.sync();
                while sent < most && self.to.try_write([7, sent + 1, sent + 1]).is_ok() {
                    sent += 1;
                }
                self.to.commit();
            }
            self.from.sync();
            if self.from.is_empty() {
                self.slot.pause(&mut polls)?;
            }
            while let Some(message) = self.from.try_read() {
                self.number += 1;
                if *message != [0, self.number, self.number] {
                    return Err(format!("call {} came back as {message:?}", self.number).into());
                }
            }
            self.from.finalize();
        }
        Ok(())
    }
}

/// The name of the row with this many messages in flight.
fn name(messages: usize) -> String {
    format!("shaq x {messages}")
}

impl Contender for Shaq {
    fn name(&self) -> &str {
        &self.name
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    fn call(&mut self) -> Result<()> {
        self.work(1)
    }

    fn run(&mut self, calls: u32) -> Result<Duration> {
        let start = Instant::now();
        self.work(calls.into())?;
        Ok(start.elapsed())
    }
}

/// The other side of [`Shaq`].
pub(crate) struct ShaqServer {
    from: Consumer<Message>,
    to: Producer<Message>,
    poll: Poll,
}

impl ShaqServer {
    pub(crate) fn attach(calls: OwnedFd, results: OwnedFd, poll: Poll) -> Result<ShaqServer> {
        // SAFETY: the caller made the queue of these messages, and this is its only consumer.
        let from = unsafe { Consumer::join(&File::from(calls)) };
        // SAFETY: the caller made the queue of these messages, and this is its only producer.
        let to = unsafe { Producer::join(&File::from(results)) };
        Ok(ShaqServer { from: from.map_err(text)?, to: to.map_err(text)?, poll })
    }
}

impl Server for ShaqServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        let mut left = calls;
        while left > 0 {
            self.from.sync();
            if self.from.is_empty() {
                self.poll.pause();
                continue;
            }
            self.to.sync();
            while let Some([_, number, argument]) = self.from.try_read() {
                let result = [0, *number, *argument];
                self.to.try_write(result).map_err(|_| "more messages came than were announced")?;
                left = left.saturating_sub(1);
            }
            self.from.finalize();
            self.to.commit();
        }
        Ok(())
    }
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("a queue of shaq: {error:?}")
}
