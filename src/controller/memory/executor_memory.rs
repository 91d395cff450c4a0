//! The slabs of an executor, which the controller maps as well.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use super::pages::Pages;
use super::slab::Slab;
use crate::call::contract::{
    CodePublish, MemoryDeinitialize, MemoryRefresh, MemoryReserve, NEAR_SLAB, Placement,
    RegionAttach, RegionDetach, Remote as _,
};
use crate::controller::remote::Remote;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::{
    ATTACH_TIMEOUT, LOW_ADDRESS_END, LOW_SLAB_STRIPE_BYTES, PAGE_BYTES, SLAB_REACH_BYTES,
    SLAB_STRIPE_BYTES, SLABS_MAX,
};
use crate::link::SymbolTable;
use crate::shm::Region;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use crate::{AddrRange, ExecutorAddr, PerProt, Prot};

/// The default sizes of slabs by placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlabBytes {
    pub(crate) near: PerProt<u64>,
    pub(crate) low: PerProt<u64>,
}

impl Default for SlabBytes {
    fn default() -> Self {
        Self { near: SLAB_STRIPE_BYTES, low: LOW_SLAB_STRIPE_BYTES }
    }
}

/// The executor with its slabs.
#[derive(Debug)]
pub(crate) struct ExecutorMemory {
    remote: Remote,
    /// False where instruction caches see stores by themselves.
    publishes_code: bool,
    /// In the order in which they were reserved, without gaps. Those of the snapshot come first, if this is a copy's memory; they are
    /// not here. The very first is near the executor.
    slabs: Box<[OnceLock<Slab>]>,
    inherited: Inherited,
    slab_bytes: SlabBytes,
    /// Held while a slab is reserved.
    reserving: Mutex<()>,
    /// The functions of memory that have names, by its lowest address.
    names: Mutex<HashMap<ExecutorAddr, Arc<SymbolTable>>>,
    /// False while no function has a name of these.
    has_names: AtomicBool,
    /// The addresses of the regions that are attached. Held while one is attached or detached.
    regions: Mutex<HashSet<ExecutorAddr>>,
    /// How often code was written while there was no slab.
    written: AtomicU64,
}

/// What a copy has of its snapshot: slabs that no link allocates from.
#[derive(Debug, Clone, Copy, Default)]
struct Inherited {
    slabs: usize,
    /// The bytes of those near the executor.
    near_bytes: u64,
}

impl ExecutorMemory {
    /// The memory of a copy of the executor whose memory is `snapshot`. It has no slab of its own yet.
    pub(crate) fn of_copy(remote: Remote, snapshot: &Self) -> Self {
        let Inherited { slabs, near_bytes } = snapshot.inherited;
        let slabs = slabs + snapshot.reserved().count();
        let near_bytes = near_bytes + snapshot.near_bytes();
        let inherited = Inherited { slabs, near_bytes };
        Self::without_slabs(remote, snapshot.slab_bytes, inherited)
    }

    /// The memory of an executor that received `slab` when it was started.
    ///
    /// # Errors
    ///
    /// When the executor has no address space for the slab, or does not answer by the deadline.
    pub(crate) fn new(
        remote: Remote,
        slab: Slab,
        slab_bytes: SlabBytes,
        deadline: Deadline,
    ) -> Result<Self> {
        let memory = Self::without_slabs(remote, slab_bytes, Inherited::default());
        match memory.remote.named(NEAR_SLAB) {
            Ok(start) => memory.keep(slab, start)?,
            // A second request returns the reason.
            Err(_) => memory.reserve(slab, deadline).map_err(|error| error.during(FIRST))?,
        }
        Ok(memory)
    }

    /// Has the executor make code in this range visible ahead of the next call, if its processor does not do so by itself.
    #[inline]
    pub(crate) fn publish_code(&self, range: AddrRange) {
        if self.publishes_code {
            // Nothing runs the code of a session that is over.
            let _ = self.remote.post::<CodePublish>(&(range,));
        }
    }

    /// The memory of an executor in this process.
    ///
    /// # Errors
    ///
    /// When there is no address space for its first slab.
    pub(crate) fn in_process(remote: Remote, slab_bytes: SlabBytes) -> Result<Self> {
        let memory = Self::without_slabs(remote, slab_bytes, Inherited::default());
        let added = memory.add_slab(0, Placement::Near, slab_bytes.near);
        added.map_err(|error| error.during(FIRST))?;
        Ok(memory)
    }

    fn without_slabs(remote: Remote, slab_bytes: SlabBytes, inherited: Inherited) -> Self {
        let publishes_code = remote.functions().contains_key(CodePublish::NAME);
        Self {
            remote,
            publishes_code,
            slabs: (0..SLABS_MAX).map(|_| OnceLock::new()).collect(),
            inherited,
            slab_bytes,
            reserving: Mutex::default(),
            names: Mutex::default(),
            has_names: AtomicBool::new(false),
            regions: Mutex::default(),
            written: AtomicU64::new(0),
        }
    }

    /// Allocates and frees nothing from now on, or does so again. False when another thread reserves a slab: nothing has changed
    /// then. That thread waits until no snapshot is being taken.
    pub(crate) fn freeze(&self, is_frozen: bool) -> bool {
        let reserving = self.reserving.try_lock();
        if is_frozen && reserving.is_none() {
            return false;
        }
        self.reserved().for_each(|slab| slab.freeze(is_frozen));
        true
    }

    /// A number for code that was written outside of an allocation, as of [`Pages::number`].
    pub(super) fn draw(&self) -> u64 {
        match self.reserved().next() {
            Some(slab) => slab.draw(),
            // The numbers of the first slab, which is the snapshot's.
            None => self.written.fetch_add(1, Ordering::Relaxed).wrapping_add(1) * SLABS_MAX as u64,
        }
    }

    #[inline]
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Allocates at least `bytes` bytes of each protection, rounded up to pages, in one slab of this placement, and stores in `pages`
    /// which. Behind the first `stored` bytes the data is zero. If all slabs are full, reserves another one, with a call of the executor.
    ///
    /// # Errors
    ///
    /// When memory or address space runs out, or the session is over.
    #[inline]
    pub(crate) fn allocate(
        &self,
        placement: Placement,
        bytes: PerProt<u64>,
        stored: u64,
        pages: &mut Pages,
    ) -> Result<&Slab> {
        let slab = match self.allocate_in_slabs(placement, bytes, stored, pages)? {
            Some(slab) => slab,
            None => self.grow(placement, bytes, stored, pages)?,
        };
        if self.remote.is_debuggable() {
            self.refresh(slab.part(pages, Prot::Code))?;
        }
        Ok(slab)
    }

    /// Takes a debugger's copies from pages of code that were used before.
    #[cold]
    fn refresh(&self, code: AddrRange) -> Result<()> {
        if code.bytes() == 0 {
            return Ok(());
        }
        // It runs before the link is known to debuggers, and before the next allocation's code runs.
        self.remote.post::<MemoryRefresh>(&(self.remote.instance()?, code))
    }

    #[inline]
    fn allocate_in_slabs(
        &self,
        placement: Placement,
        bytes: PerProt<u64>,
        stored: u64,
        pages: &mut Pages,
    ) -> Result<Option<&Slab>> {
        for slab in self.reserved().filter(|slab| slab.placement() == placement) {
            if slab.allocate(bytes, stored, pages)?.is_some() {
                return Ok(Some(slab));
            }
        }
        Ok(None)
    }

    /// Reserves another slab, and allocates in it.
    #[cold]
    fn grow(
        &self,
        placement: Placement,
        bytes: PerProt<u64>,
        stored: u64,
        pages: &mut Pages,
    ) -> Result<&Slab> {
        self.remote.origin().check()?;
        let _reserving = self.reserving.lock();
        // While a snapshot is taken nothing is allocated.
        self.remote.check_not_frozen()?;
        // Another thread may have reserved one meanwhile.
        if let Some(slab) = self.allocate_in_slabs(placement, bytes, stored, pages)? {
            return Ok(slab);
        }
        let full = |why: Error| {
            let PerProt { code, constants, data } = bytes;
            Error::exhausted(format!(
                "no room for {code} bytes of code, {constants} of constants and {data} of data in another slab"
            ))
            .and(&why)
        };
        let index = self.inherited.slabs + self.reserved().count();
        if index == SLABS_MAX {
            let larger = "choose larger ones by ExecutorBuilder::slab_bytes, or farcall run --slab";
            return Err(full(Error::exhausted(format!(
                "a session has {SLABS_MAX} slabs; {larger}"
            ))));
        }
        let usual = match placement {
            Placement::Near => self.slab_bytes.near,
            Placement::Low => self.slab_bytes.low,
        };
        // The libraries are above the slabs near the executor, which lie one below the other.
        let between = self.inherited.near_bytes + self.near_bytes();
        let reach = match placement {
            Placement::Near => SLAB_REACH_BYTES.saturating_sub(between),
            Placement::Low => LOW_ADDRESS_END,
        };
        // The address space may have smaller holes only.
        let mut refused = None;
        for part in [1, 4, 16, u64::MAX] {
            let sizes = sizes(usual.map(|bytes| bytes / part), bytes, reach);
            match self.add_slab(index, placement, sizes) {
                Ok(()) => {
                    refused = None;
                    break;
                }
                Err(error) if error.is_disconnected() => return Err(error),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        if let Some(error) = refused {
            return Err(full(error));
        }
        let allocated = self.allocate_in_slabs(placement, bytes, stored, pages)?;
        allocated.ok_or_else(|| full(Error::exhausted("a new slab is too small")))
    }

    /// Makes a slab, and has the executor map it.
    fn add_slab(&self, index: usize, placement: Placement, bytes: PerProt<u64>) -> Result<()> {
        let first = self.remote.first_segment();
        let Some(direct) = self.remote.direct() else {
            return self.reserve(Slab::new(index, placement, bytes, first)?, Deadline::SESSION_END);
        };
        let executor = direct.executor();
        let (slab, start) = Slab::in_process(index, placement, bytes, first, |files, data| {
            executor.map_slab(placement, files, data)
        })?;
        self.keep(slab, start)
    }

    /// Makes the executor map a region, and returns the address. Sends one message.
    ///
    /// # Errors
    ///
    /// When the region is attached already, the executor refuses, its answer does not come in [`ATTACH_TIMEOUT`], or the session is
    /// over.
    pub(crate) fn attach(&self, region: &Region) -> Result<ExecutorAddr> {
        self.remote.origin().check()?;
        let (mut regions, deadline) = (self.regions.lock(), Deadline::after(ATTACH_TIMEOUT));
        let wanted = region.address();
        if regions.contains(&wanted) {
            return Err(Error::invalid(format!(
                "the region at {wanted} is attached to this executor already"
            )));
        }
        let remote = &self.remote;
        if remote.direct().is_some() {
            // This process has it there.
            remote.check_alive()?;
            regions.insert(wanted);
            return Ok(wanted);
        }
        let sent = remote.opener().send_region(region, deadline);
        sent.map_err(|error| remote.explain(error, deadline))?;
        let args = (remote.instance()?, wanted);
        let address = remote.ask::<RegionAttach>(&args, deadline)?;
        let is_range = AddrRange::sized(address, region.bytes()).is_some();
        if address.is_null() || !address.get().is_multiple_of(PAGE_BYTES) || !is_range {
            return Err(Error::violation(format!("the executor's region is at {address}")));
        }
        regions.insert(wanted);
        Ok(address)
    }

    /// Makes the executor unmap a region, by its address in this process. Sends one message.
    ///
    /// # Errors
    ///
    /// When the executor's answer does not come in [`ATTACH_TIMEOUT`], or the session is over.
    pub(crate) fn detach(&self, region: ExecutorAddr) -> Result<()> {
        self.remote.origin().check()?;
        let mut regions = self.regions.lock();
        if !regions.remove(&region) || self.remote.direct().is_some() {
            return Ok(());
        }
        let args = (self.remote.instance()?, region);
        self.remote.ask::<RegionDetach>(&args, Deadline::after(ATTACH_TIMEOUT))
    }

    /// Makes the executor map a slab, with one message.
    fn reserve(&self, slab: Slab, deadline: Deadline) -> Result<()> {
        let remote = &self.remote;
        let sent =
            remote.opener().send_stripes(slab.index(), slab.placement(), &slab.files()?, deadline);
        sent.map_err(|error| remote.explain(error, deadline))?;
        let args = (remote.instance()?, slab.placement());
        self.keep(slab, remote.ask::<MemoryReserve>(&args, deadline)?)
    }

    /// Keeps a slab that the executor has mapped at `start`.
    fn keep(&self, mut slab: Slab, start: ExecutorAddr) -> Result<()> {
        slab.reserved_at(start)?;
        slab.close_sent();
        if self.remote.is_debuggable() {
            slab.let_code_rest();
        }
        // The slab with an index is set once.
        let _ = self.slabs[slab.index()].set(slab);
        Ok(())
    }

    /// The slab with this index.
    ///
    /// # Panics
    ///
    /// When it was not reserved.
    pub(super) fn slab(&self, index: usize) -> &Slab {
        self.slabs[index].get().expect("the slab of an allocation")
    }

    /// The slabs that there are, in order, without the snapshot's.
    #[inline]
    fn reserved(&self) -> impl Iterator<Item = &Slab> {
        self.slabs[self.inherited.slabs..].iter().map_while(OnceLock::get)
    }

    /// The bytes of the slabs near the executor.
    fn near_bytes(&self) -> u64 {
        let near = self.reserved().filter(|slab| slab.placement() == Placement::Near);
        near.map(|slab| slab.range().bytes()).sum()
    }

    /// Runs the dealloc actions of finalized memory, and frees it. Sends one message if the executor keeps any actions, else none.
    ///
    /// # Errors
    ///
    /// When an address is not that of finalized memory of this session, or an action fails: the rest is still freed.
    /// When the session is over.
    pub(crate) fn deallocate(&self, bases: impl IntoIterator<Item = ExecutorAddr>) -> Result<()> {
        let (mut waiting, mut outcome) = (Vec::new(), Ok(()));
        for base in bases.into_iter().filter(|base| !base.is_null()) {
            match self.free(base, false) {
                Ok(true) => {}
                Ok(false) => waiting.push(base),
                Err(error) => outcome = Err(error),
            }
        }
        if !waiting.is_empty() {
            let request = (self.remote.instance()?, waiting);
            let ran = self.remote.ask::<MemoryDeinitialize>(&request, Deadline::SESSION_END);
            outcome = ran.and(outcome);
            for base in request.1 {
                self.free(base, true)?;
            }
        }
        outcome
    }

    fn free(&self, base: ExecutorAddr, actions_have_run: bool) -> Result<bool> {
        let slab = self.slab_of(base);
        let slab =
            slab.ok_or_else(|| Error::invalid(format!("no memory of this session is at {base}")))?;
        self.free_in(slab, base, actions_have_run)
    }

    /// Frees an allocation of this slab, and forgets its names. Returns false, and frees nothing, when the executor keeps dealloc actions
    /// for it that have not run.
    ///
    /// # Errors
    ///
    /// When no allocation begins at `base`. In a forked child.
    pub(super) fn free_in(
        &self,
        slab: &Slab,
        base: ExecutorAddr,
        actions_have_run: bool,
    ) -> Result<bool> {
        slab.check_own()?;
        // Before another thread can get the memory.
        self.forget_names(base);
        slab.free(base, actions_have_run)
    }

    /// Names functions in the memory at `base` for messages about crashes, until it is freed.
    pub(crate) fn name_functions(&self, base: ExecutorAddr, functions: Arc<SymbolTable>) {
        self.has_names.store(true, Ordering::Relaxed);
        self.remote.remember(&functions);
        let earlier = self.names.lock().insert(base, functions);
        self.remote.forget(earlier.iter());
    }

    /// Forgets the names of memory that will be freed.
    fn forget_names(&self, base: ExecutorAddr) {
        // Relaxed: the thread that frees memory knows of its names.
        if self.has_names.load(Ordering::Relaxed) {
            let removed = self.names.lock().remove(&base);
            self.remote.forget(removed.iter());
        }
    }

    /// Stores bytes in allocated memory.
    ///
    /// # Panics
    ///
    /// When no slab has the address.
    pub(crate) fn store(&self, address: ExecutorAddr, bytes: &[u8]) {
        self.slab_of(address).expect("memory of a slab").store(address, bytes);
    }

    /// Zeroes allocated memory.
    ///
    /// # Panics
    ///
    /// When no slab has the address.
    pub(crate) fn zero(&self, range: AddrRange) {
        self.slab_of(range.start).expect("memory of a slab").zero(range);
    }

    /// Appends the present bytes of allocated memory.
    ///
    /// # Panics
    ///
    /// When no slab has the address.
    pub(crate) fn load(&self, range: AddrRange, out: &mut Vec<u8>) {
        self.slab_of(range.start).expect("memory of a slab").load(range, out);
    }

    /// A word of allocated memory.
    ///
    /// # Panics
    ///
    /// When no slab has the address.
    #[inline]
    pub(crate) fn word(&self, address: ExecutorAddr) -> &AtomicU64 {
        self.slab_of(address).expect("memory of a slab").word(address)
    }

    /// Where this process has the byte at an address of a slab, and how many bytes it has from there on.
    pub(crate) fn place(&self, address: ExecutorAddr) -> Option<(*mut u8, u64)> {
        self.slab_of(address)?.place(address)
    }

    /// The slab that has this address.
    fn slab_of(&self, address: ExecutorAddr) -> Option<&Slab> {
        self.reserved().find(|slab| slab.range().contains(address))
    }
}

/// The sizes of a slab for a link that needs `wanted` bytes: at least the usual ones. A link that needs more than those gets only
/// what it needs, if the slab would otherwise have more than `reach` bytes. Its code could not reach the libraries then.
fn sizes(usual: PerProt<u64>, wanted: PerProt<u64>, reach: u64) -> PerProt<u64> {
    let step = |bytes: u64| bytes.max(1).checked_next_multiple_of(STEP_BYTES).unwrap_or(u64::MAX);
    let (usual, least) = (usual.map(step), wanted.map(step));
    let sizes = PerProt::from_fn(|prot| usual[prot].max(least[prot]));
    let total = sizes.into_array().into_iter().fold(0, u64::saturating_add);
    if sizes != usual && total > reach { least } else { sizes }
}

/// What an error of the first slab begins with.
pub(crate) const FIRST: &str =
    "the first slab, whose size is set by ExecutorBuilder::slab_bytes or --slab";

/// Sizes of stripes that grow are multiples of this.
const STEP_BYTES: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_is_as_large_as_its_link_and_within_reach() {
        let each = |code, constants, data| PerProt { code, constants, data };
        let usual = each(128 << 20, 128 << 20, 256 << 20);
        let reach = 1 << 30;
        assert_eq!(sizes(usual, each(1, 0, 5), reach), usual);
        assert_eq!(sizes(usual, each(1, 0, 5), 0), usual, "nothing helps");
        assert_eq!(sizes(usual, each(1, 0, (513 << 20) - 1), reach).data, 513 << 20);
        let large = each(1, 0, 900 << 20);
        assert_eq!(sizes(usual, large, reach), each(1 << 20, 1 << 20, 900 << 20));
        assert_eq!(sizes(each(0, 0, 0), each(0, 0, 1), reach), each(1 << 20, 1 << 20, 1 << 20));
        assert_eq!(sizes(usual, each(0, 0, u64::MAX), reach).data, u64::MAX);
    }
}
