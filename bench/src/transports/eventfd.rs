//! A round trip over two event descriptors, one each way, which both sides read and sleep in.
//!
//! Invariant: one `write` and one `read` on each side of a call.

use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::thread;

use nix::errno::Errno;
use nix::sys::eventfd::EventFd;
use nix::unistd::{read, write};

use crate::processes::peer::{Peer, Slot};
use crate::processes::server::{Server, Service};
use crate::transports::transport::Transport;
use crate::{Contender, Result, Size};

/// The value that a side adds for a call; the end of the peer process adds another.
const CALL: u64 = 1;
const HANGUP: u64 = 1 << 32;

/// The row.
pub(super) const TRANSPORT: Transport = Transport {
    word: "eventfd",
    has_sizes: false,
    row_name: |_, _| Eventfd::NAME.to_owned(),
    start: |setting| Ok(Box::new(Eventfd::new(setting.peer)?)),
};
/// Descriptors: the event descriptor of requests and the one of replies.
pub(super) const SERVICE: Service = Service {
    name: "eventfd",
    make: |parts| {
        let [requests, replies] = parts.descriptors()?;
        Ok(Box::new(EventfdServer::new(requests, replies)))
    },
};

/// A count there and a count back.
#[derive(Debug)]
pub(crate) struct Eventfd {
    requests: OwnedFd,
    replies: OwnedFd,
    slot: Slot,
}

impl Eventfd {
    pub(crate) fn new(peer: &Rc<Peer>) -> Result<Eventfd> {
        let [requests, replies] = [OwnedFd::from(EventFd::new()?), OwnedFd::from(EventFd::new()?)];
        let slot = peer.install(&SERVICE, Size::WORD, &[requests.as_fd(), replies.as_fd()])?;
        // An event descriptor does not report that its last writer is gone.
        let (hangup, ours) = (slot.hangup()?, replies.try_clone()?);
        thread::Builder::new().name("peer's end".to_owned()).spawn(move || {
            hangup.wait();
            add(&ours, HANGUP)
        })?;
        Ok(Eventfd { requests, replies, slot })
    }
}

impl Eventfd {
    /// The name of the row.
    pub(crate) const NAME: &str = "eventfd";
}

impl Contender for Eventfd {
    fn name(&self) -> &str {
        Eventfd::NAME
    }

    fn prepare(&mut self, calls: u32) -> Result<()> {
        self.slot.serve(calls)
    }

    fn call(&mut self) -> Result<()> {
        add(&self.requests, CALL)?;
        match wait_and_reset(&self.replies)? {
            CALL => Ok(()),
            HANGUP.. => {
                self.slot.check_lives()?;
                Err("the peer process closed its control socket".into())
            }
            other => Err(format!("{other} replies to one call").into()),
        }
    }
}

/// The other side of [`Eventfd`].
#[derive(Debug)]
pub(crate) struct EventfdServer {
    requests: OwnedFd,
    replies: OwnedFd,
}

impl EventfdServer {
    pub(crate) fn new(requests: OwnedFd, replies: OwnedFd) -> EventfdServer {
        EventfdServer { requests, replies }
    }
}

impl Server for EventfdServer {
    fn serve(&mut self, calls: u32) -> Result<()> {
        for _ in 0..calls {
            match wait_and_reset(&self.requests)? {
                CALL => add(&self.replies, CALL)?,
                other => return Err(format!("{other} requests at a time").into()),
            }
        }
        Ok(())
    }
}

fn add(event: &OwnedFd, count: u64) -> Result<()> {
    write(event, &count.to_ne_bytes())?;
    Ok(())
}

/// Waits for a count above 0 and takes it.
fn wait_and_reset(event: &OwnedFd) -> Result<u64> {
    let mut count = [0; 8];
    loop {
        match read(event, &mut count) {
            Ok(_) => return Ok(u64::from_ne_bytes(count)),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(format!("reading an event descriptor: {errno}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_as_they_were_added() {
        let event = OwnedFd::from(EventFd::new().unwrap());
        add(&event, CALL).unwrap();
        assert_eq!(wait_and_reset(&event).unwrap(), CALL);
        add(&event, HANGUP).unwrap();
        assert!(wait_and_reset(&event).unwrap() >= HANGUP);
    }
}
