//! Words in memory that both processes map, and the descriptors that come with a message.
//!
//! Invariant: the only file of the crate with `unsafe` but for `shaq`; the only references to shared bytes
//! are to atomic words.
#![expect(
    unsafe_code,
    reason = "maps shared memory, sleeps on it, adopts descriptors received from a socket"
)]

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::time::TimeSpec;

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
        let file = sealed_file(SIZE_BYTES)?;
        Ok((SharedWords::attach(file.as_fd())?, file))
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
        // SAFETY: the mapping is aligned, SIZE_BYTES long and writable, belongs to `self`, cannot shrink, and both
        // processes use the word as an atomic.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Sleeps in the kernel while the low halves of word `index` and of `expected` are equal, at most `timeout`; may return
    /// earlier.
    #[expect(clippy::cast_possible_truncation, reason = "the kernel compares the low half")]
    pub(crate) fn sleep(&self, index: usize, expected: u64, timeout: Duration) {
        let low_half = self.word(index).as_ptr().cast_const().cast::<u32>();
        let limit = TimeSpec::from_duration(timeout);
        // SAFETY: the kernel reads the word, which belongs to `self`, and a timespec on this stack.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                low_half,
                libc::FUTEX_WAIT,
                expected as u32,
                &raw const *limit.as_ref(),
            );
        }
    }

    /// Wakes the other side if it sleeps on word `index`.
    pub(crate) fn wake(&self, index: usize) {
        let low_half = self.word(index).as_ptr().cast::<u32>();
        // SAFETY: waking only uses the address of the word.
        unsafe {
            libc::syscall(libc::SYS_futex, low_half, libc::FUTEX_WAKE, 1);
        }
    }
}

/// Bytes in a sealed memfd mapped by both processes, reached by copying alone, and one word on a line of its own.
///
/// The two processes take turns with the bytes; the word says whose turn it is.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    map: MmapRaw,
    bytes: usize,
}

impl SharedBytes {
    /// This many bytes, all zero, and the descriptor by which the other process attaches to them.
    pub(crate) fn create(bytes: usize) -> Result<(SharedBytes, OwnedFd)> {
        let file = sealed_file(STRIDE_BYTES + bytes)?;
        Ok((SharedBytes::attach(file.as_fd())?, file))
    }

    /// Maps the bytes behind `memfd`, which [`SharedBytes::create`] of the other process made.
    pub(crate) fn attach(memfd: BorrowedFd<'_>) -> Result<SharedBytes> {
        let size_bytes =
            usize::try_from(File::from(memfd.try_clone_to_owned()?).metadata()?.len())?;
        let bytes = size_bytes.checked_sub(STRIDE_BYTES).ok_or("the memfd has no bytes")?;
        let map = MmapOptions::new().len(size_bytes).populate().map_raw(&memfd)?;
        Ok(SharedBytes { map, bytes })
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// The word.
    #[inline]
    pub(crate) fn word(&self) -> &AtomicU64 {
        // SAFETY: as in `SharedWords::word`; the bytes begin behind the word's line.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast()) }
    }

    /// Copies all bytes in.
    ///
    /// # Panics
    /// When `from` has another length.
    #[inline]
    pub(crate) fn write(&mut self, from: &[u8]) {
        assert_eq!(from.len(), self.bytes, "bytes to copy in");
        let to = self.map.as_mut_ptr().wrapping_add(STRIDE_BYTES);
        // SAFETY: the mapping has this many bytes there, no reference to them exists, and the other process does not access
        // them during this side's turn.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) }
    }

    /// Copies all bytes out.
    ///
    /// # Panics
    /// When `to` has another length.
    #[inline]
    pub(crate) fn read(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.bytes, "bytes to copy out");
        let from = self.map.as_ptr().wrapping_add(STRIDE_BYTES);
        // SAFETY: as in `write`.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) }
    }
}

/// A memfd of this size. Neither side can shrink it under the other one's mapping.
fn sealed_file(size_bytes: usize) -> Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let file = File::from(memfd_create("farcall-bench", flags)?);
    file.set_len(size_bytes as u64)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW))?;
    Ok(file.into())
}

/// Takes ownership of a descriptor that the kernel has just put into this process.
///
/// Each descriptor of a received message must be passed exactly once; [`crate::processes::order`] does.
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
