//! Stacks whose bytes can be run as code, for programs of compilers that put code there.

use nix::errno::Errno;

use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;

/// Makes the stack of the main thread executable, and those of threads that start from now on. The kernel then makes every
/// mapping executable that can be read.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn make_executable() -> Result<()> {
    // SAFETY: asks for the flags of this process.
    let flags = unsafe { libc::personality(0xffff_ffff) };
    let more = libc::c_ulong::from(flags.cast_unsigned() | libc::READ_IMPLIES_EXEC.cast_unsigned());
    // SAFETY: memory that this process maps later can be executed, and changes in no other way.
    let set = unsafe { libc::personality(more) };
    Errno::result(if flags < 0 { flags } else { set })
        .map_err(|error| Error::os("making later stacks executable (personality)", error))?;
    // SAFETY: reads what the kernel has told this process. The path of the program lies above all of the stack.
    let path = unsafe { libc::getauxval(libc::AT_EXECFN) };
    let last = path / PAGE_BYTES * PAGE_BYTES;
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC | libc::PROT_GROWSDOWN;
    let page = std::ptr::without_provenance_mut(usize::try_from(last).unwrap_or(0));
    // SAFETY: the pages from there down to the stack's end stay mapped, readable and writable.
    Errno::result(unsafe { libc::mprotect(page, 1, protection) })
        .map(drop)
        .map_err(|error| Error::os("making the stack executable", error))
}
