//! The stacks of threads: how much of one is left, and stacks whose bytes can be run as code.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;

use nix::errno::Errno;

use crate::error::{Error, Result};
use crate::limits::{PAGE_BYTES, STACK_RESERVE_BYTES};

thread_local! {
    /// The calling thread's stack: its lowest address, the lowest one where a nested call may begin, its end. Zeros until they are
    /// known.
    static STACK: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

/// Whether the calling thread's stack has room for a nested call. True on a stack that is none of the thread's, as a coroutine's.
#[inline]
pub(crate) fn has_room() -> bool {
    let local = 0_u8;
    let here = (&raw const local).addr() as u64;
    let [low, room, end] = STACK.get();
    let is_in_room = here >= room && here < end;
    is_in_room || if end == 0 { has_room_at(here) } else { here < low || here >= end }
}

#[cold]
fn has_room_at(here: u64) -> bool {
    let Some(stack) = bounds() else { return true };
    let reserve = STACK_RESERVE_BYTES.min((stack.end - stack.start) / 4);
    STACK.set([stack.start, stack.start + reserve, stack.end]);
    here < stack.start || here >= stack.start + reserve
}

/// The addresses of the calling thread's stack; `None` when the system does not tell.
pub(crate) fn bounds() -> Option<Range<u64>> {
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: pthread_self has no preconditions.
    let me = unsafe { libc::pthread_self() };
    // SAFETY: initializes the attributes when it succeeds.
    if unsafe { libc::pthread_getattr_np(me, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let mut low = std::ptr::null_mut();
    let mut bytes = 0;
    // SAFETY: the attributes are initialized, and both results are locals.
    unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut bytes) };
    // SAFETY: the attributes are initialized, and not used any more.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    let low = low as u64;
    Some(low..low.saturating_add(bytes as u64))
}

/// Makes the stack of the main thread executable, and the stacks of threads that start from now on. The kernel then makes every
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
