//! A child process: started without copying this one, ended for certain, its end observed without races.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use crate::error::{Error, Result};

/// A child process and the descriptor that names it as long as it is held.
#[derive(Debug)]
pub(crate) struct Child {
    pid: i32,
    pidfd: Arc<OwnedFd>,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Killed(i32),
}

impl Child {
    /// Starts `program`, whose descriptor `at` will be `socket`.
    ///
    /// # Errors
    ///
    /// When the program cannot be started; the message names it.
    pub(crate) fn spawn(
        program: &Path,
        args: &[CString],
        env: &[CString],
        socket: BorrowedFd<'_>,
        at: i32,
    ) -> Result<Child> {
        let during = |errno: Errno| Error::os(format!("starting {}", program.display()), errno);
        let path = c_string(program.as_os_str())?;
        let mut actions = PosixSpawnFileActions::init().map_err(during)?;
        // Also clears close-on-exec, even when the number stays the same.
        actions.add_dup2(socket.as_raw_fd(), at).map_err(during)?;
        let attributes = PosixSpawnAttr::init().map_err(during)?;
        let pid = posix_spawn(path.as_c_str(), &actions, &attributes, args, env).map_err(during)?;
        let pid = pid.as_raw();
        // The child is not reaped yet, so the number cannot name another process.
        // SAFETY: pidfd_open takes two integers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd =
            i32::try_from(Errno::result(fd).map_err(during)?).map_err(|_| during(Errno::EBADF))?;
        // SAFETY: the kernel has just returned this descriptor.
        let pidfd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Child { pid, pidfd: Arc::new(pidfd) })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Ends the child at once. Does nothing when it has ended already.
    pub(crate) fn kill(&self) {
        // SAFETY: the descriptor is open, and a null siginfo is allowed.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.pidfd.as_raw_fd(),
                libc::SIGKILL,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            );
        }
    }

    /// What waits for the child's end, apart from what may end it.
    pub(crate) fn awaiter(&self) -> Awaiter {
        Awaiter(Arc::clone(&self.pidfd))
    }
}

/// Waits for a child.
#[derive(Debug)]
pub(crate) struct Awaiter(Arc<OwnedFd>);

impl Awaiter {
    /// Waits until the child has ended, and collects it. Call once. Meanwhile `asked` is called each time that there is
    /// something to read from `socket`, until it returns false.
    ///
    /// # Errors
    ///
    /// When somebody else has collected it.
    pub(crate) fn wait(
        &self,
        socket: BorrowedFd<'_>,
        mut asked: impl FnMut() -> bool,
    ) -> Result<Ended> {
        let during = |errno| Error::os("waiting for the executor", errno);
        let mut listens = true;
        loop {
            let mut fds = [self.0.as_fd(), socket].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            let count = if listens { 2 } else { 1 };
            match poll(&mut fds[..count], PollTimeout::NONE) {
                Err(Errno::EINTR) => continue,
                other => other.map_err(during)?,
            };
            if fds[0].any() == Some(true) {
                return self.collect().map_err(during);
            }
            listens = listens && asked();
        }
    }

    fn collect(&self) -> nix::Result<Ended> {
        loop {
            match waitid(Id::PIDFd(self.0.as_fd()), WaitPidFlag::WEXITED) {
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
                Ok(WaitStatus::Exited(_, status)) => return Ok(Ended::Exited(status)),
                Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Ended::Killed(signal as i32)),
                Ok(_) => {}
            }
        }
    }
}

/// A process that is watched and was not started here.
#[cfg(feature = "named-segment")]
#[derive(Debug)]
pub(crate) struct Watched(OwnedFd);

#[cfg(feature = "named-segment")]
impl Watched {
    /// The process with this number that started then; `None` when it has ended.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn open(pid: u64, started: u64) -> Result<Option<Self>> {
        // SAFETY: pidfd_open takes two integers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = match Errno::result(fd) {
            Ok(fd) => i32::try_from(fd).unwrap_or(-1),
            Err(Errno::ESRCH | Errno::EINVAL) => return Ok(None),
            Err(errno) => return Err(Error::os(format!("watching process {pid}"), errno)),
        };
        // SAFETY: the kernel has just returned this descriptor.
        let watched = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        // After the number was bound to a process: it is that one, or another which started later.
        Ok((Self::started(pid) == Some(started)).then_some(watched))
    }

    /// Waits for the end of the process; false when `stop` was closed before.
    pub(crate) fn wait(&self, stop: BorrowedFd<'_>) -> bool {
        loop {
            let mut fds = [self.0.as_fd(), stop].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
            match poll(&mut fds, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                Err(_) => return true,
                Ok(_) => return fds[0].any() == Some(true),
            }
        }
    }

    /// When a process started, in ticks since the system did; `None` when there is none with this number, or it has ended.
    pub(crate) fn started(pid: u64) -> Option<u64> {
        let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything.
        let (_, fields) = line.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let has_ended = matches!(state, "Z" | "X");
        fields.nth(18).and_then(|field| field.parse().ok()).filter(|_| !has_ended)
    }
}

/// `text` as the kernel takes it.
///
/// # Errors
///
/// When it contains a NUL byte.
pub(crate) fn c_string(text: &OsStr) -> Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|_| Error::invalid(format!("{} contains a NUL byte", text.display())))
}

/// Takes a descriptor that this process was started with, and keeps it from programs started later.
///
/// # Errors
///
/// When no such descriptor is open.
pub(crate) fn adopt(fd: i32) -> Result<OwnedFd> {
    let during = |errno| Error::os(format!("adopting descriptor {fd}"), errno);
    if fd < 0 {
        return Err(during(Errno::EBADF));
    }
    // SAFETY: setting a flag of a descriptor by number has no other effect.
    Errno::result(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).map_err(during)?;
    // SAFETY: it is open, and was passed to this process for this purpose: nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Asks the kernel to kill this process as soon as its parent is gone, and checks that the parent, whose number is
/// `parent`, is not gone yet.
///
/// # Errors
///
/// When the parent is gone.
pub(crate) fn die_with_parent(parent: i32) -> Result<()> {
    nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
        .map_err(|errno| Error::os("tying the executor to its controller", errno))?;
    if nix::unistd::getppid().as_raw() != parent {
        return Err(Error::disconnected(format!("the controller, process {parent}, is gone")));
    }
    Ok(())
}
