//! Properties that a program inherits from the process that starts it, beside its arguments and its environment.
//!
//! | inherited | a start by fork |
//! |---|---|
//! | standard streams, working directory | get the present ones ([`Files`]) |
//! | the program's file | is compared ([`Inherited`]) |
//! | root directory, namespaces, control groups | are compared |
//! | users, groups, capabilities, process group, session, mask for new files | are compared |
//! | filters of system calls, `no_new_privs`, secure bits, speculation, `PR_SET_MDWE`, `personality` | are compared |
//! | blocked and ignored signals | are compared |
//! | limits, CPUs, memory nodes, nice value and policy, priority of input and output, slack of timers, huge pages | are compared |
//! | what the kernel kills first and writes into core files | is compared |
//! | other open files | only a start by exec has them |
//!
//! Each is a property of the thread that starts programs. The kernel shows most of them to each thread of the process ([`Shown`]), and
//! the others to that one alone ([`Own`]). Where the system does not say, there is no start by fork.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{AT_FDCWD, FcntlArg, FdFlag, OFlag, fcntl, openat, readlinkat};
use nix::sys::stat::Mode;

use crate::sys::process::thread;

/// The standard streams and the working directory of this process.
#[derive(Debug)]
pub(crate) struct Files {
    folder: OwnedFd,
}

impl Files {
    /// `None` when a stream is closed, or closes on exec, or the folder cannot be opened.
    pub(crate) fn present() -> Option<Self> {
        for stream in streams() {
            let flags = fcntl(stream, FcntlArg::F_GETFD).ok()?;
            if FdFlag::from_bits_retain(flags).contains(FdFlag::FD_CLOEXEC) {
                return None;
            }
        }
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        Some(Self { folder: options.open(".").ok()?.into() })
    }

    /// Standard input, output and error, then the folder.
    pub(crate) fn each(&self) -> [BorrowedFd<'_>; 4] {
        let [input, output, error] = streams();
        [input, output, error, self.folder.as_fd()]
    }
}

fn streams() -> [BorrowedFd<'static>; 3] {
    // SAFETY: the descriptors are used in system calls alone, which refuse a closed one.
    [0, 1, 2].map(|number| unsafe { BorrowedFd::borrow_raw(number) })
}

/// All else that a program inherits, for comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(crate) shown: Shown,
    pub(crate) own: Own,
}

/// The properties that other threads of the process can read as well.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The program and the root directory.
    files: [FileIdentity; 2],
    /// The texts of their links.
    namespaces: [OsString; NAMESPACES.len()],
    /// Lines of the thread's status.
    status: Vec<u8>,
    texts: [Vec<u8>; TEXTS.len()],
    limits: [[u64; 2]; LIMITS],
    scheduling: [u8; SCHEDULING_BYTES],
    /// The priority of input and output; -1 where the kernel lacks it.
    io_priority: i64,
}

/// The properties that only the thread itself can read: `personality`, the slack of timers, secure bits, `PR_SET_MDWE`. A property that
/// the kernel lacks is -1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Own([i64; 4]);

/// Device, number, bytes, and the moment of the last change in seconds and nanoseconds.
type FileIdentity = (u64, u64, u64, i64, i64);

/// The kinds that a new process has. Its children can have others.
const NAMESPACES: [&str; 8] =
    ["cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts"];

/// The lines of `/proc/PID/status` (proc(5)) that a program inherits. Kernels lack some.
const STATUS: [&str; 22] = [
    "Umask",
    "Uid",
    "Gid",
    "Groups",
    "NSpgid",
    "NSsid",
    "SigBlk",
    "SigIgn",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    "Seccomp",
    "Seccomp_filters",
    "Speculation_Store_Bypass",
    "SpeculationIndirectBranch",
    "THP_enabled",
    "untag_mask",
    "Cpus_allowed",
    "Mems_allowed",
];

/// Files that are compared whole, of the thread's folder if they name no other. Kernels lack some.
const TEXTS: [&str; 3] = ["cgroup", "oom_score_adj", "/proc/self/coredump_filter"];

/// Bytes of one read of such a file. Usual systems have no longer one.
const READ_BYTES: usize = 4096;

/// How many limits a process has (`RLIM_NLIMITS`).
const LIMITS: usize = 16;
/// Bytes of the first version of `struct sched_attr`.
const SCHEDULING_BYTES: usize = 48;

impl Inherited {
    /// All that `program` would inherit if the calling thread started it now; `None` when the system does not say.
    pub(crate) fn of_thread(program: &Path) -> Option<Self> {
        Some(Self { shown: Shown::of(thread::number(), program)?, own: Own::of_thread() })
    }
}

impl Shown {
    /// The properties that `program` would inherit if the thread with this number started it now; `None` when the system does not say.
    pub(crate) fn of(number: i32, program: &Path) -> Option<Self> {
        // From the folders the kernel finds each file in half of the time.
        let thread = folder(AT_FDCWD, &format!("/proc/self/task/{number}"))?;
        let status = inherited_lines(&text(thread.as_fd(), "status")?)?;
        let namespaces = folder(thread.as_fd(), "ns")?;
        let namespaces = NAMESPACES.map(|name| {
            // The kernel may have been built without one.
            readlinkat(&namespaces, name).unwrap_or_default()
        });
        let texts = TEXTS.map(|name| text(thread.as_fd(), name).unwrap_or_default());
        let files = [identity(program)?, identity(Path::new("/"))?];
        let limits = limits()?;
        let (scheduling, io_priority) = (scheduling(number)?, io_priority(number));
        Some(Self { files, namespaces, status, texts, limits, scheduling, io_priority })
    }
}

/// A folder below another one.
fn folder(of: BorrowedFd<'_>, path: &str) -> Option<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    openat(of, path, flags, Mode::empty()).ok()
}

/// The contents of a file of the kernel's in this folder.
fn text(folder: BorrowedFd<'_>, name: &str) -> Option<Vec<u8>> {
    let file = openat(folder, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).ok()?;
    let mut file = File::from(file);
    let mut bytes = Vec::with_capacity(READ_BYTES);
    let mut part = [0; READ_BYTES];
    loop {
        match file.read(&mut part).ok()? {
            0 => return Some(bytes),
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
}

/// The lines of a status that a program inherits. Kernels before 4.7 do not tell the mask for new files: `None`.
fn inherited_lines(status: &[u8]) -> Option<Vec<u8>> {
    let mut inherited = Vec::with_capacity(status.len());
    for line in status.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if STATUS.iter().any(|inherited| inherited.as_bytes() == name) {
            inherited.extend_from_slice(line);
        }
    }
    inherited.starts_with(b"Umask:").then_some(inherited)
}

fn identity(path: &Path) -> Option<FileIdentity> {
    let file = fs::metadata(path).ok()?;
    let changed = if file.is_dir() { (0, 0) } else { (file.ctime(), file.ctime_nsec()) };
    let bytes = if file.is_dir() { 0 } else { file.len() };
    Some((file.dev(), file.ino(), bytes, changed.0, changed.1))
}

fn limits() -> Option<[[u64; 2]; LIMITS]> {
    let mut limits = [[0; 2]; LIMITS];
    for (resource, limit) in limits.iter_mut().enumerate() {
        let nothing = std::ptr::null::<u64>();
        let call = libc::SYS_prlimit64;
        // SAFETY: the kernel stores two numbers of 64 bits.
        let asked = unsafe { libc::syscall(call, 0, resource, nothing, limit.as_mut_ptr()) };
        if asked != 0 {
            return None;
        }
    }
    Some(limits)
}

fn scheduling(thread: i32) -> Option<[u8; SCHEDULING_BYTES]> {
    let mut attributes = [0_u8; SCHEDULING_BYTES];
    let (call, bytes) = (libc::SYS_sched_getattr, SCHEDULING_BYTES);
    // SAFETY: the kernel stores that many bytes at most.
    let asked = unsafe { libc::syscall(call, thread, attributes.as_mut_ptr(), bytes, 0) };
    (asked == 0).then_some(attributes)
}

fn io_priority(thread: i32) -> i64 {
    /// Of `linux/ioprio.h`.
    const THREAD: libc::c_int = 1;
    // SAFETY: the call takes numbers.
    unsafe { libc::syscall(libc::SYS_ioprio_get, THREAD, thread) }
}

impl Own {
    /// The properties of the calling thread.
    pub(crate) fn of_thread() -> Self {
        const ALL: libc::c_ulong = 0xffff_ffff;
        /// Of `linux/prctl.h`.
        const GET_MDWE: libc::c_int = 66;
        let zero: libc::c_ulong = 0;
        // SAFETY: the call takes numbers, and changes nothing for this one.
        let personality = unsafe { libc::personality(ALL) };
        // SAFETY: asks for a number.
        let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, zero, zero, zero, zero) };
        // SAFETY: as above.
        let secure = unsafe { libc::prctl(libc::PR_GET_SECUREBITS, zero, zero, zero, zero) };
        // SAFETY: as above.
        let mdwe = unsafe { libc::prctl(GET_MDWE, zero, zero, zero, zero) };
        Self([personality, slack, secure, mdwe].map(i64::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_is_read_whole() {
        let own = std::env::current_exe().expect("this program");
        let inherited = Inherited::of_thread(&own).expect("this system tells it").shown;
        let texts = ["/proc/thread-self/cgroup", "/proc/self/oom_score_adj", TEXTS[2]];
        assert_eq!(inherited.texts, texts.map(|path| fs::read(path).unwrap_or_default()));
        let links = NAMESPACES.map(|name| fs::read_link(format!("/proc/thread-self/ns/{name}")));
        let links = links.map(|link| link.unwrap_or_default().into_os_string());
        assert_eq!(inherited.namespaces, links);
        let status = fs::read_to_string("/proc/thread-self/status").expect("this thread");
        let is_inherited = |line: &&str| STATUS.contains(&line.split(':').next().unwrap_or(""));
        let lines: Vec<_> = status.lines().filter(is_inherited).collect();
        let text = String::from_utf8(inherited.status).expect("a text");
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
        assert!(lines.len() > 15, "{lines:?}");
    }

    #[test]
    fn a_change_of_an_inherited_property_is_seen() {
        let own = std::env::current_exe().expect("this program");
        let inherited = || Inherited::of_thread(&own).expect("this system tells it");
        // The caller has set nothing meanwhile.
        assert_eq!(inherited(), inherited());
        let other = Inherited::of_thread(Path::new("/bin/sh")).expect("a shell");
        assert_ne!(inherited(), other);
        // A thread of its own, since the change is the thread's.
        std::thread::scope(|scope| {
            let before = inherited();
            let changed = scope.spawn(move || {
                // SAFETY: the call takes numbers.
                let set = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 77_777_u64, 0, 0, 0) };
                assert_eq!(set, 0);
                Inherited::of_thread(&std::env::current_exe().expect("this program"))
            });
            assert_ne!(changed.join().expect("no panic").expect("told"), before);
        });
    }
}
