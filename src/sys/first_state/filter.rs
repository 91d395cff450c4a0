//! A filter of system calls: no change of memory that a look at the pages does not show.
//!
//! | call | answer | why |
//! |---|---|---|
//! | `MADV_FREE` by `madvise`, `process_madvise` | `EINVAL`, as before Linux 4.5 | the kernel drops these pages later, also after a reset |
//! | `io_uring` | `ENOSYS`, as before Linux 5.1 | the kernel writes when the work is done, also after a reset |
//! | `userfaultfd` | `ENOSYS`, as before Linux 4.3 | the process could say itself what counts as written |
//! | `clone` of a process in the same memory, whose parent goes on | `EINVAL` | a process that is no child can write after a reset |
//! | `clone3` | `ENOSYS`, as before Linux 5.3 | its flags are in memory; C libraries then take `clone` |
//! | `pkey_alloc`, `mseal` | `ENOSYS`, as before Linux 4.9 and 6.10 | memory could not be put back, and no list of mappings says so |
//!
//! The calls of x32 fail (`EPERM`), as their numbers are others. The calls of 32-bit programs end the process.

use seccompiler::SeccompAction;

use crate::error::Result;
use crate::sys::confine::filter::{self, Calls, one_of};

/// Installs it, for all threads of this process and all that they start.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn install() -> Result<()> {
    let lazily = |argument| one_of(argument, &[libc::MADV_FREE]);
    let (shares, alone) = (libc::CLONE_VM, libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_VFORK);
    let invalid = [
        (libc::SYS_madvise, lazily(2)?),
        (libc::SYS_process_madvise, lazily(3)?),
        (libc::SYS_clone, vec![filter::rule(0, alone, shares)?]),
    ];
    let unknown = [
        libc::SYS_io_uring_setup,
        libc::SYS_io_uring_enter,
        libc::SYS_io_uring_register,
        libc::SYS_userfaultfd,
        libc::SYS_pkey_alloc,
        libc::SYS_mseal,
        libc::SYS_clone3,
    ];
    let unknown = unknown.map(|call| (call, Vec::new()));
    // First, as the others are for all threads with what this one has.
    filter::refuse_other_calls()?;
    let failing = |errno: i32| SeccompAction::Errno(errno.unsigned_abs());
    for (calls, errno) in
        [(Calls::from(invalid), libc::EINVAL), (Calls::from(unknown), libc::ENOSYS)]
    {
        filter::install_for_all(calls, failing(errno))?;
    }
    Ok(())
}
