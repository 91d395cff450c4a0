//! Stubs: functions of a few bytes that jump through a word which only the controller can write.
//!
//! Invariant: a stub has one owner or is free, and no code calls a free one. The session keeps pages of stubs until it ends.

use crate::call::contract::{LAZY_RESOLVER, Placement};
use crate::controller::memory::allocation::InFlightAlloc;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::error::{Error, Result};
use crate::link::{Processor, StubPage};
use crate::sync::{AtomicU64, Mutex};
use crate::{ExecutorAddr, PerProt, Prot};

/// The stubs of a session.
#[derive(Debug, Default)]
pub(crate) struct Stubs(Mutex<Vec<Stub>>);

/// One stub: its page, and its number there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stub {
    page: StubPage,
    number: u64,
}

impl Stubs {
    /// Takes a free stub. `lazy_tag` returns the tag of the handler that trampolines of a new page call.
    ///
    /// # Errors
    ///
    /// When memory runs out.
    pub(crate) fn take(
        &self,
        memory: &ExecutorMemory,
        lazy_tag: impl FnOnce() -> u64,
    ) -> Result<Stub> {
        let mut free = self.0.lock();
        if let Some(stub) = free.pop() {
            return Ok(stub);
        }
        let page = new_page(memory, lazy_tag())?;
        free.extend(StubPage::numbers().rev().map(|number| Stub { page, number }));
        free.pop().ok_or_else(|| Error::invalid("a page of stubs has none"))
    }

    /// Makes a stub free.
    pub(crate) fn free(&self, stub: Stub) {
        self.0.lock().push(stub);
    }
}

impl Stub {
    /// Its own address, which callers use.
    pub(crate) fn address(self) -> ExecutorAddr {
        self.page.stub(self.number)
    }

    /// The word that it jumps through.
    #[inline]
    pub(crate) fn word(self, memory: &ExecutorMemory) -> &AtomicU64 {
        memory.word(self.page.slot(self.number))
    }

    /// The target of the stub until its function is compiled.
    pub(crate) fn trampoline(self) -> ExecutorAddr {
        self.page.trampoline(self.number)
    }

    /// The return address that its trampoline gives.
    pub(crate) fn return_address(self) -> ExecutorAddr {
        self.page.return_address(self.number)
    }
}

fn new_page(memory: &ExecutorMemory, lazy_tag: u64) -> Result<StubPage> {
    let processor = Processor::HOST;
    let [code, constants] = StubPage::bytes(processor);
    let mut allocation =
        InFlightAlloc::new(memory, Placement::Near, PerProt { code, constants, data: 0 })?;
    let starts = [Prot::Code, Prot::Constants].map(|prot| allocation.range(prot).start);
    let page = StubPage::new(processor, starts[0], starts[1]);
    let page = page.ok_or_else(|| Error::invalid("a slab larger than 2 GiB"))?;
    allocation.write(Prot::Code, &page.code());
    let resolver = memory.remote().named(LAZY_RESOLVER).unwrap_or_default();
    allocation.write(Prot::Constants, &page.constants(resolver, lazy_tag));
    allocation.finalize().release();
    Ok(page)
}
