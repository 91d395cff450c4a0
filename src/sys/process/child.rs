//! Child processes: started without a copy of this one, surely ended, and their end observed without races.

pub(crate) mod broken_pipe;
pub(crate) mod inherited;
mod kept;
pub(crate) mod uncollected;
#[cfg(feature = "named-segment")]
mod watched;

#[cfg(feature = "named-segment")]
pub(crate) use watched::Watched;

use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use self::kept::{Kept, kept};
use super::dying::{self, Ended};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::END_TIMEOUT;
use crate::sys::io::identified::Identified;
use crate::sys::policy;

/// The descriptors of a child beside the standard streams and its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// The descriptors of this process that do not close on exec.
    Inherited,
    /// None. Not available everywhere: see [`can_close_others`].
    Closed,
}

/// The number of the socket of a child that has no other descriptor but the standard streams.
pub(crate) const SOCKET: i32 = 3;

/// A child process, and a descriptor that names it for sure while it is open.
#[derive(Debug)]
pub(crate) struct Child {
    pid: i32,
    pidfd: Arc<Identified>,
    /// The process that has forked it, if that is not this one.
    parent: Option<Arc<dyn Parent>>,
}

/// Another process that has forked a child for this one.
pub(crate) trait Parent: std::fmt::Debug + Send + Sync {
    /// Collects its child with this number, which has ended. Never waits.
    fn collect(&self, pid: i32) -> Ended;
}

impl Child {
    /// Starts `program`, which gets `sockets` as its descriptors from `at` on. With [`Others::Closed`] its only other descriptors are
    /// the standard streams.
    ///
    /// # Errors
    ///
    /// When the program cannot be started; the message names it.
    pub(crate) fn spawn(
        program: &Path,
        args: &[CString],
        env: &[CString],
        sockets: &[BorrowedFd<'_>],
        at: i32,
        others: Others,
    ) -> Result<Child> {
        let during = |errno: Errno| Error::os(format!("starting {}", program.display()), errno);
        let path = c_string(program.as_os_str())?;
        let mut actions = FileActions::new().map_err(during)?;
        let end = at.saturating_add(i32::try_from(sockets.len()).unwrap_or(i32::MAX));
        // None of several may have a number that another one gets.
        let several = if sockets.len() > 1 { sockets } else { &[] };
        let moved: nix::Result<Vec<OwnedFd>> =
            several.iter().map(|socket| above(*socket, end)).collect();
        let moved = moved.map_err(during)?;
        let sockets = moved.iter().map(AsFd::as_fd).chain(sockets[several.len()..].iter().copied());
        for (at, socket) in (at..).zip(sockets) {
            // This also clears close-on-exec, even if the number stays the same.
            actions.duplicate(socket, at).map_err(during)?;
        }
        if others == Others::Closed {
            actions.close_from(end).map_err(during)?;
        }
        match spawn(&path, &actions, args, env).map(|pid| (pid, pidfd(pid))) {
            Ok((pid, Ok(pidfd))) => Ok(Child {
                pid: pid.as_raw(),
                pidfd: Arc::new(Identified::new(pidfd)),
                parent: None,
            }),
            Ok((_, Err(Errno::ESRCH))) => Err(Error::disconnected(format!(
                "{} ended at once, and its exit status is unknown: another part of this process collected it",
                program.display()
            ))),
            Ok((pid, Err(errno))) => {
                end_unnamed(pid);
                Err(policy::named(during(errno), "pidfd_open"))
            }
            // That the program must not be run is no policy.
            Err(errno @ Errno::EACCES) => Err(during(errno)),
            Err(errno) => Err(policy::named(during(errno), "clone3")),
        }
    }

    /// A child that this process has just forked.
    ///
    /// # Errors
    ///
    /// When the system refuses a descriptor for it; it is ended then.
    pub(crate) fn of_fork(pid: Pid) -> Result<Child> {
        match pidfd(pid) {
            Ok(pidfd) => Ok(Child {
                pid: pid.as_raw(),
                pidfd: Arc::new(Identified::new(pidfd)),
                parent: None,
            }),
            Err(errno) => {
                end_unnamed(pid);
                Err(policy::named(Error::os("watching a forked child", errno), "pidfd_open"))
            }
        }
    }

    /// A child that another one has started in this process's name, and that has said its number.
    ///
    /// # Errors
    ///
    /// When this process has no such child, or not any more. When the system refuses.
    pub(crate) fn announced(number: u64) -> Result<Child> {
        let pid = i32::try_from(number).ok().filter(|pid| *pid > 0);
        let named = pid.ok_or(Errno::ESRCH).and_then(|pid| {
            let pidfd =
                pidfd(Pid::from_raw(pid)).inspect_err(|_| end_unnamed(Pid::from_raw(pid)))?;
            // Checked after the descriptor was bound: if the number is another process's now, that is this one's child as well.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            waitid(Id::PIDFd(pidfd.as_fd()), flags)?;
            Ok(Child { pid, pidfd: Arc::new(Identified::new(pidfd)), parent: None })
        });
        named.map_err(|errno| {
            policy::named(Error::os(format!("watching process {number}"), errno), "pidfd_open")
        })
    }

    /// The process with this number, a child of the process `parent_pid`, which collects it.
    ///
    /// # Errors
    ///
    /// When there is no such child, or the system refuses.
    pub(crate) fn of(parent: Arc<dyn Parent>, parent_pid: i32, pid: i32) -> Result<Child> {
        let during = |errno| {
            policy::named(Error::os(format!("watching process {pid}"), errno), "pidfd_open")
        };
        if pid <= 0 {
            return Err(during(Errno::ESRCH));
        }
        let pidfd = pidfd(Pid::from_raw(pid)).map_err(during)?;
        let pidfd = Arc::new(Identified::new(pidfd));
        // Checked after the descriptor was bound: if the number is another process's now, that is the parent's child as well.
        if state_and_parent(pid).is_none_or(|(_, parent)| parent != parent_pid) {
            return Err(Error::violation(format!(
                "process {pid} is no child of process {parent_pid}"
            )));
        }
        Ok(Child { pid, pidfd, parent: Some(parent) })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// True when it has ended, or is about to.
    pub(crate) fn is_ending(&self) -> bool {
        self.has_ended() || dying::status(self.pid).is_some()
    }

    /// True when the child has ended. Never waits.
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(self.pidfd.unchecked(), PollFlags::POLLIN)];
        matches!(ppoll(&mut fds, Some(TimeSpec::from(Duration::ZERO)), None), Ok(1))
    }

    /// Kills the child. Does nothing when it has ended already.
    ///
    /// # Errors
    ///
    /// When this process may not: it has become another user, or a filter of system calls refuses.
    pub(crate) fn kill(&self) -> Result<()> {
        let during = |errno| {
            let pid = self.pid;
            Error::os(
                format!("killing the executor, process {pid}, as another user may not"),
                errno,
            )
        };
        match self.pidfd.file().map_or(Err(Errno::EBADF), end) {
            // It has ended, and was collected.
            Ok(()) | Err(Errno::ESRCH) => Ok(()),
            Err(errno @ (Errno::EPERM | Errno::EACCES)) => Err(during(errno)),
            // A filter of system calls lacks it, or valgrind; or other code has closed the descriptor.
            Err(_) => end_numbered(Pid::from_raw(self.pid)).map_err(during),
        }
    }

    /// Kills the child and collects it by its number, where other code has closed its descriptor. Another process's child is left.
    pub(crate) fn end_by_number(&self) {
        end_unnamed(Pid::from_raw(self.pid));
    }

    /// A waiter for the child's end, which another thread can use while this value kills the child.
    pub(crate) fn awaiter(&self) -> Awaiter {
        let (pidfd, parent) = (Arc::clone(&self.pidfd), self.parent.clone());
        Awaiter { pid: self.pid, pidfd, parent }
    }
}

/// The state of a process, such as `Z` when it has ended and is not collected, and its parent's number. Source: `/proc/PID/stat`,
/// fields 3 and 4 (proc(5)).
pub(crate) fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let line = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold any bytes.
    let line = String::from_utf8_lossy(&line);
    let (_, fields) = line.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

/// True where the C library can start a program without this process's descriptors: glibc since 2.34. Elsewhere the child must
/// [close them itself](close_from).
pub(crate) fn can_close_others() -> bool {
    add_close_from().is_some()
}

type AddCloseFrom =
    unsafe extern "C" fn(*mut libc::posix_spawn_file_actions_t, libc::c_int) -> libc::c_int;

/// Looked up at run time: linked directly, it would keep the program from starting with an older C library.
fn add_close_from() -> Option<AddCloseFrom> {
    let name = c"posix_spawn_file_actions_addclosefrom_np";
    // SAFETY: the name ends with a NUL byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: null becomes `None`, and the C library declares the function with this type.
    unsafe { std::mem::transmute::<*mut libc::c_void, Option<AddCloseFrom>>(found) }
}

/// The changes that a child makes to its descriptors before it runs the program.
struct FileActions(libc::posix_spawn_file_actions_t);

impl FileActions {
    fn new() -> nix::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: initializes the record if it succeeds.
        status(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: it has succeeded.
        Ok(Self(unsafe { actions.assume_init() }))
    }

    fn duplicate(&mut self, fd: BorrowedFd<'_>, at: i32) -> nix::Result<()> {
        let fd = fd.as_raw_fd();
        // SAFETY: the record is initialized.
        status(unsafe { libc::posix_spawn_file_actions_adddup2(&raw mut self.0, fd, at) })
    }

    fn close_from(&mut self, first: i32) -> nix::Result<()> {
        let add = add_close_from().ok_or(Errno::ENOSYS)?;
        // SAFETY: the record is initialized.
        status(unsafe { add(&raw mut self.0, first) })
    }
}

impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: the record is initialized, and this is its last use.
        unsafe { libc::posix_spawn_file_actions_destroy(&raw mut self.0) };
    }
}

/// The attributes of a child, set before it runs the program. SIGPIPE has its default action, if only the runtime of this process
/// ignores it.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> nix::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: initializes the record if it succeeds.
        status(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: it has succeeded.
        let mut attributes = Self(unsafe { attributes.assume_init() });
        if broken_pipe::was_ignored_at_start() {
            return Ok(attributes);
        }
        let mut signals = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: empties the set.
        unsafe { libc::sigemptyset(signals.as_mut_ptr()) };
        // SAFETY: the set is empty now.
        unsafe { libc::sigaddset(signals.as_mut_ptr(), libc::SIGPIPE) };
        // SAFETY: the record and the set are initialized.
        status(unsafe {
            libc::posix_spawnattr_setsigdefault(&raw mut attributes.0, signals.as_ptr())
        })?;
        let flags = libc::c_short::try_from(libc::POSIX_SPAWN_SETSIGDEF).unwrap_or_default();
        // SAFETY: the record is initialized.
        status(unsafe { libc::posix_spawnattr_setflags(&raw mut attributes.0, flags) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the record is initialized, and this is its last use.
        unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

fn spawn(
    path: &CStr,
    actions: &FileActions,
    args: &[CString],
    env: &[CString],
) -> nix::Result<Pid> {
    let list = |strings: &[CString]| -> Vec<*mut libc::c_char> {
        let strings = strings.iter().map(|string| string.as_ptr().cast_mut());
        strings.chain(std::iter::once(std::ptr::null_mut())).collect()
    };
    let (args, env) = (list(args), list(env));
    let attributes = Attributes::new()?;
    let mut pid = 0;
    // SAFETY: path, lists and actions live until it returns, both lists end with a null pointer, and the function does not
    // store to their strings.
    status(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            path.as_ptr(),
            &raw const actions.0,
            &raw const attributes.0,
            args.as_ptr(),
            env.as_ptr(),
        )
    })?;
    Ok(Pid::from_raw(pid))
}

/// The result of a C function that returns its error.
fn status(returned: libc::c_int) -> nix::Result<()> {
    if returned == 0 { Ok(()) } else { Err(Errno::from_raw(returned)) }
}

/// Closes every descriptor of this process from `first` on.
///
/// # Errors
///
/// When the system refuses, as kernels before 5.9 do.
///
/// # Safety
///
/// No value may own any of them.
pub(crate) unsafe fn close_from(first: i32) -> Result<()> {
    // SAFETY: the call takes three numbers; the caller vouches for what they name.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    let during = |errno| Error::os("closing what is open beside the control socket", errno);
    Errno::result(closed).map(drop).map_err(during)
}

/// The same file under a number that is not below `first`, and closes on exec.
fn above(file: BorrowedFd<'_>, first: i32) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes numbers, of which the first is open.
    let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, first) };
    // SAFETY: the kernel has just returned this descriptor.
    Errno::result(moved).map(|moved| unsafe { OwnedFd::from_raw_fd(moved) })
}

/// A descriptor that names a process: this one, its parent, or a child that was just started. Even if the child was collected
/// already, its number is not used again so soon.
pub(crate) fn pidfd(child: Pid) -> nix::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.as_raw(), 0) };
    let fd = i32::try_from(Errno::result(fd)?).map_err(|_| Errno::EBADF)?;
    // SAFETY: the kernel has just returned this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Kills the process that a descriptor names. Does nothing when it has ended already.
///
/// # Errors
///
/// [`Errno::ENOSYS`] when it cannot be told so.
fn end(pidfd: BorrowedFd<'_>) -> nix::Result<()> {
    let no_information = std::ptr::null::<libc::siginfo_t>();
    let (call, fd) = (libc::SYS_pidfd_send_signal, pidfd.as_raw_fd());
    // SAFETY: the descriptor is open, and a null siginfo is allowed.
    let sent = unsafe { libc::syscall(call, fd, libc::SIGKILL, no_information, 0) };
    Errno::result(sent).map(drop)
}

/// Kills a child by its number. Does nothing when another part of this process has collected the child: the number may be another
/// process's then.
///
/// # Errors
///
/// When this process may not kill the child.
fn end_numbered(child: Pid) -> nix::Result<()> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    match waitid(Id::Pid(child), flags).and_then(|_| kill(child, Signal::SIGKILL)) {
        Err(Errno::EPERM) => Err(Errno::EPERM),
        _ => Ok(()),
    }
}

/// Kills a child that no descriptor names, and collects it. If it does not end in [`UNNAMED_TIMEOUT`], it is left uncollected: later
/// its number may be another process's.
fn end_unnamed(child: Pid) {
    if end_numbered(child).is_err() {
        return;
    }
    let deadline = Deadline::after(UNNAMED_TIMEOUT);
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    while let Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) = waitid(Id::Pid(child), flags) {
        if deadline.has_passed() {
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// How long a killed child without a descriptor may take to end.
const UNNAMED_TIMEOUT: Duration = Duration::from_secs(1);

/// Tells of the end of a child. Its descriptor is ready to be read when the child has ended.
#[derive(Debug, Clone)]
pub(crate) struct Awaiter {
    pid: i32,
    pidfd: Arc<Identified>,
    /// The collector, if this process is not.
    parent: Option<Arc<dyn Parent>>,
}

impl AsFd for Awaiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.unchecked()
    }
}

impl Awaiter {
    /// The same for a child that another one has started in this process's name; `None` when it has ended and is collected.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let pidfd = pidfd(Pid::from_raw(pid)).ok()?;
        Some(Self { pid, pidfd: Arc::new(Identified::new(pidfd)), parent: None })
    }

    /// Kills the child. Does nothing when it has ended already.
    pub(crate) fn kill(&self) {
        // It has ended, or cannot be told so.
        let _ = self.pidfd.file().map(end);
    }

    /// Kills the child, waits for its end up to [`END_TIMEOUT`], and collects it. Another part of this process may have done so.
    pub(crate) fn kill_and_collect(&self) {
        self.kill();
        self.wait(Deadline::after(END_TIMEOUT));
        let _ = self.collect_or_leave();
    }

    /// Waits until the child has ended, up to the deadline.
    pub(super) fn wait(&self, deadline: Deadline) {
        let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        while ppoll(&mut fds, deadline.left().map(TimeSpec::from), None) == Err(Errno::EINTR) {}
    }

    /// As [`collect`](Self::collect). A child that the kernel does not hand over is [left](uncollected), and has ended as
    /// the kernel says of it meanwhile.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn collect_or_leave(&self) -> Result<Ended> {
        if let Some(ended) = self.collect()? {
            return Ok(ended);
        }
        uncollected::leave(self.clone());
        Ok(dying::status(self.pid).unwrap_or(Ended::Unknown))
    }

    /// Collects the child, and returns how it ended. Never waits. `None` while the kernel does not hand it over: it runs, or another
    /// process traces it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn collect(&self) -> Result<Option<Ended>> {
        if let Some(parent) = &self.parent {
            return Ok(Some(parent.collect(self.pid)));
        }
        loop {
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
            return match waitid(Id::PIDFd(self.pidfd.unchecked()), flags) {
                Err(Errno::EINTR) => continue,
                // This process ignores SIGCHLD, or collects any child.
                Err(Errno::ECHILD) => Ok(Some(self.status_kept())),
                Err(errno) => Err(Error::os("collecting the executor", errno)),
                Ok(WaitStatus::Exited(_, status)) => Ok(Some(Ended::Exited(status))),
                Ok(WaitStatus::Signaled(_, signal, _)) => Ok(Some(Ended::Killed(signal as i32))),
                Ok(_) => Ok(None),
            };
        }
    }

    /// How a child ended that this process cannot collect any more. The kernel keeps that with the descriptor since Linux 6.15.
    fn status_kept(&self) -> Ended {
        let mut dying = None;
        for _ in 0..3 {
            match kept(self.pidfd.unchecked()) {
                Kept::Status(ended) => return ended,
                // The kernel is about to take it away. Its number was its own, since it is still there.
                Kept::NotYet if dying.is_some() => break,
                Kept::NotYet => dying = dying::status(self.pid),
                Kept::Gone => dying = None,
                Kept::Nothing => return Ended::Unknown,
            }
        }
        dying.unwrap_or(Ended::Unknown)
    }
}

/// `text` with a NUL byte at its end.
///
/// # Errors
///
/// When it contains a NUL byte.
pub(crate) fn c_string(text: &OsStr) -> Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|_| Error::invalid(format!("{} contains a NUL byte", text.display())))
}

/// Takes a descriptor that this process was started with. Programs that this process starts do not inherit it.
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
    // SAFETY: it is open, and was passed to this process for this purpose: no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes standard input and standard output of this process. From then on its input is empty, and its output goes to standard
/// error.
///
/// # Errors
///
/// When one of the three is closed, or descriptors run out.
pub(crate) fn take_streams() -> Result<(OwnedFd, OwnedFd)> {
    let failed = |error| Error::os("taking standard input and output", error);
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let output = std::io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
    let nothing = std::fs::File::open("/dev/null").map_err(failed)?;
    nix::unistd::dup2_stdin(nothing).map_err(|errno| failed(errno.into()))?;
    nix::unistd::dup2_stdout(std::io::stderr()).map_err(|errno| failed(errno.into()))?;
    Ok((input, output))
}

#[cfg(test)]
mod tests;
