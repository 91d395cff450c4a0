//! `madvise` for linked code, whose variables lie in memory that is shared with the controller.
//!
//! Natively they are private memory, for which some advice changes what is read afterwards. The kernel refuses that advice for shared
//! memory, or keeps the bytes, so it is followed here:
//!
//! | advice | variables |
//! |---|---|
//! | `MADV_DONTNEED` | have their initial values again |
//! | `MADV_FREE` | may keep their values, and do |
//! | `MADV_WIPEONFORK` | are zero in forked children, until `MADV_KEEPONFORK` |
//!
//! All other advice, and that for other memory, is the kernel's.
#![allow(unsafe_code, reason = "provides a C function, and writes variables of linked code")]

use std::ffi::{c_int, c_void};
use std::sync::{Once, RwLock, RwLockReadGuard};

use nix::errno::Errno;

use crate::executor::entry::address::pointer;
use crate::limits::PAGE_BYTES;
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// The variables of a program, and the initial values of those that are not zero.
#[derive(Debug)]
struct Variables {
    range: AddrRange,
    initial: Box<[u8]>,
}

/// The ranges of the process's program.
static VARIABLES: RwLock<Option<Variables>> = RwLock::new(None);

/// The number of ranges that are wiped in children.
const WIPED_MAX: usize = 64;

/// Start and end of each such range. Lock-free, because in a child the holder of a lock may not exist.
static WIPED: [[AtomicU64; 2]; WIPED_MAX] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; WIPED_MAX];

/// Keeps the initial values of a program's variables, before any of its code runs. `stored` bytes of them may not be zero.
pub(crate) fn keep_initial(range: AddrRange, stored: u64) {
    let bytes = usize::try_from(stored.min(range.bytes())).unwrap_or(0);
    let Ok(mut variables) = VARIABLES.write() else { return };
    if range.bytes() == 0 || variables.is_some() {
        return;
    }
    // SAFETY: the controller has written the variables, and no code of the program runs yet.
    let initial = unsafe { std::slice::from_raw_parts(pointer::<u8>(range.start), bytes) };
    *variables = Some(Variables { range, initial: initial.into() });
}

/// Forgets the variables in the range of a program that is removed.
pub(crate) fn forget(range: AddrRange) {
    let Ok(mut variables) = VARIABLES.write() else { return };
    if variables.take_if(|variables| variables.range == range).is_some() {
        keep_in_children(range);
    }
}

/// Waits for no lock: in a child its holder may not exist. A link holds it, while no code of the program runs.
fn variables() -> Option<RwLockReadGuard<'static, Option<Variables>>> {
    VARIABLES.try_read().ok().filter(|variables| variables.is_some())
}

/// `madvise` for linked code.
///
/// # Safety
///
/// As `madvise`.
pub(crate) unsafe extern "C" fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    let follow: fn(AddrRange) -> bool = match advice {
        libc::MADV_DONTNEED => reset,
        libc::MADV_FREE => |_| true,
        libc::MADV_WIPEONFORK => wipe_in_children,
        libc::MADV_KEEPONFORK => keep_in_children,
        _ => |_| false,
    };
    let is_followed = matches!(
        advice,
        libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_WIPEONFORK | libc::MADV_KEEPONFORK
    );
    let pages = bytes.checked_next_multiple_of(usize::try_from(PAGE_BYTES).unwrap_or(1));
    let range = pages.and_then(|bytes| {
        let start = ExecutorAddr::new(start as u64);
        AddrRange::sized(start, bytes as u64)
    });
    let variables = variables().and_then(|variables| Some(variables.as_ref()?.range));
    let (Some(range), Some(variables)) = (range, variables.filter(|_| is_followed)) else {
        // SAFETY: the caller vouches for the memory.
        return unsafe { libc::madvise(start, bytes, advice) };
    };
    let own = AddrRange {
        start: range.start.max(variables.start),
        end: range.end.min(page_end(variables.end)),
    };
    if own.start >= own.end || !range.start.get().is_multiple_of(PAGE_BYTES) {
        // SAFETY: the caller vouches for the memory.
        return unsafe { libc::madvise(start, bytes, advice) };
    }
    if !follow(own) {
        Errno::ENOMEM.set();
        return -1;
    }
    let before = AddrRange { start: range.start, end: own.start };
    let behind = AddrRange { start: own.end, end: range.end };
    for other in [before, behind] {
        let bytes = usize::try_from(other.bytes()).unwrap_or(0);
        let start = pointer::<c_void>(other.start).cast_mut();
        // SAFETY: the caller vouches for the memory.
        if bytes > 0 && unsafe { libc::madvise(start, bytes, advice) } != 0 {
            return -1;
        }
    }
    0
}

fn page_end(address: ExecutorAddr) -> ExecutorAddr {
    ExecutorAddr::new(address.get().next_multiple_of(PAGE_BYTES))
}

/// Gives whole pages of variables their initial values.
fn reset(range: AddrRange) -> bool {
    let variables = variables();
    let Some(Variables { range: all, initial }) = variables.as_deref().and_then(Option::as_ref)
    else {
        return false;
    };
    let stored = ExecutorAddr::new(all.start.get() + initial.len() as u64);
    let first_zero = page_end(stored).clamp(range.start, range.end);
    zero(AddrRange { start: first_zero, end: range.end });
    let partly = AddrRange { start: stored.clamp(range.start, first_zero), end: first_zero };
    // SAFETY: the caller of `madvise` vouches for the variables.
    unsafe { pointer::<u8>(partly.start).cast_mut().write_bytes(0, in_bytes(partly)) };
    let full = AddrRange { start: range.start, end: partly.start };
    let offset = in_bytes(AddrRange { start: all.start, end: full.start });
    let Some(values) = initial.get(offset..).and_then(|rest| rest.get(..in_bytes(full))) else {
        return full.bytes() == 0;
    };
    let target = pointer::<u8>(full.start).cast_mut();
    // SAFETY: as above; the initial values are memory of their own.
    unsafe { target.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    true
}

/// Makes whole pages zero, and frees their memory where the kernel can.
fn zero(range: AddrRange) {
    let start = pointer::<c_void>(range.start).cast_mut();
    let bytes = in_bytes(range);
    // In a forked child the variables are private memory, which the kernel refuses here.
    // SAFETY: the caller of `madvise` vouches for the variables.
    if bytes > 0 && unsafe { libc::madvise(start, bytes, libc::MADV_REMOVE) } != 0 {
        // SAFETY: as above.
        unsafe { start.cast::<u8>().write_bytes(0, bytes) };
    }
}

fn wipe_in_children(range: AddrRange) -> bool {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handler may run at any fork. It runs behind the handler that gives children their own variables.
        unsafe { libc::pthread_atfork(None, None, Some(wipe)) };
    });
    let Some([start, end]) = WIPED.iter().find(|[_, end]| end.load(Ordering::Relaxed) == 0) else {
        return false;
    };
    start.store(range.start.get(), Ordering::Relaxed);
    end.store(range.end.get(), Ordering::Relaxed);
    true
}

fn keep_in_children(range: AddrRange) -> bool {
    WIPED.iter().all(|[start, end]| {
        let old = AddrRange {
            start: ExecutorAddr::new(start.load(Ordering::Relaxed)),
            end: ExecutorAddr::new(end.load(Ordering::Relaxed)),
        };
        if old.start >= range.end || range.start >= old.end {
            return true;
        }
        end.store(0, Ordering::Relaxed);
        let before = AddrRange { start: old.start, end: range.start };
        let behind = AddrRange { start: range.end, end: old.end };
        let rest = [before, behind].into_iter().filter(|rest| rest.start < rest.end);
        // The first one takes the place of the old range.
        rest.map(wipe_in_children).min().unwrap_or(true)
    })
}

extern "C" fn wipe() {
    for [start, end] in &WIPED {
        let start = ExecutorAddr::new(start.load(Ordering::Relaxed));
        let end = ExecutorAddr::new(end.load(Ordering::Relaxed));
        if start < end {
            // SAFETY: the child has variables of its own, and one thread.
            unsafe {
                pointer::<u8>(start).cast_mut().write_bytes(0, in_bytes(AddrRange { start, end }))
            };
        }
    }
}

fn in_bytes(range: AddrRange) -> usize {
    usize::try_from(range.bytes()).unwrap_or(0)
}
