//! A forked executor that no controller has yet.

use std::os::fd::OwnedFd;

use super::child::Child;
use crate::error::{Error, Result};
use crate::sys::io::identified::Identified;

/// An executor that was [forked](crate::executor::fork) from this process, for
/// [`ExecutorBuilder::adopt`](crate::controller::ExecutorBuilder::adopt). Dropping it ends the executor.
///
/// # Examples
///
/// ```standalone_crate
/// # fn main() -> farcall::Result<()> {
/// let forked = farcall::executor::fork()?;
/// drop(forked); // no executor is needed
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Forked {
    /// The child and the controller's end of its socket; `None` once they are adopted.
    parts: Option<(Child, Identified)>,
    /// The process that has forked it.
    owner: u32,
}

impl Forked {
    pub(crate) fn new(child: Child, socket: OwnedFd) -> Self {
        Self { parts: Some((child, Identified::new(socket))), owner: std::process::id() }
    }

    /// The child and the controller's end of its socket.
    ///
    /// # Errors
    ///
    /// In a forked child of the owner.
    pub(crate) fn into_parts(mut self) -> Result<(Child, OwnedFd)> {
        let parts = self.parts.take().filter(|_| self.owner == std::process::id());
        let (child, socket) = parts.ok_or_else(|| {
            Error::invalid("the executor belongs to the process that has forked it")
        })?;
        Ok((child, socket.into_owned()?))
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if let Some((child, _socket)) = self.parts.take()
            && self.owner == std::process::id()
        {
            child.awaiter().kill_and_collect();
        }
    }
}
