//! Words in memory that both processes map, and the descriptors that come with a message.
//!
//! Invariant: the only file of the crate with `unsafe`; nobody gets a reference to shared bytes
//! other than to an atomic word.
#![expect(unsafe_code, reason = "maps shared memory and adopts descriptors received from a socket")]

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU64;

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::Result;

/// Distance of two words: two cache lines, so that the prefetcher of line pairs couples nothing.
const STRIDE_BYTES: usize = 128;
const WORDS: usize = 2;
const SIZE_BYTES: usize = STRIDE_BYTES * WORDS;

/// A few 64-bit words, each on a cache line of its own, in a sealed memfd mapped by both processes.
#[derive(Debug)]
pub(crate) struct SharedWords {
    map: MmapRaw,
}

impl SharedWords {
    /// New words, all zero, and the descriptor by which the other process attaches to them.
    pub(crate) fn create() -> Result<(SharedWords, OwnedFd)> {
        let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
        let file = File::from(memfd_create("farcall-bench", flags)?);
        file.set_len(SIZE_BYTES as u64)?;
        // Neither side can shrink the file under the other one's mapping.
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
        Ok((SharedWords::attach(file.as_fd())?, file.into()))
    }

    /// Maps the words behind `memfd`, which [`SharedWords::create`] of the other process made.
    pub(crate) fn attach(memfd: BorrowedFd<'_>) -> Result<SharedWords> {
        let map = MmapOptions::new().len(SIZE_BYTES).populate().map_raw(&memfd)?;
        Ok(SharedWords { map })
    }

    /// Word `index`.
    ///
    /// # Panics
    /// When `index` is not below [`WORDS`].
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < WORDS, "word {index} of {WORDS}");
        let word = self.map.as_mut_ptr().wrapping_add(index * STRIDE_BYTES).cast::<u64>();
        // SAFETY: the mapping is page-aligned, SIZE_BYTES long and read-write, lives as long as
        // `self`, its file is sealed against shrinking, and both processes access the word only as
        // an atomic.
        unsafe { AtomicU64::from_ptr(word) }
    }
}

/// Takes ownership of a descriptor that the kernel has just put into this process.
///
/// Each descriptor of a received message must be passed exactly once; [`crate::order`] does.
pub(crate) fn adopt(received: RawFd) -> OwnedFd {
    // SAFETY: the kernel installed this descriptor for the message just received and nothing else
    // in this process knows its number.
    unsafe { OwnedFd::from_raw_fd(received) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn two_mappings_show_the_same_words_on_different_lines() {
        let (ours, memfd) = SharedWords::create().unwrap();
        let theirs = SharedWords::attach(memfd.as_fd()).unwrap();
        ours.word(0).store(7, Ordering::Relaxed);
        ours.word(1).store(8, Ordering::Relaxed);
        assert_eq!(theirs.word(0).load(Ordering::Relaxed), 7);
        assert_eq!(theirs.word(1).load(Ordering::Relaxed), 8);
        let distance = ours.word(1).as_ptr().addr() - ours.word(0).as_ptr().addr();
        assert_eq!(distance, STRIDE_BYTES);
        assert_eq!(ours.word(0).as_ptr().addr() % 64, 0);
    }

    #[test]
    fn the_file_cannot_shrink() {
        let (_words, memfd) = SharedWords::create().unwrap();
        assert!(File::from(memfd).set_len(0).is_err());
    }
}
