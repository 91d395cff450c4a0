//! The initial data of a program, for runs with fresh data.
//!
//! The controller keeps a copy, and stores it through its own mapping of the slab. So nothing is linked again, and the executor
//! copies nothing. Thread-locals get their initial values by the same action as when they were linked.
//!
//! Invariant: restored data equals linked data except for the slots of ifuncs. The executor chose their implementations for the
//! process, and they stay.

use std::ops::Range;

use crate::call::contract::{ThreadBlockDeregister, ThreadBlockRegister, ThreadInitialize};
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::error::Result;
use crate::link::{Image, TlsBlock};
use crate::{AddrRange, ExecutorAddr, Prot};

/// The initial data of a link.
#[derive(Debug)]
pub(crate) struct InitialData {
    /// The address of the data.
    start: ExecutorAddr,
    /// Its bytes up to the last that is not zero-filled.
    content: Vec<u8>,
    /// Its size, zero-fill included.
    bytes: u64,
    /// The slots of ifuncs, in order. The controller never stores them: the executor may be about to store them for the first time.
    kept: Vec<ExecutorAddr>,
    threads: Option<TlsBlock>,
}

impl InitialData {
    /// Takes the data out of an image whose data starts at `start`.
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

    /// Gives the data its initial values.
    ///
    /// # Errors
    ///
    /// When the session is over.
    pub(crate) fn restore(&self, memory: &ExecutorMemory) -> Result<()> {
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

    /// Gives this range of the data its initial values.
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
