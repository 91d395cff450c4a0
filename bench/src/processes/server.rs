//! Servers of the peer process: what one is, and how it is made from what an order brings.
//!
//! Invariant: a service has one name, by which an order finds it.

use std::os::fd::OwnedFd;

use crate::Result;
use crate::processes::poll::Poll;

/// One row's server.
pub(crate) trait Server {
    /// Answers `calls` calls.
    fn serve(&mut self, calls: u32) -> Result<()>;
}

/// A kind of server.
#[derive(Clone, Copy)]
pub(crate) struct Service {
    /// Its name, in orders.
    pub(crate) name: &'static str,
    /// Makes a server in the peer process.
    pub(crate) make: fn(Parts) -> Result<Box<dyn Server>>,
}

/// The parts that a server is made of.
pub(crate) struct Parts {
    /// The descriptors that came with the order.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// The bytes of a message.
    pub(crate) bytes: usize,
    /// The pause between two polls.
    pub(crate) poll: Poll,
}

impl Parts {
    /// The descriptors, if there are `N`.
    pub(crate) fn descriptors<const N: usize>(self) -> Result<[OwnedFd; N]> {
        let made = <[OwnedFd; N]>::try_from(self.descriptors);
        made.map_err(|came| format!("{} descriptors came, not {N}", came.len()).into())
    }
}
