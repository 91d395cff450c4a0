//! A region: memory of the host's that executors map as well, so that data is used in place.
//!
//! Invariants: the size is sealed before the memory is mapped, and the seals are sealed. So no process can make an access fault,
//! nor change what executors may do. A reference to plain data is given out only where no other process can write, or where
//! the caller vouches for that.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::slice;

use nix::fcntl::SealFlag;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::{Error, Result};
use crate::limits::{PAGE_BYTES, REGION_BYTES_MAX};
use crate::origin::{Origin, forked};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::sys::io::identified::Identified;
use crate::sys::memory::map::Reservation;
use crate::sys::memory::memfd;
use crate::sys::memory::pages;
use crate::{AddrRange, ExecutorAddr, Prot};

const WORD: usize = size_of::<AtomicU64>();
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// The rights of executors in a region. The kernel enforces it.
///
/// # Examples
///
/// ```
/// use farcall::controller::region::{Access, Region};
///
/// let mut table = Region::new(4096, Access::ReadOnly)?;
/// assert_eq!(table.access(), Access::ReadOnly);
/// table.as_mut_slice::<f64>()?.fill(0.5); // the host may write
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Executors read and write, as the host does.
    ReadWrite,
    /// The host writes and executors read. A store of linked code ends its executor by SIGSEGV. The memory file is sealed
    /// (`F_SEAL_FUTURE_WRITE`), so no descriptor of it can be mapped or written, however it was opened.
    ReadOnly,
}

/// Memory that the host and linked code use in place: no byte is copied between them.
///
/// Executors map a region with [`Process::attach`](crate::controller::Process::attach), several at once if need be. It
/// outlives them: when one dies, the host's view stays, with all that was stored. It has the same [address](Region::address) in
/// the host and in every executor, so addresses stored in it are right everywhere. Forked children of the host and of linked code
/// go on to share it.
///
/// All bytes are zero at first. Memory is taken page by page, when a page is touched; an untouched page costs nothing.
///
/// | to use the bytes | by | while linked code writes |
/// |---|---|---|
/// | in place, as atomic words | [`words`](Region::words) | yes |
/// | by a copy | [`write_from`](Region::write_from), [`read_into`](Region::read_into) | yes, torn at words |
/// | in place, as plain data | [`as_mut_slice`](Region::as_mut_slice) | it cannot |
/// | the same, also atomics of any size | `unsafe` [`slice`](Region::slice), [`slice_mut`](Region::slice_mut) | the caller vouches |
///
/// Ordering: what the host stores before a call is visible to the call, and what a call stores is visible when it has returned.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use std::sync::atomic::Ordering::Relaxed;
///
/// use farcall::controller::region::{Access, Region};
/// use farcall::{ExecutorAddr, PerProt, Prot};
///
/// let region = Region::new(64 << 20, Access::ReadWrite)?;
/// region.words()[0].store(20, Relaxed);
/// let attached = process.attach(&region)?;
/// // void bump(int64_t *word): add qword ptr [rdi], 1; ret
/// # let mut memory = process.allocate(PerProt { code: 5, ..PerProt::default() })?;
/// # memory.write(Prot::Code, &[0x48, 0x83, 0x07, 0x01, 0xc3]);
/// # let code = memory.finalize();
/// let bump = process.function::<extern "C" fn(ExecutorAddr)>(code.address());
/// bump.call((attached.address(),))?;
/// assert_eq!(region.words()[0].load(Relaxed), 21);
/// # process.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct Region {
    file: Identified,
    map: Reservation,
    bytes: usize,
    access: Access,
    /// Another process may write it: it was attached, lent or adopted, and is not sealed against writers.
    may_be_written: AtomicBool,
    origin: Origin,
}

impl Region {
    /// Makes a region of `bytes` bytes, 1 to [`REGION_BYTES_MAX`]; no memory is taken yet.
    ///
    /// # Errors
    ///
    /// When the size is out of bounds, or over a limit of this process, which the message names (`ulimit -f`, `ulimit -v`).
    pub fn new(bytes: u64, access: Access) -> Result<Self> {
        check_size(bytes)?;
        Self::map(memfd::create(c"farcall-region", bytes, false)?, bytes, access, false)
    }

    /// Makes a region of a memory file that the host has; its bytes stay. The size of the file is sealed, if it was not, and then
    /// the seals are.
    ///
    /// Processes that mapped the file for writing before keep that right, also if `access` is [`Access::ReadOnly`].
    ///
    /// # Errors
    ///
    /// When it is no memory file (`memfd_create` with `MFD_ALLOW_SEALING`), cannot be sealed or written, or its size is out of bounds.
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall::controller::region::{Access, Region};
    ///
    /// let file = tempfile::tempfile().expect("a file");
    /// let error = Region::adopt(file.into(), Access::ReadWrite).expect_err("it can shrink");
    /// assert!(error.to_string().contains("memfd_create"), "{error}");
    /// ```
    pub fn adopt(file: OwnedFd, access: Access) -> Result<Self> {
        let adopted = || {
            let bytes = memfd::fix_size(&file)?;
            check_size(bytes)?;
            Ok(bytes)
        };
        let bytes = adopted().map_err(|error: Error| error.during("adopting a file"))?;
        Self::map(file, bytes, access, true)
    }

    fn map(file: OwnedFd, bytes: u64, access: Access, may_be_written: bool) -> Result<Self> {
        let size = usize::try_from(bytes)
            .map_err(|_| Error::invalid(format!("{bytes} bytes on this machine")))?;
        let map = Reservation::apart(bytes)?;
        map.map(0, bytes, Prot::Data, &file)?;
        let seals = match access {
            Access::ReadWrite => SealFlag::F_SEAL_SEAL,
            Access::ReadOnly => SealFlag::F_SEAL_FUTURE_WRITE | SealFlag::F_SEAL_SEAL,
        };
        if !memfd::has_seals(&file, seals)? {
            memfd::seal(&file, seals)?;
        }
        let (may_be_written, origin) = (AtomicBool::new(may_be_written), Origin::new());
        let file = Identified::new(file);
        Ok(Self { file, map, bytes: size, access, may_be_written, origin })
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The rights of executors in it.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// The address of the first byte in this process, which is also that in executors.
    #[must_use]
    pub fn address(&self) -> ExecutorAddr {
        self.map.range().start
    }

    /// The first byte, for code that is outside of what references express. The memory stays mapped while the region lives.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.map.as_ptr().cast()
    }

    /// All whole words of 64 bits, in place. Any thread and linked code may use them at the same time.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        &self.all_words()[..self.bytes / WORD]
    }

    /// The words of which any byte belongs to the region. The memory goes on to the end of the last page.
    fn all_words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is whole pages, readable and writable while `self` lives; all safe access by `&self` is by
        // such words.
        unsafe { slice::from_raw_parts(self.as_ptr().cast(), self.bytes.div_ceil(WORD)) }
    }

    /// Copies the bytes from `offset` on into `out`. A word that is written meanwhile is copied as it was or as it will be.
    ///
    /// # Panics
    ///
    /// When they reach past the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall::controller::region::{Access, Region};
    ///
    /// let region = Region::new(64, Access::ReadWrite)?;
    /// region.write_from(8, &[1.5_f32, 2.5]);
    /// let mut read = [0.0_f32; 3];
    /// region.read_into(8, &mut read);
    /// assert_eq!(read, [1.5, 2.5, 0.0]);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn read_into<T: FromBytes + IntoBytes>(&self, offset: usize, out: &mut [T]) {
        let out = out.as_mut_bytes();
        self.check(offset, out.len());
        let in_word = offset % WORD;
        let mut words = self.all_words()[offset / WORD..].iter();
        let mut next = || words.next().map_or(0, |word| word.load(Ordering::Relaxed)).to_ne_bytes();
        let head = if in_word == 0 { 0 } else { (WORD - in_word).min(out.len()) };
        let (head, rest) = out.split_at_mut(head);
        if !head.is_empty() {
            head.copy_from_slice(&next()[in_word..][..head.len()]);
        }
        let (whole, tail) = rest.as_chunks_mut::<WORD>();
        whole.iter_mut().for_each(|bytes| *bytes = next());
        if !tail.is_empty() {
            tail.copy_from_slice(&next()[..tail.len()]);
        }
    }

    /// Copies values into the region, from `offset` on. The next call of the executor sees them.
    ///
    /// # Panics
    ///
    /// When they reach past the end.
    pub fn write_from<T: IntoBytes + Immutable>(&self, offset: usize, values: &[T]) {
        let bytes = values.as_bytes();
        self.check(offset, bytes.len());
        let in_word = offset % WORD;
        let mut words = self.all_words()[offset / WORD..].iter();
        let head = if in_word == 0 { 0 } else { (WORD - in_word).min(bytes.len()) };
        let (head, rest) = bytes.split_at(head);
        if let (false, Some(word)) = (head.is_empty(), words.as_slice().first()) {
            words.next();
            store_part(word, in_word, head);
        }
        let (whole, tail) = rest.as_chunks::<WORD>();
        for (bytes, word) in whole.iter().zip(words.by_ref()) {
            word.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let (false, Some(word)) = (tail.is_empty(), words.next()) {
            store_part(word, 0, tail);
        }
    }

    /// All of the region as plain data, in place; bytes that do not fill a `T` are left out.
    ///
    /// # Errors
    ///
    /// When another process may write it: it was attached for writing, lent as a descriptor, or adopted
    /// ([`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument)). A region that is [`Access::ReadOnly`] for executors can be
    /// lent and attached.
    ///
    /// # Panics
    ///
    /// When a `T` must be aligned to more than a page.
    pub fn as_mut_slice<T: FromBytes + IntoBytes>(&mut self) -> Result<&mut [T]> {
        if *self.may_be_written.get_mut() {
            return Err(Error::invalid(
                "another process may write the region, so it cannot be borrowed as plain data: fill it before it is attached, make it \
                 Access::ReadOnly, or use words, read_into, or the unsafe slice_mut",
            ));
        }
        let count = self.bytes / size_of::<T>().max(1);
        let start = self.place::<T>(0, count);
        // SAFETY: the values lie in the mapping, aligned; any bytes are a `T` and any `T` is bytes. `&mut self` excludes access
        // by this process, and the check above access for writing by another one.
        Ok(unsafe { slice::from_raw_parts_mut(start, count) })
    }

    /// `count` values from `offset` on, in place: plain data, or atomics of another size than [`words`](Region::words) have.
    ///
    /// # Panics
    ///
    /// When they reach past the end, or `offset` is not aligned for a `T`.
    ///
    /// # Safety
    ///
    /// While the slice lives, no thread of this process and no linked code may write the bytes. Atomics may be written, by atomic
    /// stores of their size.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use farcall::controller::region::{Access, Region};
    ///
    /// let region = Region::new(64, Access::ReadWrite)?;
    /// // SAFETY: all code that uses these bytes uses them as atomics of 32 bits.
    /// let flags = unsafe { region.slice::<AtomicU32>(0, 2) };
    /// flags[0].store(1, Ordering::Release);
    /// assert_eq!(flags[1].load(Ordering::Acquire), 0);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub unsafe fn slice<T: FromBytes>(&self, offset: usize, count: usize) -> &[T] {
        let start = self.place::<T>(offset, count);
        // SAFETY: the values lie in the mapping, aligned; any bytes are a `T`; the caller vouches for writers.
        unsafe { slice::from_raw_parts(start, count) }
    }

    /// As [`slice`](Region::slice), for writing.
    ///
    /// # Panics
    ///
    /// When they reach past the end, or `offset` is not aligned for a `T`.
    ///
    /// # Safety
    ///
    /// While the slice lives, no other code of this process may use the bytes, and no linked code may write them.
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall::controller::region::{Access, Region};
    ///
    /// let region = Region::new(64, Access::ReadWrite)?;
    /// // SAFETY: nothing else uses the region.
    /// let rows = unsafe { region.slice_mut::<f64>(0, 8) };
    /// rows.fill(0.5);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    #[expect(clippy::mut_from_ref, reason = "the caller vouches that the bytes have one user")]
    pub unsafe fn slice_mut<T: FromBytes + IntoBytes>(
        &self,
        offset: usize,
        count: usize,
    ) -> &mut [T] {
        let start = self.place::<T>(offset, count);
        // SAFETY: the values lie in the mapping, aligned; any bytes are a `T`; the caller vouches for other users.
        unsafe { slice::from_raw_parts_mut(start, count) }
    }

    /// Takes the memory of `bytes` bytes from `offset` on now. Without this a page is taken when it is first touched. Then no error
    /// is possible: if the system has no memory left, it kills a process.
    ///
    /// # Errors
    ///
    /// When memory runs out; the message names what limits it.
    ///
    /// # Panics
    ///
    /// When they reach past the end.
    pub fn populate(&self, offset: usize, bytes: usize) -> Result<()> {
        self.check(offset, bytes);
        if bytes == 0 {
            return Ok(());
        }
        match self.file.file() {
            Ok(file) => memfd::back(file, offset as u64, bytes as u64),
            // Other code has closed the descriptor. The mapping is there.
            Err(_) => {
                let start = self.address().get() + offset as u64;
                let first = start / PAGE_BYTES * PAGE_BYTES;
                pages::populate(first, start + bytes as u64 - first)
            }
        }
    }

    /// Takes memory in pages of 2 MiB for the whole ones of these among `bytes` bytes from `offset` on. The bytes stay. Code that
    /// reads or writes all of a large array then waits for fewer address translations. It costs some milliseconds for each page.
    ///
    /// # Errors
    ///
    /// When the kernel has no memory in such pages, or is older than Linux 6.1. Some pages may be large then; no byte has changed.
    ///
    /// # Panics
    ///
    /// When they reach past the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall::controller::region::{Access, Region};
    ///
    /// let region = Region::new(8 << 20, Access::ReadWrite)?;
    /// if let Err(error) = region.use_large_pages(0, 8 << 20) {
    ///     println!("small pages do as well: {error}");
    /// }
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn use_large_pages(&self, offset: usize, bytes: usize) -> Result<()> {
        self.check(offset, bytes);
        let first = offset.next_multiple_of(LARGE_PAGE_BYTES);
        let end = (offset + bytes) / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
        if first >= end {
            return Ok(());
        }
        let start = self.address().get();
        for at in (first..end).step_by(LARGE_PAGE_BYTES) {
            // The kernel refuses large pages of which it has mapped nothing.
            pages::populate(start + at as u64, PAGE_BYTES)?;
        }
        let [start, end] = [first, end].map(|at| ExecutorAddr::new(start + at as u64));
        self.map.collapse(AddrRange { start, end })
    }

    /// Zeroes `bytes` bytes from `offset` on, and gives the memory of the whole pages among them back to the system.
    ///
    /// # Errors
    ///
    /// When the region is [`Access::ReadOnly`]: its seal keeps the memory until the region is dropped. In a forked child of the process
    /// that made the region, which goes on to use it.
    ///
    /// # Panics
    ///
    /// When they reach past the end.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::Ordering::Relaxed;
    ///
    /// use farcall::controller::region::{Access, Region};
    ///
    /// let region = Region::new(1 << 20, Access::ReadWrite)?;
    /// region.words()[0].store(7, Relaxed); // takes a page
    /// region.discard(0, 1 << 20)?;
    /// assert_eq!(region.words()[0].load(Relaxed), 0);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn discard(&self, offset: usize, bytes: usize) -> Result<()> {
        self.check(offset, bytes);
        if !self.origin.is_own() {
            return Err(forked());
        }
        if self.access == Access::ReadOnly {
            return Err(Error::invalid(
                "a region that executors only read keeps its memory until it is dropped",
            ));
        }
        let page = usize::try_from(PAGE_BYTES).unwrap_or(usize::MAX);
        let (first, end) = (offset.next_multiple_of(page), (offset + bytes) / page * page);
        if first >= end {
            self.zero(offset, bytes);
            return Ok(());
        }
        self.zero(offset, first - offset);
        self.zero(end, offset + bytes - end);
        let start = self.address();
        let pages = AddrRange {
            start: ExecutorAddr::new(start.get() + first as u64),
            end: ExecutorAddr::new(start.get() + end as u64),
        };
        // By the mapping, not by the file: the number of its descriptor may mean a file of the host's by now.
        self.map.remove(pages)
    }

    /// The memory file, to send it to an executor.
    ///
    /// # Errors
    ///
    /// When other code of this process has closed its descriptor.
    pub(crate) fn file(&self) -> Result<BorrowedFd<'_>> {
        if self.access == Access::ReadWrite {
            self.may_be_written.store(true, Ordering::Relaxed);
        }
        self.file.file()
    }

    /// Zeroes bytes that do not fill a page.
    fn zero(&self, offset: usize, bytes: usize) {
        const ZEROES: [u8; 4096] = [0; 4096];
        let pieces = (0..bytes).step_by(ZEROES.len());
        for from in pieces {
            self.write_from(offset + from, &ZEROES[..ZEROES.len().min(bytes - from)]);
        }
    }

    /// The process that made the region.
    #[inline]
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Panics unless `bytes` bytes at `offset` lie inside.
    #[inline]
    fn check(&self, offset: usize, bytes: usize) {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "{bytes} bytes at {offset} of a region of {} bytes", self.bytes);
    }

    /// The first of `count` values at `offset`. Panics unless they lie inside, aligned.
    fn place<T>(&self, offset: usize, count: usize) -> *mut T {
        self.check(offset, count.saturating_mul(size_of::<T>()));
        let start = self.as_ptr().wrapping_add(offset).cast::<T>();
        assert!(
            start.is_aligned(),
            "offset {offset}: values must be aligned to {}",
            align_of::<T>()
        );
        start
    }
}

impl AsRef<Region> for Region {
    fn as_ref(&self) -> &Region {
        self
    }
}

/// Another process can get at the descriptor now, so [`Region::as_mut_slice`] is refused unless executors only read the region.
impl AsFd for Region {
    fn as_fd(&self) -> BorrowedFd<'_> {
        if self.access == Access::ReadWrite {
            self.may_be_written.store(true, Ordering::Relaxed);
        }
        self.file.unchecked()
    }
}

/// Stores `bytes` at `at` in a word, and leaves its other bytes as they are, whatever code writes them meanwhile.
fn store_part(word: &AtomicU64, at: usize, bytes: &[u8]) {
    let old = word.load(Ordering::Relaxed);
    let mut new = old.to_ne_bytes();
    new[at..][..bytes.len()].copy_from_slice(bytes);
    // An exchange in a loop could wait for ever for an executor that writes all the time.
    word.fetch_xor(old ^ u64::from_ne_bytes(new), Ordering::Relaxed);
}

fn check_size(bytes: u64) -> Result<()> {
    if (1..=REGION_BYTES_MAX).contains(&bytes) {
        return Ok(());
    }
    Err(Error::invalid(format!("a region of {bytes} bytes: it has 1 to {REGION_BYTES_MAX}")))
}

#[cfg(test)]
mod tests;
