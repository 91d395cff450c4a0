//! The heap of a large link.
//!
//! A link of 200 MiB of archives takes 60,000 pages, each with a fault. Each of its threads has a heap that grows by a few
//! pages for a system call. Huge pages, where the system gives them, and one heap for all threads cost half of that.
#![allow(unsafe_code, reason = "sets options of the C library's heap")]

use std::sync::Once;

use nix::libc::{self, M_ARENA_MAX, M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, MADV_HUGEPAGE};
use nix::unistd::{getpid, gettid};

/// The files of a large link have more bytes.
const LARGE_BYTES: u64 = 64 << 20;

/// The memory that a large link takes.
const HEAP_BYTES: u64 = 320 << 20;

/// Makes the heap ready for a large link, if its files have this number of bytes so far. It does so once, and on the main thread, whose
/// heap the link uses most.
pub(crate) fn expect_if_large(bytes_of_files: u64) {
    static EXPECTED: Once = Once::new();
    if bytes_of_files >= LARGE_BYTES && gettid() == getpid() {
        EXPECTED.call_once(|| expect(HEAP_BYTES));
    }
}

/// Makes the heap ready for this number of bytes. Where the system refuses, the heap is as before.
fn expect(bytes: u64) {
    set(M_ARENA_MAX, 1);
    set(M_MMAP_THRESHOLD, BLOCK_BYTES_MAX);
    set(M_TRIM_THRESHOLD, libc::c_int::MAX);
    let block_bytes = BLOCK_BYTES_MAX as usize - PAGE_BYTES;
    let mut blocks = Vec::new();
    for _ in 0..bytes / block_bytes as u64 {
        // SAFETY: it may be called with any size.
        let block = unsafe { libc::malloc(block_bytes) };
        if block.is_null() {
            break;
        }
        let start = block.map_addr(|at| at.next_multiple_of(PAGE_BYTES));
        // SAFETY: the range lies in memory that was just allocated, and the advice changes no byte of it.
        unsafe { libc::madvise(start, block_bytes - PAGE_BYTES, MADV_HUGEPAGE) };
        blocks.push(block);
    }
    for block in blocks {
        // SAFETY: malloc has returned it, and nothing uses it. The heap keeps its memory, because of the threshold above.
        unsafe { libc::free(block) };
    }
}

/// The largest threshold that the C library accepts: larger blocks are mapped one by one.
const BLOCK_BYTES_MAX: libc::c_int = 32 << 20;

const PAGE_BYTES: usize = 4096;

fn set(option: libc::c_int, value: libc::c_int) {
    // SAFETY: it changes a number of the C library, which refuses wrong ones.
    unsafe { libc::mallopt(option, value) };
}
