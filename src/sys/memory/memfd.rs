//! Anonymous shared memory: files without a name, their size sealed.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, FcntlArg, SealFlag, fallocate, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::uio::pwrite;
use nix::unistd::ftruncate;

use super::limit;
use crate::error::{Error, Result};
use crate::sys::policy;

/// Creates a memory file of `bytes` bytes with a sealed size.
///
/// Its pages have no memory yet: see [`back`]. `executable` files may be mapped R-X.
///
/// # Errors
///
/// When the system refuses, or `bytes` is over this process's limit on file sizes (then `ErrorKind::Exhausted`). The message carries the
/// size.
pub(crate) fn create(name: &CStr, bytes: u64, executable: bool) -> Result<OwnedFd> {
    let during =
        |errno: Errno| Error::os(format!("creating {bytes} bytes of shared memory"), errno);
    let base = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let kind =
        MFdFlags::from_bits_retain(if executable { libc::MFD_EXEC } else { libc::MFD_NOEXEC_SEAL });
    let file = match memfd_create(name, base | kind) {
        // Kernels before 6.3 know neither flag; there every memory file may be mapped R-X.
        Err(Errno::EINVAL) => memfd_create(name, base),
        other => other,
    }
    .map_err(|errno| match cause(errno) {
        Some(cause) => during(errno).and(&Error::invalid(cause)),
        None => during(errno),
    })?;
    let size = i64::try_from(bytes).map_err(|_| during(Errno::EFBIG))?;
    // Above the limit the kernel would end this process by SIGXFSZ. No other function here makes a file larger.
    let limit = getrlimit(Resource::RLIMIT_FSIZE);
    let (limit, _) = limit.map_err(|errno| policy::named(during(errno), "prlimit64"))?;
    if bytes > limit {
        return Err(Error::exhausted(format!(
            "{bytes} bytes of shared memory are more than this process may have in a file, \
             {limit} bytes (RLIMIT_FSIZE): raise the limit with ulimit -f"
        )));
    }
    ftruncate(&file, size).map_err(during)?;
    seal(file.as_fd(), SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW)?;
    Ok(file)
}

/// Why the system creates no memory file, and what the user can do about it.
fn cause(errno: Errno) -> Option<String> {
    /// 2 forbids memory files that may be mapped R-X.
    const POLICY: &str = "/proc/sys/vm/memfd_noexec";
    match errno {
        Errno::EACCES if std::fs::read_to_string(POLICY).is_ok_and(|mode| mode.trim() == "2") => {
            Some("vm.memfd_noexec is 2, which forbids executable memory files: sysctl vm.memfd_noexec=1 allows them".to_owned())
        }
        Errno::EMFILE => Some("raise the limit on open files (RLIMIT_NOFILE, ulimit -n)".to_owned()),
        errno => policy::cause(Some(errno as i32), "memfd_create"),
    }
}

/// Adds seals to a memory file.
///
/// # Errors
///
/// When the system refuses, for example because the file is sealed against further seals.
pub(crate) fn seal(file: impl AsFd, seals: SealFlag) -> Result<()> {
    fcntl(file, FcntlArg::F_ADD_SEALS(seals))
        .map(drop)
        .map_err(|errno| Error::os(format!("sealing shared memory with {seals:?}"), errno))
}

/// Stores bytes in a memory file, without access to a mapping of it. The kernel clears no page that it fills, and takes no page fault.
///
/// # Errors
///
/// When the system refuses. Part of the bytes may be stored then.
pub(crate) fn write(file: impl AsFd, offset: u64, bytes: &[u8]) -> Result<()> {
    let during = |errno| Error::os(format!("storing {} bytes", bytes.len()), errno);
    let end = offset.saturating_add(bytes.len() as u64);
    // As above.
    let (limit, _) = getrlimit(Resource::RLIMIT_FSIZE).map_err(during)?;
    if end > limit {
        return Err(during(Errno::EFBIG));
    }
    let (mut at, mut left) = (i64::try_from(offset).map_err(|_| during(Errno::EFBIG))?, bytes);
    while !left.is_empty() {
        let count = match pwrite(&file, left, at) {
            Ok(0) => return Err(during(Errno::ENOSPC)),
            Err(Errno::EINTR) => continue,
            count => count.map_err(during)?,
        };
        left = left.get(count..).unwrap_or_default();
        at = at.saturating_add_unsigned(count as u64);
    }
    Ok(())
}

/// Allocates the memory of `bytes` bytes from `offset` on, so that no access to them fails.
///
/// # Errors
///
/// When memory runs out. The message names the limit of the control group, if there is one.
pub(crate) fn back(file: impl AsFd, offset: u64, bytes: u64) -> Result<()> {
    allocate(file, offset, bytes).map_err(|errno| {
        let error = Error::os(format!("backing {bytes} bytes of shared memory"), errno);
        match errno {
            Errno::ENOMEM | Errno::ENOSPC => error.and(&Error::exhausted(limit::of_memory())),
            _ => policy::named(error, "fallocate"),
        }
    })
}

fn allocate(file: impl AsFd, offset: u64, bytes: u64) -> nix::Result<()> {
    let mode = FallocateFlags::FALLOC_FL_KEEP_SIZE;
    let start = i64::try_from(offset).map_err(|_| Errno::EFBIG)?;
    let size = i64::try_from(bytes).map_err(|_| Errno::EFBIG)?;
    loop {
        match fallocate(file.as_fd(), mode, start, size) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// The size of a received memory file, after a check that it can neither shrink nor grow.
///
/// # Errors
///
/// When it is no memory file, or its size is not sealed: an access to its mapping could then kill this process.
pub(crate) fn sealed_bytes(file: impl AsFd) -> Result<u64> {
    let seals = seals_of(file.as_fd())?;
    if !seals.contains(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW) {
        return Err(Error::violation(format!(
            "received shared memory is sealed with {seals:?} only: its size could change"
        )));
    }
    let status = nix::sys::stat::fstat(file)
        .map_err(|errno| Error::os("reading the size of a received descriptor", errno))?;
    u64::try_from(status.st_size)
        .map_err(|_| Error::violation("received shared memory has a negative size"))
}

/// The size of a file of the host's, after it was sealed so that it can neither shrink nor grow.
///
/// # Errors
///
/// When it is empty or no memory file, cannot be written, or its size cannot be fixed. The message says what to do.
pub(crate) fn fix_size(file: impl AsFd) -> Result<u64> {
    let seals = fcntl(file.as_fd(), FcntlArg::F_GET_SEALS).map_err(|errno| match errno {
        Errno::EINVAL => Error::invalid(
            "this is no memory file, so it could shrink, and the next access kill this process: copy its \
             bytes into a file of memfd_create",
        ),
        errno => Error::os("reading the seals of a file", errno),
    })?;
    let seals = SealFlag::from_bits_retain(seals);
    let mode = fcntl(file.as_fd(), FcntlArg::F_GETFL)
        .map_err(|errno| Error::os("reading the mode of a file", errno))?;
    let is_sealed = seals.intersects(SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_FUTURE_WRITE);
    if mode & libc::O_ACCMODE != libc::O_RDWR || is_sealed {
        return Err(Error::invalid(format!(
            "this process cannot write the file (seals {seals:?}): open it for reading and writing, \
             and leave the seals against writers to the region"
        )));
    }
    let fixed = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
    if !seals.contains(fixed) {
        if seals.contains(SealFlag::F_SEAL_SEAL) {
            return Err(Error::invalid(
                "the size of this file could change, and it takes no seals: create it by memfd_create with \
                 MFD_ALLOW_SEALING, or seal it with F_SEAL_SHRINK and F_SEAL_GROW first",
            ));
        }
        seal(file.as_fd(), fixed)?;
    }
    match sealed_bytes(file)? {
        0 => Err(Error::invalid("the file is empty: give it its size by ftruncate first")),
        bytes => Ok(bytes),
    }
}

/// True when no process can make another writable mapping of a memory file.
///
/// # Errors
///
/// When it is no memory file.
pub(crate) fn is_sealed_against_writers(file: impl AsFd) -> Result<bool> {
    let writers = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_FUTURE_WRITE;
    Ok(seals_of(file)?.intersects(writers))
}

/// True when a memory file has all of these seals.
///
/// # Errors
///
/// When it is no memory file.
pub(crate) fn has_seals(file: impl AsFd, seals: SealFlag) -> Result<bool> {
    Ok(seals_of(file)?.contains(seals))
}

fn seals_of(file: impl AsFd) -> Result<SealFlag> {
    let seals = fcntl(file, FcntlArg::F_GET_SEALS)
        .map_err(|errno| Error::os("reading the seals of shared memory", errno))?;
    Ok(SealFlag::from_bits_retain(seals))
}

#[cfg(test)]
mod tests {
    use crate::error::ErrorKind;
    use nix::sys::resource::setrlimit;

    use super::*;
    use crate::sys::alone;

    #[test]
    fn a_file_over_the_limit_of_the_process_is_an_error() {
        alone::run(
            "sys::memory::memfd::tests::a_file_over_the_limit_of_the_process_is_an_error",
            || {
                let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).expect("the limit");
                setrlimit(Resource::RLIMIT_FSIZE, 1 << 20, hard).expect("a lower limit");
                let file = create(c"test", 1 << 20, false).expect("as much as the limit");
                back(&file, 0, 1 << 20).expect("memory");
                let error = create(c"test", (1 << 20) + 1, false).expect_err("more");
                assert!(error.kind() == ErrorKind::Exhausted, "{error:?}");
                for word in ["1048577 bytes", "1048576 bytes", "RLIMIT_FSIZE", "ulimit -f"] {
                    assert!(error.to_string().contains(word), "{error}");
                }
            },
        );
    }
}
