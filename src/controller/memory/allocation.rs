//! Allocations in the executor: *in flight* while they are filled, *finalized* when code may use them, then deallocated.
//!
//! Without dealloc actions none of these steps sends a message or makes a system call. The stores go to the controller's mapping
//! of the slab; the next message tells the executor that there is new code.
//!
//! Invariant: an allocation in flight frees its memory when dropped; a finalized one is an address that must be deallocated.

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

use super::executor_memory::ExecutorMemory;
use super::native_memory::AllocActionPair;
use super::pages::Pages;
use super::slab::Slab;
use crate::call::contract::{Action, MemoryInitialize, Placement, Region, prot_number};
use crate::error::Result;
use crate::limits::PAGE_BYTES;
use crate::link::SymbolTable;
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// Memory in the executor that no code uses yet. Its addresses are known, so code can be made for them. Dropping it frees the memory.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::{PerProt, Prot};
/// let mut memory = process.allocate(PerProt { data: 100, ..PerProt::default() })?;
/// assert_eq!(memory.range(Prot::Data).bytes(), 4096); // whole pages
/// memory.write(Prot::Data, b"hello");
/// let memory = memory.finalize();
/// process.deallocate([memory])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct InFlightAlloc<'a> {
    memory: &'a ExecutorMemory,
    slab: &'a Slab,
    pages: Pages,
}

/// Memory in the executor that code may use. [`Process::deallocate`](crate::controller::Process::deallocate) frees it.
/// Dropping it is a mistake: debug builds panic, others keep the memory until the session ends.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::{PerProt, Prot};
/// // lea rax, [rdi + rsi]; ret
/// let mut memory = process.allocate(PerProt { code: 5, ..PerProt::default() })?;
/// memory.write(Prot::Code, &[0x48, 0x8d, 0x04, 0x37, 0xc3]);
/// let memory = memory.finalize();
/// let add = process.function::<extern "C" fn(i64, i64) -> i64>(memory.address());
/// assert_eq!(add.call((3, 4))?, 7);
/// process.deallocate([memory])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the memory stays allocated until Process::deallocate takes it"]
pub struct FinalizedAlloc(ExecutorAddr);

impl<'a> InFlightAlloc<'a> {
    #[inline]
    pub(crate) fn new(
        memory: &'a ExecutorMemory,
        placement: Placement,
        bytes: PerProt<u64>,
    ) -> Result<Self> {
        Self::with_zero_fill(memory, placement, bytes, bytes.data)
    }

    /// As [`InFlightAlloc::new`]. Behind the first `stored` bytes the data is zero fill, of which the caller stores nothing.
    #[inline]
    pub(crate) fn with_zero_fill(
        memory: &'a ExecutorMemory,
        placement: Placement,
        bytes: PerProt<u64>,
        stored: u64,
    ) -> Result<Self> {
        let mut pages = Pages::default();
        let slab = memory.allocate(placement, bytes, stored, &mut pages)?;
        Ok(Self { memory, slab, pages })
    }

    /// Releases the borrow of the session. The owner of the pages must [resume](InFlightAlloc::resume) with the index of the slab,
    /// or the pages leak.
    pub(crate) fn suspend(self) -> (usize, Pages) {
        let kept = ManuallyDrop::new(self);
        (kept.slab.index(), kept.pages)
    }

    /// An allocation in flight of suspended pages of this session.
    pub(crate) fn resume(memory: &'a ExecutorMemory, slab: usize, pages: Pages) -> Self {
        Self { memory, slab: memory.slab(slab), pages }
    }

    /// The executor's addresses of the part with this protection: whole pages that hold at least the requested bytes. Empty when
    /// none were requested.
    #[must_use]
    #[inline]
    pub fn range(&self, prot: Prot) -> AddrRange {
        self.slab.part(&self.pages, prot)
    }

    /// Fills the part with this protection: `content` first, then zeros to the end of the part. A part that is never filled holds
    /// zeros or the bytes of an earlier allocation.
    ///
    /// # Panics
    ///
    /// When the content is longer than the part. In a forked child: the memory is that of the parent's executor.
    #[inline]
    pub fn write(&mut self, prot: Prot, content: &[u8]) {
        self.slab.write(&self.pages, prot, content);
    }

    /// Where this process writes the part with this protection: as many bytes as its [`range`](InFlightAlloc::range) has, zeros or
    /// the bytes of an earlier allocation. Null when none were requested.
    ///
    /// The pages stay mapped as long as the session. What is written after the memory is freed goes to its next owner.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// use farcall::{PerProt, Prot};
    /// let memory = process.allocate(PerProt { data: 8, ..PerProt::default() })?;
    /// // SAFETY: the part is a page, and nothing else uses it.
    /// unsafe { memory.as_ptr(Prot::Data).cast::<u64>().write(7) };
    /// let memory = memory.finalize();
    /// assert_eq!(process.memory_access().read::<u64>(&[memory.address()])?, [7]);
    /// process.deallocate([memory])?;
    /// # Ok::<(), farcall::Error>(())
    /// ```
    #[must_use]
    pub fn as_ptr(&self, prot: Prot) -> *mut u8 {
        let (stripe, part) = self.slab.pages_of(&self.pages, prot);
        stripe.start(part)
    }

    /// How many of the first bytes of the part with this protection may hold the bytes of an earlier allocation. Behind them, the
    /// part is zero.
    #[must_use]
    pub fn used_bytes(&self, prot: Prot) -> u64 {
        let (_, part) = self.slab.pages_of(&self.pages, prot);
        part.used() * PAGE_BYTES
    }

    /// Stores a piece of the part with this protection. Several threads may store different pieces at once, if no two share a
    /// word.
    ///
    /// # Panics
    ///
    /// When the piece is not inside the part.
    pub(crate) fn store(&self, prot: Prot, offset: usize, piece: &[u8]) {
        let (stripe, part) = self.slab.pages_of(&self.pages, prot);
        stripe.store(part, offset, piece);
    }

    /// Fills the part with this protection with zeros, except for `kept`.
    pub(crate) fn clear_around(&self, prot: Prot, kept: Range<usize>) {
        let (stripe, part) = self.slab.pages_of(&self.pages, prot);
        stripe.clear_around(part, kept);
    }

    /// The first `bytes` bytes of the part with this protection as they are now.
    pub(crate) fn load(&self, prot: Prot, bytes: usize) -> Vec<u8> {
        let (stripe, part) = self.slab.pages_of(&self.pages, prot);
        stripe.load(part, bytes)
    }

    /// Names functions in this memory: messages about crashes say them, with the name of an object. The names go with the memory.
    /// A second list takes the place of the first one. Sends no message.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
    /// use farcall::{PerProt, Prot};
    /// let mut memory = process.allocate(PerProt { code: 2, ..PerProt::default() })?;
    /// memory.write(Prot::Code, &[0x0f, 0x0b]); // ud2
    /// memory.name_functions("made by hand", [(memory.range(Prot::Code), "trap")]);
    /// let memory = memory.finalize();
    /// let trap = process.function::<extern "C" fn()>(memory.release());
    /// let died = trap.call(()).expect_err("it is no instruction");
    /// assert!(died.to_string().contains("in trap+0x0 (made by hand)"));
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn name_functions<'n>(
        &self,
        object: &str,
        functions: impl IntoIterator<Item = (AddrRange, &'n str)>,
    ) {
        let functions = Arc::new(SymbolTable::of_functions(object, functions));
        self.memory.name_functions(self.slab.base(&self.pages), functions);
    }

    /// Makes the memory usable: the next call may run its code. Sends no message. For processors whose instruction caches do not
    /// see stores it posts one ahead of the next call.
    #[inline]
    pub fn finalize(self) -> FinalizedAlloc {
        self.publish_code();
        self.finalize_published()
    }

    fn publish_code(&self) {
        let code = self.range(Prot::Code);
        if code.bytes() > 0 {
            self.memory.publish_code(code);
        }
    }

    #[inline]
    fn finalize_published(self) -> FinalizedAlloc {
        // From here on dropping does not free it.
        let kept = ManuallyDrop::new(self);
        if kept.range(Prot::Code).bytes() > 0 {
            kept.memory.remote().code_written(kept.pages.number());
        }
        FinalizedAlloc(kept.slab.base(&kept.pages))
    }

    /// As [`InFlightAlloc::finalize`], with pairs of actions. The first of each pair runs ahead of the next call, in order; the
    /// second runs when the memory is deallocated, in reverse order. Posts one message ahead of the next call, if any pair is given.
    /// That call fails if an action fails.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub fn finalize_with_actions(
        self,
        actions: impl IntoIterator<Item = AllocActionPair>,
    ) -> Result<FinalizedAlloc> {
        self.finalize_with(actions.into_iter().map(AllocActionPair::into_actions).collect())
    }

    /// As [`InFlightAlloc::finalize`], with pairs of actions. The first of each pair runs ahead of the next call, in order; the
    /// second runs when the memory is deallocated, in reverse order. Posts one message ahead of the next call, if any pair is given.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(crate) fn finalize_with(self, actions: Vec<(Action, Action)>) -> Result<FinalizedAlloc> {
        if actions.is_empty() {
            return Ok(self.finalize());
        }
        let parts = Prot::ALL.map(|prot| (prot, self.range(prot))).into_iter();
        let regions: Vec<Region> = parts
            .filter(|(_, range)| range.bytes() > 0)
            .map(|(prot, range)| (prot_number(prot), range.start, range.bytes()))
            .collect();
        let remote = self.memory.remote();
        // The actions may call the code.
        self.publish_code();
        remote.post::<MemoryInitialize>(&(remote.instance()?, regions, actions))?;
        self.slab.has_actions(self.slab.base(&self.pages));
        Ok(self.finalize_published())
    }
}

impl Drop for InFlightAlloc<'_> {
    #[inline]
    fn drop(&mut self) {
        let base = self.slab.base(&self.pages);
        if !base.is_null() {
            // The memory is allocated, so only a forked child fails here: the memory belongs to its parent's executor.
            let _ = self.memory.free_in(self.slab, base, false);
        }
    }
}

impl FinalizedAlloc {
    /// The lowest address of the memory, which identifies it; null when no byte was requested.
    #[must_use]
    #[inline]
    pub fn address(&self) -> ExecutorAddr {
        self.0
    }

    /// The memory at this address, which [`release`](FinalizedAlloc::release) gave. A wrong address is an error of
    /// [`Process::deallocate`](crate::controller::Process::deallocate).
    pub fn from_address(address: ExecutorAddr) -> Self {
        Self(address)
    }

    /// The address alone. The caller has the duty to deallocate it.
    pub fn release(mut self) -> ExecutorAddr {
        std::mem::take(&mut self.0)
    }
}

impl Drop for FinalizedAlloc {
    fn drop(&mut self) {
        debug_assert!(
            self.0.is_null() || std::thread::panicking(),
            "the memory at {} was never deallocated",
            self.0
        );
    }
}
