//! Data of linked code in a process that forks: parent and child get separate copies, as natively.
//!
//! A slab's data is memory that the executor shares with its controller, so a forked child would share it with both.
//! The forking thread copies the data before the fork into memory that the kernel copies on write. The child moves
//! the copy to the address of the data. The parent unmaps its copy.
//!
//! | when | thread | action |
//! |---|---|---|
//! | before the fork | the forking one | copies the pages that have memory |
//! | in the parent | the same | unmaps the copy |
//! | in the child | the only one | moves the copy to the data's address; the rest of the stripe becomes new private memory |
//!
//! Fork handlers of the program are registered later. So they run before the copy is made, and in a child after it has its own
//! data.
//!
//! The data's file says which pages have memory, so that large zero fill costs nothing. Only the acceptor's thread has that
//! file in its table of descriptors; the forking thread opens it through `/proc`, and closes it. Where that fails, it copies
//! all that was ever used.
//!
//! `vfork` and `posix_spawn` share memory by design and run no handlers. A `clone` system call of the program runs none
//! either; such a child shares the data.
#![allow(unsafe_code, reason = "copies and replaces mappings in handlers of fork")]

use std::cell::Cell;
use std::ffi::c_void;
use std::io::Write;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Once, OnceLock};

use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::limits::SLABS_MAX;
use crate::shm::Words;
use crate::sync::{AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr};

/// The data stripe of a slab.
#[derive(Debug)]
struct Stripe {
    /// Its address; 0 if there is none.
    start: AtomicU64,
    bytes: AtomicU64,
    /// The word that holds the number of its bytes that may not be zero.
    end: OnceLock<Words>,
    /// The thread that has its file, and the file's number there.
    file: OnceLock<(libc::pid_t, RawFd)>,
}

/// The data stripes of the one session that shares memory with this process. Lock-free, because in a child the holder
/// of a lock may not exist.
static DATA: [Stripe; SLABS_MAX] = [const {
    Stripe {
        start: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        end: OnceLock::new(),
        file: OnceLock::new(),
    }
}; SLABS_MAX];

/// The address and size of a copy of a stripe's first bytes; the address is 0 if there was no memory.
type Copy = (usize, usize);

thread_local! {
    /// The copies that the forking thread has made.
    static COPIES: Cell<[Copy; SLABS_MAX]> = const { Cell::new([(0, 0); SLABS_MAX]) };
}

/// Gives forked children their own copy of the data stripe of the slab with this index from now on, until [`forget`].
///
/// # Panics
///
/// If the index is not less than [`SLABS_MAX`].
pub(crate) fn keep_apart(index: usize, range: AddrRange, end: Words) {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handlers may run at any fork.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
    let stripe = &DATA[index];
    // A process shares memory with one session, which has one slab with this index.
    if stripe.end.set(end).is_ok() {
        stripe.bytes.store(range.bytes(), Ordering::Relaxed);
        // [FORKED] Release: pairs with the Acquire in `Stripe::start`; a thread that reads the start reads the size
        // too.
        stripe.start.store(range.start.get(), Ordering::Release);
    }
}

/// Keeps the file of the data stripe of the slab with this index open in the calling thread's own table of descriptors.
///
/// # Panics
///
/// If the index is not less than [`SLABS_MAX`].
pub(crate) fn keep_file(index: usize, file: OwnedFd) {
    // SAFETY: it has no requirements.
    let thread = unsafe { libc::gettid() };
    let _ = DATA[index].file.set((thread, file.into_raw_fd()));
}

/// Makes the data that this process shares with the controller private: each page is copied when it is first written. The calling
/// thread must be the owner of the [files](keep_file), and no code may write the data meanwhile. Children that are forked
/// from now on have their own data without a copy.
///
/// # Errors
///
/// If the files are not kept, because there is no `/proc`, or the system refuses.
pub(crate) fn make_private() -> Result<()> {
    DATA.iter().try_for_each(Stripe::make_private)?;
    forget();
    Ok(())
}

/// Call this before the stripes are unmapped.
pub(crate) fn forget() {
    DATA.iter().for_each(|stripe| stripe.start.store(0, Ordering::Relaxed));
}

extern "C" fn before() {
    COPIES.set(std::array::from_fn(|at| DATA[at].copy()));
}

extern "C" fn in_parent() {
    for (copy, bytes) in COPIES.replace([(0, 0); SLABS_MAX]) {
        if copy != 0 {
            // SAFETY: `before` mapped the copy on this thread, and no other code knows its address.
            unsafe { libc::munmap(ptr::with_exposed_provenance_mut(copy), bytes) };
        }
    }
}

extern "C" fn in_child() {
    for (stripe, copy) in DATA.iter().zip(COPIES.replace([(0, 0); SLABS_MAX])) {
        stripe.replace(copy);
        // The child's children need no copy: its data is private memory.
        stripe.start.store(0, Ordering::Relaxed);
    }
}

impl Stripe {
    fn start(&self) -> Option<ExecutorAddr> {
        // [FORKED] Acquire: pairs with the Release in `keep_apart`.
        let start = ExecutorAddr::new(self.start.load(Ordering::Acquire));
        (!start.is_null()).then_some(start)
    }

    fn make_private(&self) -> Result<()> {
        let Some(start) = self.start() else { return Ok(()) };
        let Some((_, file)) = self.file.get() else {
            return Err(Error::invalid(
                "the data of linked code cannot be copied: its file was not found through /proc",
            ));
        };
        let bytes = usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0);
        let start = pointer::<c_void>(start).cast_mut();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: the stripe is mapped there, and has the same bytes afterwards.
        let mapped = unsafe { libc::mmap(start, bytes, prot, flags, *file, 0) };
        if mapped == libc::MAP_FAILED {
            let why = std::io::Error::last_os_error();
            return Err(Error::os("making the data of linked code private", why));
        }
        Ok(())
    }

    /// Copies the pages of the stripe that have memory.
    fn copy(&self) -> Copy {
        let (Some(start), Some(end)) = (self.start(), self.end.get()) else { return (0, 0) };
        let bytes = end[0].load(Ordering::Relaxed).min(self.bytes.load(Ordering::Relaxed));
        let bytes = usize::try_from(bytes).unwrap_or(0);
        if bytes == 0 {
            return (0, 0);
        }
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: maps fresh memory anywhere.
        let copy = unsafe { libc::mmap(ptr::null_mut(), bytes, prot, flags, -1, 0) };
        if copy == libc::MAP_FAILED {
            return (0, bytes);
        }
        let copy_part = |part: Range<usize>| {
            let from = pointer::<u8>(start).wrapping_add(part.start);
            let to = copy.cast::<u8>().wrapping_add(part.start);
            // SAFETY: the stripe is mapped until `forget`, and the part lies in it and in the copy. Other threads may
            // write meanwhile, as natively during a fork.
            unsafe { ptr::copy_nonoverlapping(from, to, part.len()) };
        };
        match self.open() {
            Some(file) => used_parts(&file, bytes).for_each(copy_part),
            None => copy_part(0..bytes),
        }
        (copy.expose_provenance(), bytes)
    }

    /// Opens the file of the stripe. Allocates nothing.
    fn open(&self) -> Option<OwnedFd> {
        let (thread, number) = self.file.get()?;
        let mut path = [0_u8; 64];
        write!(&mut path[..], "/proc/self/task/{thread}/fd/{number}\0").ok()?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: the path ends with a zero byte.
        let file = unsafe { libc::open(path.as_ptr().cast(), flags) };
        // SAFETY: the descriptor was opened here.
        (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) })
    }

    /// Replaces the stripe by a copy.
    fn replace(&self, (copy, bytes): Copy) {
        let Some(start) = self.start() else { return };
        let start = pointer::<c_void>(start).cast_mut();
        if copy == 0 && bytes > 0 {
            return end_child("no memory for the data of a forked process");
        }
        if bytes > 0 {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let from = ptr::with_exposed_provenance_mut::<c_void>(copy);
            // SAFETY: only this thread knows the copy, and the stripe is replaced before any code uses it.
            let moved = unsafe { libc::mremap(from, bytes, bytes, flags, start) };
            if moved == libc::MAP_FAILED {
                return end_child("cannot move the data of a forked process");
            }
        }
        let rest =
            usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0).saturating_sub(bytes);
        if rest > 0 {
            let prot = libc::PROT_READ | libc::PROT_WRITE;
            let flags =
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
            let from = start.wrapping_byte_add(bytes);
            // SAFETY: the rest of the stripe holds no data.
            let mapped = unsafe { libc::mmap(from, rest, prot, flags, -1, 0) };
            if mapped == libc::MAP_FAILED {
                end_child("no memory behind the data of a forked process");
            }
        }
    }
}

/// The parts of a file's first `bytes` bytes that have memory.
fn used_parts(file: &OwnedFd, bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let seek = |from: usize, whence| {
        let from = libc::off_t::try_from(from).ok()?;
        // SAFETY: it changes the position of a descriptor that only this function uses.
        let at = unsafe { libc::lseek(file.as_raw_fd(), from, whence) };
        usize::try_from(at).ok()
    };
    let mut from = 0;
    std::iter::from_fn(move || {
        // It fails behind the last part.
        let start = seek(from, libc::SEEK_DATA).filter(|start| *start < bytes)?;
        from = seek(start, libc::SEEK_HOLE).unwrap_or(bytes).min(bytes);
        Some(start..from)
    })
}

/// Ends a child process that would share its data with its parent.
fn end_child(why: &str) {
    let line = format!("farcall executor: {why}\n");
    // SAFETY: the bytes are there.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    // SAFETY: it ends the process.
    unsafe { libc::_exit(125) }
}
