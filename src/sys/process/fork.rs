//! Forks, and how a forked child is told from the process that had the threads and sessions.

use std::mem::MaybeUninit;

use nix::errno::Errno;
use nix::unistd::Pid;

use crate::error::{Error, Result};
use crate::sys::processor;

pub(crate) use farcall_base::origin::{generation, watch};

/// Forks this process, whose only thread is the calling one. Handlers of fork run. Returns the child's number, and `None` in the
/// child.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn alone() -> Result<Option<Pid>> {
    // SAFETY: no other thread holds a lock that the child would wait for: there is none.
    let number = unsafe { libc::fork() };
    let number = Errno::result(number).map_err(|errno| Error::os("forking", errno))?;
    Ok((number != 0).then(|| Pid::from_raw(number)))
}

/// The addresses that the C library has told the kernel of the calling thread. After a fork by other code they are told anew.
#[derive(Debug)]
pub(crate) struct ThreadRecord {
    /// Where the library has the thread's number.
    number: *mut libc::pid_t,
    /// Its list of robust locks, which is empty.
    robust: u64,
}

impl ThreadRecord {
    /// The record of the calling thread; `None` where the kernel does not tell it, or the library has no number there.
    pub(crate) fn of_thread() -> Option<Self> {
        let mut number = std::ptr::null_mut::<libc::pid_t>();
        // SAFETY: the kernel stores an address in the variable.
        let asked = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut number) };
        let robust = super::thread::robust_list(0).ok().flatten().filter(|head| *head != 0)?;
        if asked != 0 || number.is_null() {
            return None;
        }
        // SAFETY: the library has given the kernel this address to store to when the thread ends, so it can be read until then.
        let is_number = unsafe { number.read() } == super::thread::number();
        is_number.then_some(Self { number, robust })
    }
}

/// Forks this process, whose only thread is the calling one, as another child of its parent. Handlers of fork do not run. Returns the
/// child's number, and `None` in the child. Without a record the child must not use locks or threads of the C library.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn sibling(record: Option<&ThreadRecord>) -> Result<Option<Pid>> {
    let nothing = std::ptr::null_mut::<libc::pid_t>();
    let told = libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    let (told, number) = record.map_or((0, nothing), |record| (told, record.number));
    let flags = libc::CLONE_PARENT | libc::SIGCHLD | told;
    let last = processor::words_of_clone(number, nothing);
    // SAFETY: without a stack this is a fork, and the calling thread is the only one. The number's address is the C library's.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, nothing, nothing, last[0], last[1]) };
    let pid = Errno::result(pid).map_err(|errno| Error::os("forking", errno))?;
    if let (0, Some(record)) = (pid, record) {
        // SAFETY: the same thread had this list before the fork.
        unsafe { libc::syscall(libc::SYS_set_robust_list, record.robust, ROBUST_BYTES) };
    }
    Ok(i32::try_from(pid).ok().filter(|pid| *pid != 0).map(Pid::from_raw))
}

/// Bytes of the kernel's `struct robust_list_head`: three words.
const ROBUST_BYTES: usize = 24;

/// Takes two things from a forked child, as `exec` would: handlers of signals, and descriptors that close on exec, apart from `kept`.
/// Without `/proc` these stay open.
///
/// # Safety
///
/// The child never returns to code that owns one of these descriptors.
pub(crate) unsafe fn begin_anew(kept: &[i32]) {
    // All bytes zero: the default action, no flags, an empty mask.
    let default = MaybeUninit::<libc::sigaction>::zeroed();
    for signal in 1..=libc::SIGRTMAX() {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the kernel stores to the record, or fails for what is no signal.
        unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
        // SAFETY: all bytes were zero, which is a valid record.
        let action = unsafe { action.assume_init() };
        if action.sa_sigaction != libc::SIG_IGN {
            // SAFETY: the default action, without flags, runs no code of this process.
            unsafe { libc::sigaction(signal, default.as_ptr(), std::ptr::null_mut()) };
        }
    }
    let open = std::fs::read_dir("/proc/self/fd");
    let numbers: Vec<i32> = open
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| !kept.contains(number)) {
        // SAFETY: the call takes numbers.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        if flags > 0 && flags & libc::FD_CLOEXEC != 0 {
            // SAFETY: by the contract of this function nothing uses it any more.
            unsafe { libc::close(number) };
        }
    }
}

/// Writes what the streams of the C library hold. A forked child would write it once more.
pub(crate) fn flush() {
    // SAFETY: null means every stream.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Ends this process without its exit handlers.
pub(crate) fn end(status: i32) -> ! {
    // SAFETY: no code of the process runs behind this.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_has_another_generation() {
        watch();
        let before = generation();
        // SAFETY: the child makes two system calls and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let differs = i32::from(generation() == before);
            // SAFETY: no code of the process runs behind this.
            unsafe { libc::_exit(differs) };
        }
        let mut status = 0;
        // SAFETY: waits for the child and stores to a local variable.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status, generation()), (child, 0, before));
    }
}
