//! The book: memory outside of the state, with what is known of the first state, and a stack.

use std::ptr;

use super::Carried;
use super::ranges::{Kept, List, RANGES_MAX, Range, Ranges};
use super::refusal::Refusal;
use crate::error::{Error, Result};

/// The results of a function that runs on the book's stack.
pub(super) const DONE: u64 = 0;
pub(super) const BACK: u64 = 1;
pub(super) const REFUSED: u64 = 2;

/// The bytes of the stack.
const STACK_BYTES: usize = 512 << 10;

const DESCRIPTORS_MAX: usize = 4096;
const THREADS_MAX: usize = 16;
/// Bytes of the list of mappings, and of memory that is compared or read at once.
const LIST_BYTES: usize = 8 << 20;
pub(super) const COMPARED_BYTES: usize = 64 << 10;

/// A mapping. Zero is a valid one, as of all types here.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Mapping {
    pub(super) range: Range,
    /// The bits `READ`, `WRITE` and so on of `mappings`.
    pub(super) bits: u64,
    pub(super) offset: u64,
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// A thread that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Thread {
    pub(super) number: u64,
    /// The system call with its arguments, the stack pointer, and the program counter.
    pub(super) wait: [u64; 9],
}

/// An open descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Descriptor {
    pub(super) number: i32,
    pub(super) flags: i32,
    pub(super) status: i32,
    pub(super) device: u64,
    pub(super) inode: u64,
    /// The offset; less than 0 if it has none.
    pub(super) offset: i64,
}

/// The content of a book. All zero at first.
#[repr(C)]
pub(super) struct Book {
    /// The stack pointers: of the call of `keep`, and of the call that runs.
    pub(super) first_stack: u64,
    pub(super) now_stack: u64,
    pub(super) carried: Carried,
    pub(super) refusal: Refusal,
    pub(super) compares: u64,
    /// Not 0 if another thread may have run since.
    pub(super) has_moved: u64,
    /// Not 0 if pages that are dropped otherwise get their contents by copies.
    pub(super) copies_all: u64,
    /// How often the process was put back.
    pub(super) resets: u64,
    /// The number of the image's process.
    pub(super) image: i32,
    /// The descriptors by which the kernel notes writes, says which, and lists mappings.
    pub(super) notes: i32,
    pub(super) pagemap: i32,
    pub(super) maps: i32,
    pub(super) umask: u32,
    pub(super) mask: u64,
    pub(super) alternate: [u64; 3],
    pub(super) actions: [[u64; 4]; 65],
    pub(super) first_break: u64,
    /// The end of the heap before it grew to its end of the first state; 0 if it did not.
    pub(super) shrunk_break: u64,
    /// The base of the segment that glibc does not use.
    pub(super) segment: u64,
    /// Words of this thread that the kernel writes at any time.
    pub(super) live: [Range; 2],
    pub(super) threads: List<Thread, THREADS_MAX>,
    pub(super) descriptors: List<Descriptor, DESCRIPTORS_MAX>,
    pub(super) now_descriptors: List<Descriptor, DESCRIPTORS_MAX>,
    pub(super) folder: [u8; 4096],
    pub(super) first: List<Mapping, RANGES_MAX>,
    pub(super) now: List<Mapping, RANGES_MAX>,
    /// The mappings that go.
    pub(super) added: List<Mapping, RANGES_MAX>,
    /// Pieces of mappings that were made writable.
    pub(super) unlocked: List<Mapping, RANGES_MAX>,
    /// Memory of this process alone, and the part that children get as zeros.
    pub(super) own: Ranges,
    pub(super) wiped: Ranges,
    /// The pages with contents of their own, and those where nothing may be.
    pub(super) first_own: Ranges,
    pub(super) guards: Ranges,
    /// The pages of now: with contents of their own, not in memory, not written.
    pub(super) used: Ranges,
    pub(super) absent: Ranges,
    pub(super) clean: Ranges,
    pub(super) spare: Ranges,
    /// The pages that are put back, that are dropped, and whose marks go.
    pub(super) put: Ranges,
    pub(super) drop: Ranges,
    pub(super) unguard: Ranges,
    /// The list of mappings when nothing was to be done, and the present one.
    pub(super) known_bytes: usize,
    pub(super) known: [u8; LIST_BYTES],
    pub(super) list: [u8; LIST_BYTES],
    pub(super) text: [u8; COMPARED_BYTES],
    pub(super) other_text: [u8; COMPARED_BYTES],
    /// Pages of the first state.
    pub(super) kept: Kept,
}

/// The way to the book of this process.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(super) struct Handle(*mut Book);

impl Book {
    /// Maps a book.
    pub(super) fn map() -> Result<Handle> {
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: maps fresh memory anywhere.
        let memory = unsafe { libc::mmap(ptr::null_mut(), bytes(), prot, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return Err(Error::os("mapping memory", std::io::Error::last_os_error()));
        }
        Ok(Handle(memory.cast()))
    }

    /// The book that was mapped at this address, if it is one.
    pub(super) fn at(address: u64) -> Option<Handle> {
        let address = usize::try_from(address).ok().filter(|address| *address != 0)?;
        Some(Handle(ptr::with_exposed_provenance_mut(address)))
    }

    /// The parts of a range that are not of the book.
    pub(super) fn without_book(&self, range: Range) -> impl Iterator<Item = Range> + use<> {
        let start = ptr::from_ref(self).addr() as u64;
        let (before, behind) = (range.end.min(start), range.start.max(start + bytes() as u64));
        let parts = [(range.start, before), (behind, range.end)];
        parts
            .into_iter()
            .filter(|(start, end)| start < end)
            .map(|(start, end)| Range { start, end })
    }

    pub(super) fn refused(&mut self, refusal: Refusal) -> u64 {
        self.refusal = refusal;
        REFUSED
    }
}

impl Handle {
    pub(super) fn address(self) -> u64 {
        self.0.expose_provenance() as u64
    }

    /// The top of the stack, a multiple of 16.
    pub(super) fn stack_top(self) -> u64 {
        self.address() + bytes() as u64
    }

    /// Works on the book.
    pub(super) fn edit<R>(self, edit: impl FnOnce(&mut Book) -> R) -> R {
        // SAFETY: the memory was mapped for a book, of which zeros are a valid one. Only the main thread uses it, and no `edit` is inside
        // of another.
        edit(unsafe { &mut *self.0 })
    }
}

/// The bytes of a book and its stack.
fn bytes() -> usize {
    (size_of::<Book>() + STACK_BYTES).next_multiple_of(4096)
}
