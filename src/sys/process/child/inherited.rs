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
//! Each is a property of the calling thread, by which the kernel starts a program. Where the system does not say, there is no start by
//! fork.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};

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
    /// The program and the root directory.
    files: [FileIdentity; 2],
    /// The texts of their links.
    namespaces: [PathBuf; NAMESPACES.len()],
    /// Lines of the thread's status.
    status: Vec<String>,
    texts: [Vec<u8>; TEXTS.len()],
    limits: [[u64; 2]; LIMITS],
    scheduling: [u8; SCHEDULING_BYTES],
    numbers: [i64; 5],
}

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

/// Files that are compared whole. Kernels lack some.
const TEXTS: [&str; 3] =
    ["/proc/thread-self/cgroup", "/proc/self/oom_score_adj", "/proc/self/coredump_filter"];

/// How many limits a process has (`RLIM_NLIMITS`).
const LIMITS: usize = 16;
/// Bytes of the first version of `struct sched_attr`.
const SCHEDULING_BYTES: usize = 48;

impl Inherited {
    /// All that `program` would inherit if the calling thread started it now; `None` when the system does not say.
    pub(crate) fn of_thread(program: &Path) -> Option<Self> {
        const THREAD: &str = "/proc/thread-self";
        let status = fs::read_to_string(format!("{THREAD}/status")).ok()?;
        let is_inherited =
            |line: &&str| line.split(':').next().is_some_and(|name| STATUS.contains(&name));
        let status: Vec<_> = status.lines().filter(is_inherited).map(str::to_owned).collect();
        // Kernels before 4.7 do not tell the mask for new files.
        status.first().filter(|line| line.starts_with("Umask:"))?;
        let namespaces = NAMESPACES.map(|name| {
            // The kernel may have been built without one.
            fs::read_link(format!("{THREAD}/ns/{name}")).unwrap_or_default()
        });
        let mut texts: [Vec<u8>; TEXTS.len()] = Default::default();
        for (path, text) in TEXTS.iter().zip(&mut texts) {
            *text = fs::read(path).unwrap_or_default();
        }
        let files = [identity(program)?, identity(Path::new("/"))?];
        let limits = limits()?;
        let (scheduling, numbers) = (scheduling()?, numbers());
        Some(Self { files, namespaces, status, texts, limits, scheduling, numbers })
    }
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

fn scheduling() -> Option<[u8; SCHEDULING_BYTES]> {
    let mut attributes = [0_u8; SCHEDULING_BYTES];
    let (call, bytes) = (libc::SYS_sched_getattr, SCHEDULING_BYTES);
    // SAFETY: the kernel stores that many bytes at most.
    let asked = unsafe { libc::syscall(call, 0, attributes.as_mut_ptr(), bytes, 0) };
    (asked == 0).then_some(attributes)
}

/// Numbers of the thread; -1 where the kernel lacks one.
fn numbers() -> [i64; 5] {
    const ALL: libc::c_ulong = 0xffff_ffff;
    const THREAD: libc::c_int = 1;
    /// Of `linux/prctl.h`.
    const GET_MDWE: libc::c_int = 66;
    let zero: libc::c_ulong = 0;
    // SAFETY: the call takes numbers, and changes nothing for this one.
    let personality = unsafe { libc::personality(ALL) };
    // SAFETY: the call takes numbers.
    let io = unsafe { libc::syscall(libc::SYS_ioprio_get, THREAD, 0) };
    // SAFETY: asks for a number.
    let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, zero, zero, zero, zero) };
    // SAFETY: as above.
    let secure = unsafe { libc::prctl(libc::PR_GET_SECUREBITS, zero, zero, zero, zero) };
    // SAFETY: as above.
    let mdwe = unsafe { libc::prctl(GET_MDWE, zero, zero, zero, zero) };
    [i64::from(personality), io, i64::from(slack), i64::from(secure), i64::from(mdwe)]
}

#[cfg(test)]
mod tests {
    use super::*;

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
