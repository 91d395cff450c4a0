//! The page table of a slab: which allocation owns which pages.
//!
//! Invariant: a page is free, resting, or part of exactly one allocation.

use std::collections::VecDeque;

use super::page_allocator::{Entry, PageAllocator};
use super::pages::{Pages, Part};
use crate::error::{Error, Result};
use crate::limits::{PAGE_BYTES, SLABS_MAX};
use crate::{PerProt, Prot};

/// A page allocator for each stripe of a slab, and the number of the last allocation.
#[derive(Debug)]
pub(crate) struct PageTable {
    pub(crate) allocators: [PageAllocator; Prot::ALL.len()],
    number: u64,
    /// Copies of the executor have these pages: none is allocated or freed any more.
    pub(crate) is_frozen: bool,
    /// For debuggers: freed pages of code, the last freed at the end. They are used again when no others are left.
    pub(crate) resting: Option<VecDeque<Part>>,
}

impl PageTable {
    /// The page table of the slab with this index.
    pub(crate) fn new(index: usize, bytes: PerProt<u64>) -> Self {
        let allocators = bytes.into_array().map(|bytes| PageAllocator::new(bytes / PAGE_BYTES));
        // The numbers of a slab have one remainder, which is its index.
        Self { allocators, number: index as u64, is_frozen: false, resting: None }
    }

    /// The next number.
    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        self.number += SLABS_MAX as u64;
        self.number
    }

    /// The allocation whose first page is this one: the index of the stripe, and the index of the page in it.
    #[inline]
    pub(crate) fn entry_at(&mut self, page: Option<(usize, usize)>) -> Option<&mut Entry> {
        let (stripe, page) = page?;
        self.allocators[stripe].entry_at(page)
    }

    /// Frees the pages that other stripes gave to an allocation which the stripe of `prot` cannot serve. Returns the error to
    /// report, or that the stripe has no hole of that size.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        obtained: &mut Pages,
        prot: Prot,
        error: Option<Error>,
    ) -> Result<Option<()>> {
        self.free(std::mem::take(obtained));
        match error {
            Some(error) => Err(error.during(format_args!("allocating {prot:?} memory"))),
            None => Ok(None),
        }
    }

    /// Makes pages free. Those of code may have to rest.
    pub(crate) fn free(&mut self, pages: Pages) {
        for (stripe, part) in pages.parts.into_iter().enumerate() {
            if part.count() == 0 {
                continue;
            }
            match &mut self.resting {
                Some(resting) if stripe == Prot::Code.index() => resting.push_back(part),
                _ => self.allocators[stripe].free.free(part.first(), part.count()),
            }
        }
    }

    /// Makes those pages of a stripe free that have rested longest. False if none rest.
    #[cold]
    pub(crate) fn wake(&mut self, stripe: usize) -> bool {
        if stripe != Prot::Code.index() {
            return false;
        }
        let Some(part) = self.resting.as_mut().and_then(VecDeque::pop_front) else { return false };
        self.allocators[stripe].free.free(part.first(), part.count());
        true
    }
}
