//! The slabs of an executor, which the controller maps as well.

use std::collections::HashSet;
use std::sync::OnceLock;

use super::slab::Slab;
use crate::call::contract::{
    MemoryDeinitialize, MemoryReserve, NEAR_SLAB, Placement, RegionAttach, RegionDetach,
};
use crate::controller::remote::Remote;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::{ATTACH_TIMEOUT, LOW_SLAB_STRIPE_BYTES, PAGE_BYTES};
use crate::shm::Region;
use crate::sync::{AtomicU64, Mutex};
use crate::{AddrRange, ExecutorAddr};

/// The executor with its slabs.
#[derive(Debug)]
pub(crate) struct ExecutorMemory {
    remote: Remote,
    /// By placement; each is set when it is first needed.
    slabs: [OnceLock<Slab>; 2],
    /// Held while a slab is reserved.
    reserving: Mutex<()>,
    /// The addresses of the regions that are attached. Held while one is attached or detached.
    regions: Mutex<HashSet<ExecutorAddr>>,
}

impl ExecutorMemory {
    /// The memory of an executor that received `slab` when it was started.
    ///
    /// # Errors
    ///
    /// When the executor has no address space for the slab, or does not answer by the deadline.
    pub(crate) fn new(remote: Remote, slab: Slab, deadline: Deadline) -> Result<Self> {
        let slabs = [const { OnceLock::new() }; 2];
        let memory = Self { remote, slabs, reserving: Mutex::default(), regions: Mutex::default() };
        match memory.remote.named(NEAR_SLAB) {
            Ok(start) => memory.keep(slab, start)?,
            // A second request returns the reason.
            Err(_) => memory.reserve(slab, deadline)?,
        }
        Ok(memory)
    }

    #[inline]
    pub(crate) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// Reserves a slab below 2 GiB, unless the session has one. One message the first time.
    ///
    /// # Errors
    ///
    /// When memory or address space runs out, or the session is over.
    pub(crate) fn reserve_low(&self) -> Result<()> {
        let _reserving = self.reserving.lock();
        if self.slab(Placement::Low).is_ok() {
            return Ok(());
        }
        // Other mappings below 2 GiB may leave smaller holes only.
        let reserve = |part| {
            let bytes = LOW_SLAB_STRIPE_BYTES.map(|bytes| bytes / part);
            self.reserve(
                Slab::new(Placement::Low, bytes, self.remote.first_segment())?,
                Deadline::SESSION_END,
            )
        };
        let reserved = reserve(1).or_else(|_| reserve(4)).or_else(|_| reserve(16));
        reserved.map_err(|error| error.during("reserving a slab for code with 32-bit addresses"))
    }

    /// Makes the executor map a region, and returns the address. Sends one message.
    ///
    /// # Errors
    ///
    /// When the region is attached already, the executor refuses, its answer does not come in [`ATTACH_TIMEOUT`], or the session is
    /// over.
    pub(crate) fn attach(&self, region: &Region) -> Result<ExecutorAddr> {
        let (mut regions, deadline) = (self.regions.lock(), Deadline::after(ATTACH_TIMEOUT));
        let wanted = region.address();
        if regions.contains(&wanted) {
            return Err(Error::invalid(format!(
                "the region at {wanted} is attached to this executor already"
            )));
        }
        let remote = &self.remote;
        let sent = remote.opener().send_region(region, deadline);
        sent.map_err(|error| remote.explain(error, deadline))?;
        let args = (remote.instance()?, wanted);
        let address = remote.call_by::<RegionAttach>(&args, deadline)?;
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
        let mut regions = self.regions.lock();
        if !regions.remove(&region) {
            return Ok(());
        }
        let args = (self.remote.instance()?, region);
        self.remote.call_by::<RegionDetach>(&args, Deadline::after(ATTACH_TIMEOUT))
    }

    /// Makes the executor map a slab, with one message.
    fn reserve(&self, slab: Slab, deadline: Deadline) -> Result<()> {
        let remote = &self.remote;
        let sent = remote.opener().send_stripes(slab.placement(), &slab.files()?, deadline);
        sent.map_err(|error| remote.explain(error, deadline))?;
        let args = (remote.instance()?, slab.placement());
        self.keep(slab, remote.call_by::<MemoryReserve>(&args, deadline)?)
    }

    /// Keeps a slab that the executor has mapped at `start`.
    fn keep(&self, mut slab: Slab, start: ExecutorAddr) -> Result<()> {
        slab.reserved_at(start)?;
        // The slab of a placement is set once.
        let _ = self.slabs[slab.placement() as usize].set(slab);
        Ok(())
    }

    /// The slab of this placement.
    ///
    /// # Errors
    ///
    /// When it was not reserved.
    #[inline]
    pub(crate) fn slab(&self, placement: Placement) -> Result<&Slab> {
        let slab = self.slabs[placement as usize].get();
        slab.ok_or_else(|| Error::invalid("the slab was not reserved"))
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
            let ran = self.remote.call::<MemoryDeinitialize>(&request);
            outcome = ran.and(outcome);
            for base in request.1 {
                self.free(base, true)?;
            }
        }
        outcome
    }

    fn free(&self, base: ExecutorAddr, actions_have_run: bool) -> Result<bool> {
        match self.slab_of(base) {
            Some(slab) => slab.free(base, actions_have_run),
            None => Err(Error::invalid(format!("no memory of this session is at {base}"))),
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

    /// The slab that has this address.
    fn slab_of(&self, address: ExecutorAddr) -> Option<&Slab> {
        let mut slabs = self.slabs.iter().filter_map(OnceLock::get);
        slabs.find(|slab| slab.range().contains(address))
    }
}
