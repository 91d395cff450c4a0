//! The peer process as its parent sees it: one child that serves all standard rows in turn.
//!
//! Invariant: dropping the last handle ends the process and reaps it, whatever it is doing.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, Shutdown, SockFlag, SockType, shutdown, socketpair};
use nix::unistd::Pid;

use crate::processes::order::Order;
use crate::processes::poll::Poll;
use crate::processes::server::Service;
use crate::{CpuPair, Result, Size};

/// How long the process may take to end by itself.
const END_PATIENCE: Duration = Duration::from_millis(100);

/// The child process that serves the standard rows: a second run of this executable.
///
/// It has one thread. That thread sleeps in the control socket until an order names the next row and the number of its calls.
/// It serves those and sleeps again. So a row that is not being measured uses no CPU. Bound to the thread that started it,
/// because the kernel ends the child with that thread.
pub(crate) struct Peer {
    child: RefCell<Child>,
    control: OwnedFd,
    poll: Poll,
    slots: Cell<u32>,
}

impl Peer {
    /// Starts the process and pins it to the server's CPU.
    ///
    /// # Errors
    /// When the executable of this process cannot be started again.
    pub(crate) fn start(cpus: CpuPair) -> Result<Rc<Peer>> {
        let poll = if cpus.is_shared() { Poll::Yield } else { Poll::Pause };
        let peer = Peer::start_polling(poll)?;
        cpus.pin_server(peer.child.borrow().id())?;
        Ok(peer)
    }

    /// Starts the process on the CPUs of the calling thread.
    ///
    /// # Errors
    /// When the executable of this process cannot be started again.
    pub(crate) fn start_unpinned() -> Result<Rc<Peer>> {
        // With one CPU alone both are the same.
        let is_shared = CpuPair::first_two()?.is_shared();
        Peer::start_polling(if is_shared { Poll::Yield } else { Poll::Pause })
    }

    fn start_polling(poll: Poll) -> Result<Rc<Peer>> {
        let (family, kind) = (AddressFamily::Unix, SockType::SeqPacket);
        let (control, theirs) = socketpair(family, kind, None, SockFlag::SOCK_CLOEXEC)?;
        let child = Command::new("/proc/self/exe")
            .arg0("farcall-bench-peer")
            .arg(poll.argument())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("starting this executable again as the peer: {error}"))?;
        let child = RefCell::new(child);
        Ok(Rc::new(Peer { child, control, poll, slots: Cell::new(0) }))
    }

    /// The number of the process.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.borrow().id().cast_signed())
    }

    /// Makes the process serve one more row, with messages of `size`, from duplicates of `fds`.
    pub(crate) fn install(
        self: &Rc<Self>,
        service: &Service,
        size: Size,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Slot> {
        Order::Install(service.name.into(), size.bytes().try_into()?).send(&self.control, fds)?;
        let index = self.slots.get();
        self.slots.set(index + 1);
        Ok(Slot { peer: Rc::clone(self), index })
    }

    /// An error when the process has ended.
    fn check_lives(&self) -> Result<()> {
        match self.child.borrow_mut().try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!(
                "the peer process ended within a block ({status}); its reason is on stderr"
            )
            .into()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        // Between two orders it ends by itself and tidies up. Fails for a child that is gone.
        let _ = shutdown(self.control.as_raw_fd(), Shutdown::Both);
        end(child, END_PATIENCE);
    }
}

/// Waits for the end of a child that was asked to end, and kills it after `timeout`.
pub(crate) fn end(child: &mut Child, timeout: Duration) {
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && start.elapsed() < timeout {
        thread::sleep(Duration::from_millis(1));
    }
    // It may be polling for a call that never comes. Both fail only for a child that is already reaped, which is
    // the goal.
    let _ = child.kill();
    let _ = child.wait();
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("child", &self.child).finish_non_exhaustive()
    }
}

/// One row's server inside the peer process.
#[derive(Debug)]
pub(crate) struct Slot {
    peer: Rc<Peer>,
    index: u32,
}

impl Slot {
    /// Wakes the process to serve `calls` calls of this row.
    pub(crate) fn serve(&self, calls: u32) -> Result<()> {
        Order::Serve { slot: self.index, calls }.send(&self.peer.control, &[])
    }

    /// Polls until `ready`.
    ///
    /// # Errors
    /// When the process ends before that.
    #[inline]
    pub(crate) fn poll_until(&self, ready: impl Fn() -> bool) -> Result<()> {
        self.peer.poll.until(ready, || self.check_lives())
    }

    /// The pause between two polls, for callers with a poll loop of their own; every so often it checks that the process lives.
    ///
    /// # Errors
    /// When it has.
    #[cfg(feature = "shaq")]
    pub(crate) fn pause(&self, polls: &mut u32) -> Result<()> {
        self.peer.poll.pause();
        *polls = polls.wrapping_add(1);
        if polls.is_multiple_of(1 << 16) { self.check_lives() } else { Ok(()) }
    }

    /// An error when the process has ended.
    pub(crate) fn check_lives(&self) -> Result<()> {
        self.peer.check_lives()
    }

    /// A value that [reports](Hangup::wait) the end of the process to another thread.
    pub(crate) fn hangup(&self) -> Result<Hangup> {
        Ok(Hangup(self.peer.control.try_clone()?))
    }
}

/// The end of the peer process, for another thread to wait for.
#[derive(Debug)]
pub(crate) struct Hangup(OwnedFd);

impl Hangup {
    /// Waits until the process has ended.
    pub(crate) fn wait(&self) {
        // Its end of the control socket is the only other one.
        let mut polled = [PollFd::new(self.0.as_fd(), PollFlags::empty())];
        while poll(&mut polled, PollTimeout::NONE) == Err(Errno::EINTR) {}
    }
}
