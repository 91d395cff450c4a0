//! The data of a program as it was at first, for runs with fresh data.
//!
//! The controller keeps the program's initial data, and stores it where the data is, through its own mapping of the slab.
//! Nothing is linked again, and the executor copies nothing. Thread-locals are given their initial values by the same action as
//! when they were linked.
//!
//! Invariant: what is restored is what was linked, except the words that say which implementation an ifunc has. Those were
//! chosen for the process and stay.

use std::ops::Range;

use crate::call::contract::{ThreadBlockDeregister, ThreadBlockRegister, ThreadInitialize};
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::error::Result;
use crate::link::{Image, TlsBlock};
use crate::{AddrRange, ExecutorAddr, Prot};

/// The data of a link as it was at first.
#[derive(Debug)]
pub(crate) struct InitialData {
    /// Where the data is.
    start: ExecutorAddr,
    /// What is not zero of it.
    content: Vec<u8>,
    /// All of it.
    bytes: u64,
    /// Words that stay, in order. They are not even stored as they are: when the link is new, the executor may be about to store
    /// them for the first time.
    kept: Vec<ExecutorAddr>,
    threads: Option<TlsBlock>,
}

impl InitialData {
    /// The data of an image, whose part of the data starts there. Takes it out of the image.
    pub(crate) fn of(image: &mut Image, start: ExecutorAddr) -> Self {
        let mut kept: Vec<_> = image.ifuncs.iter().map(|one| one.slot).collect();
        kept.sort_unstable();
        Self {
            start,
            content: std::mem::take(&mut image.stripes[Prot::Data.index()]),
            bytes: image.bytes[Prot::Data.index()],
            kept,
            threads: image.threads,
        }
    }

    /// Makes the data what it was at first.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(super) fn restore(&self, memory: &ExecutorMemory) -> Result<()> {
        let mut from = 0;
        for slot in &self.kept {
            let to = slot.get() - self.start.get();
            self.restore_part(memory, from..to);
            from = to + 8;
        }
        self.restore_part(memory, from..self.bytes);
        let Some(TlsBlock { offset, module, initial, bytes }) = self.threads else {
            return Ok(());
        };
        let Some(module) = module else {
            return memory.remote().post::<ThreadInitialize>(&(offset, initial, bytes));
        };
        memory.remote().post::<ThreadBlockDeregister>(&(module,))?;
        memory.remote().post::<ThreadBlockRegister>(&(module, initial, bytes))
    }

    /// Stores the initial values of this range of data again.
    fn restore_part(&self, memory: &ExecutorMemory, part: Range<u64>) {
        let stored = part.start..part.end.min(self.content.len() as u64);
        let zeroed = part.start.max(stored.end)..part.end;
        let address = |offset| ExecutorAddr::new(self.start.get() + offset);
        let [from, to] =
            [stored.start, stored.end].map(|at| usize::try_from(at).unwrap_or(usize::MAX));
        if let Some(content) = self.content.get(from..to)
            && !content.is_empty()
        {
            memory.store(address(stored.start), content);
        }
        if !zeroed.is_empty() {
            memory.zero(AddrRange { start: address(zeroed.start), end: address(zeroed.end) });
        }
    }
}
