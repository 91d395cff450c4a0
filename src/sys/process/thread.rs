//! The threads of this process, seen from one of them.
//!
//! Invariant: a thread that ends meanwhile gives the answer "gone", never a fault.

use std::ffi::{CStr, CString};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;

use crate::error::{Error, Result};
use crate::sys::memory::access as memory;

pub(crate) use crate::sys::processor::{is_thread_pointer, thread_pointer as pointer};
pub(crate) use farcall_base::thread::number;

/// True if the calling thread is the process's only one. False without `/proc`, which says so.
pub(crate) fn is_only_one() -> bool {
    /// Links of `/proc/self/task`: two of its own, and one for each thread's directory.
    const LINKS_OF_ONE_THREAD: u64 = 3;
    let tasks = std::fs::metadata("/proc/self/task");
    tasks.is_ok_and(|tasks| tasks.nlink() == LINKS_OF_ONE_THREAD)
}

/// The name of the calling thread. nix 0.31 reads it into a constant, which an optimizing compiler takes for empty.
pub(crate) fn name() -> CString {
    // As `TASK_COMM_LEN` of the kernel.
    let mut name = [0_u8; 16];
    // SAFETY: the kernel stores at most 16 bytes, of which the last one is 0.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    CStr::from_bytes_until_nul(&name).unwrap_or_default().to_owned()
}

/// The numbers of all threads of this process.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub(crate) fn numbers() -> Result<Vec<i32>> {
    let during = |error: std::io::Error| {
        let errno = error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        Error::os("listing the process's threads in /proc/self/task", errno)
    };
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task").map_err(during)? {
        let name = entry.map_err(during)?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(numbers)
}

/// The signals that a thread blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// The mask of the calling thread.
    pub(crate) fn of_thread() -> Self {
        let mut own = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: no set is read, and the thread's own is written.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), own.as_mut_ptr()) };
        // SAFETY: all-zero bytes were a valid set already.
        Self(unsafe { own.assume_init() })
    }

    /// The mask that blocks every signal that can be blocked.
    fn full() -> Self {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: fills the set.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: all-zero bytes were a valid set already.
        Self(unsafe { all.assume_init() })
    }

    /// Makes this the mask of the calling thread.
    pub(crate) fn set(&self) {
        // SAFETY: one set is read, and none is written.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}

/// Blocks all signals of the calling thread while this value lives, and restores `errno`.
#[derive(Debug)]
pub(crate) struct Undisturbed {
    /// The signals that the thread blocked before.
    old: SignalMask,
    errno: i32,
    /// The signal mask belongs to the thread that made this.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Undisturbed {
    pub(crate) fn new() -> Self {
        let old = SignalMask::of_thread();
        SignalMask::full().set();
        let errno = Errno::last_raw();
        Self { old, errno, _not_send: std::marker::PhantomData }
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        Errno::set_raw(self.errno);
        self.old.set();
    }
}

/// The address that a thread of this process has given the kernel for its list of robust locks. It is in the C library's record
/// of the thread, at the same distance from the thread pointer in all threads. 0 when the thread has given none or is about to
/// end; `None` when it has ended.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn robust_list(thread: i32) -> Result<Option<u64>> {
    let (mut head, mut bytes) = (0_u64, 0_usize);
    // SAFETY: the kernel stores an address and a size in the two variables.
    let status =
        unsafe { libc::syscall(libc::SYS_get_robust_list, thread, &raw mut head, &raw mut bytes) };
    match Errno::result(status) {
        Ok(_) => Ok(Some(head)),
        Err(Errno::ESRCH) => Ok(None),
        Err(errno) => Err(Error::os(format!("asking for the record of thread {thread}"), errno)),
    }
}

/// True for a thread that has ended and is still listed, as a main thread that ended before the others.
pub(crate) fn is_zombie(thread: i32) -> bool {
    matches!(farcall_base::thread::state(thread), None | Some('Z' | 'X'))
}

/// The word at an address of this process; `None` when it cannot be read.
pub(crate) fn word_at(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory::read(&[(address, bytes.len())], &mut bytes).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Copies bytes to an address of this process, if it can be written: `Ok(false)` when it cannot.
///
/// # Errors
///
/// When the system refuses to copy at all.
///
/// # Safety
///
/// No thread may use the bytes there meanwhile.
pub(crate) unsafe fn write(address: u64, bytes: &[u8]) -> Result<bool> {
    // SAFETY: the caller vouches for the memory there.
    match unsafe { memory::write(&[(address, bytes.len())], bytes) } {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(false),
        Err(error) => Err(error.during("writing another thread's thread-locals")),
    }
}
