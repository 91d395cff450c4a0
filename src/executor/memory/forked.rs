//! Data of linked code in a process that forks: parent and child have their own, as natively.
//!
//! The data of a slab is memory that the executor shares with its controller, so a forked child would share it with both. The
//! forking thread copies the data before the fork into memory that the kernel copies on write. The child then moves the copy to
//! where the data is. The parent drops its copy.
//!
//! | when | thread | what |
//! |---|---|---|
//! | before the fork | the forking one | copies what has memory behind it |
//! | in the parent | the same | drops the copy |
//! | in the child | its only one | moves the copy to the data's place; the rest of the stripe is fresh memory |
//!
//! Handlers of the program's own run around these, as they were registered later: before this copy is made, and in a child that
//! has its own data. `vfork` and `posix_spawn` share memory by design and run no handlers. A `clone` system call that the
//! program makes itself runs none either: such a child shares the data.
#![allow(unsafe_code, reason = "copies and replaces mappings in handlers of fork")]

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Once, OnceLock};

use crate::call::contract::Placement;
use crate::executor::entry::address::pointer;
use crate::shm::Words;
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// One near the executor, one below 2 GiB.
const STRIPES: usize = 2;

/// The data stripe of a slab.
#[derive(Debug)]
struct Stripe {
    /// Where it is; 0 when there is none.
    start: AtomicU64,
    bytes: AtomicU64,
    /// The word that says how many bytes of it have memory behind them.
    end: OnceLock<Words>,
}

/// Those of the one session that a process of its own has. Without a lock, since another thread of the parent may hold that
/// when a child begins.
static DATA: [Stripe; STRIPES] =
    [const { Stripe { start: AtomicU64::new(0), bytes: AtomicU64::new(0), end: OnceLock::new() } };
        STRIPES];

/// A copy of a stripe's first bytes: where it is, and how many those are. Where there is no memory it is at address 0.
type Copy = (usize, usize);

thread_local! {
    /// What the forking thread has made.
    static COPIES: Cell<[Copy; STRIPES]> = const { Cell::new([(0, 0); STRIPES]) };
}

/// From now on a forked child has its own copy of the data stripe of this slab, until [`forget`].
pub(crate) fn keep_apart(placement: Placement, range: AddrRange, end: Words) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handlers may run at any fork.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
    let stripe = &DATA[placement as usize];
    // A process has one session that it shares memory with, and that has one slab of each placement.
    if stripe.end.set(end).is_ok() {
        stripe.bytes.store(range.bytes(), Ordering::Relaxed);
        // [FORKED] Release: a thread that forks and sees the start sees the size.
        stripe.start.store(range.start.get(), Ordering::Release);
    }
}

/// The stripes are about to go.
pub(crate) fn forget() {
    DATA.iter().for_each(|stripe| stripe.start.store(0, Ordering::Relaxed));
}

extern "C" fn before() {
    COPIES.set(std::array::from_fn(|at| DATA[at].copy()));
}

extern "C" fn in_parent() {
    for (copy, bytes) in COPIES.take() {
        if copy != 0 {
            // SAFETY: `before` has mapped it on this thread, and nothing else knows it.
            unsafe { libc::munmap(ptr::with_exposed_provenance_mut(copy), bytes) };
        }
    }
}

extern "C" fn in_child() {
    for (stripe, copy) in DATA.iter().zip(COPIES.take()) {
        stripe.replace(copy);
        // The child's own children need no copies: its data is copied on write.
        stripe.start.store(0, Ordering::Relaxed);
    }
}

impl Stripe {
    fn start(&self) -> Option<ExecutorAddr> {
        // [FORKED] Acquire: pairs with `keep_apart`.
        let start = ExecutorAddr::new(self.start.load(Ordering::Acquire));
        (!start.is_null()).then_some(start)
    }

    /// Copies what has memory behind it.
    fn copy(&self) -> Copy {
        let (Some(start), Some(end)) = (self.start(), self.end.get()) else { return (0, 0) };
        let bytes = end[0].load(Ordering::Relaxed).min(self.bytes.load(Ordering::Relaxed));
        let bytes = usize::try_from(bytes).unwrap_or(0);
        if bytes == 0 {
            return (0, 0);
        }
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: maps fresh memory anywhere.
        let copy = unsafe { libc::mmap(ptr::null_mut(), bytes, prot, flags, -1, 0) };
        if copy == libc::MAP_FAILED {
            return (0, bytes);
        }
        // SAFETY: the stripe is mapped until `forget`, and so far there is memory behind it; other threads of the program may
        // write meanwhile, as natively between a fork and their next store.
        unsafe { ptr::copy_nonoverlapping(pointer::<u8>(start), copy.cast(), bytes) };
        (copy.expose_provenance(), bytes)
    }

    /// Puts a copy in the place of the stripe.
    fn replace(&self, (copy, bytes): Copy) {
        let Some(start) = self.start() else { return };
        let start = pointer::<c_void>(start).cast_mut();
        if copy == 0 && bytes > 0 {
            return give_up("no memory for the data of a forked process");
        }
        if bytes > 0 {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let from = ptr::with_exposed_provenance_mut::<c_void>(copy);
            // SAFETY: the copy is this thread's alone, and the stripe is replaced as a whole before anything uses it.
            let moved = unsafe { libc::mremap(from, bytes, bytes, flags, start) };
            if moved == libc::MAP_FAILED {
                return give_up("cannot move the data of a forked process");
            }
        }
        let rest =
            usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0).saturating_sub(bytes);
        if rest > 0 {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let flags =
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            let from = start.wrapping_byte_add(bytes);
            // SAFETY: the rest of the stripe has nothing in it, and belongs to the stripe.
            let mapped = unsafe { libc::mmap(from, rest, prot, flags, -1, 0) };
            if mapped == libc::MAP_FAILED {
                give_up("no memory behind the data of a forked process");
            }
        }
    }
}

/// Ends a child that would share its data with its parent.
fn give_up(why: &str) {
    let line = format!("farcall executor: {why}\n");
    // SAFETY: the bytes are there.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    // SAFETY: it ends the process.
    unsafe { libc::_exit(125) }
}
