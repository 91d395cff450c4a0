//! A forked executor that no controller has yet.

use std::os::fd::OwnedFd;

use super::child::Child;

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
    parts: Option<(Child, OwnedFd)>,
}

impl Forked {
    pub(crate) fn new(child: Child, socket: OwnedFd) -> Self {
        Self { parts: Some((child, socket)) }
    }

    /// The child and the controller's end of its socket.
    pub(crate) fn into_parts(mut self) -> Option<(Child, OwnedFd)> {
        self.parts.take()
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if let Some((child, _socket)) = self.parts.take() {
            child.kill();
            // It has ended; another part of this process may have collected it.
            let _ = child.awaiter().collect();
        }
    }
}
