//! A descriptor that is ready to be read while another one is, or when this process makes it ready.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::identified::Identified;
use crate::error::{Error, Result};

/// A descriptor for an event loop to wait for. It is in no other process.
#[derive(Debug)]
pub(crate) struct Ready {
    either: Epoll,
    flag: Identified,
    is_up: bool,
}

impl Ready {
    /// Ready while `watched` is ready, which must stay open.
    ///
    /// # Errors
    ///
    /// When descriptors run out, or `watched` is a file, which is always ready.
    pub(crate) fn new(watched: BorrowedFd<'_>) -> Result<Self> {
        let failed = |errno| Error::os("making a descriptor to wait for", errno);
        let either = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(failed)?;
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let flag = EventFd::from_flags(flags).map_err(failed)?;
        either.add(watched, EpollEvent::new(EpollFlags::EPOLLIN, 0)).map_err(failed)?;
        either.add(&flag, EpollEvent::new(EpollFlags::EPOLLIN, 1)).map_err(failed)?;
        Ok(Self { either, flag: Identified::new(flag.into()), is_up: false })
    }

    /// Makes it ready whatever `watched` is, or ends that.
    pub(crate) fn set(&mut self, is_up: bool) {
        if self.is_up == is_up {
            return;
        }
        self.is_up = is_up;
        // The host may have closed it, and opened a file of its own on its number.
        let Ok(flag) = self.flag.file() else { return };
        // Neither call waits, since the count is 0 or 1.
        let _ = match is_up {
            true => nix::unistd::write(flag, &1_u64.to_ne_bytes()),
            false => nix::unistd::read(flag, &mut [0; 8]),
        };
    }
}

impl AsFd for Ready {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.0.as_fd()
    }
}
