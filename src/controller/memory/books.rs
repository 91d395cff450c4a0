//! Who has which pages of a slab.
//!
//! Invariant: a page is free or part of exactly one allocation.

use super::pages::{Pages, Part};
use super::space::Space;
use crate::Prot;
use crate::call::contract::Placement;
use crate::error::Error;
use crate::limits::PAGE_BYTES;

/// Who has which pages.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) ledgers: [Ledger; Prot::ALL.len()],
    /// The number handed out last.
    number: u64,
}

/// Who has which pages of a stripe.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Which pages are free.
    pub(crate) space: Space,
    /// By page: the allocation that begins with it.
    taken: Vec<Taken>,
    /// From here on no page has ever been handed out: they are zero.
    pub(crate) untouched: u64,
    /// Up to here pages have memory behind them.
    pub(crate) backed: u64,
}

/// An allocation; no pages where none begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    pub(crate) pages: Pages,
    /// The executor keeps dealloc actions for it.
    pub(crate) has_actions: bool,
}

impl Books {
    pub(crate) fn new(placement: Placement, bytes: [u64; Prot::ALL.len()]) -> Self {
        let ledger = |bytes| Ledger {
            space: Space::new(bytes / PAGE_BYTES),
            taken: Vec::new(),
            untouched: 0,
            backed: 0,
        };
        // The numbers of the two slabs are even and odd.
        Self { ledgers: bytes.map(ledger), number: placement as u64 }
    }

    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        self.number += 2;
        self.number
    }

    /// The allocation that begins at a place, if one does.
    #[inline]
    pub(crate) fn taken(&mut self, place: Option<(usize, usize)>) -> Option<&mut Taken> {
        let (at, page) = place?;
        let taken = self.ledgers[at].taken.get_mut(page)?;
        taken.pages.first().is_some().then_some(taken)
    }

    /// The error to report when pages were had of some stripes and not of this one.
    #[cold]
    pub(crate) fn refuse(&mut self, had: Pages, prot: Prot, error: Error) -> Error {
        self.free(had);
        error.during(format_args!("allocating {prot:?} memory"))
    }

    pub(crate) fn free(&mut self, pages: Pages) {
        for (ledger, part) in self.ledgers.iter_mut().zip(pages.parts) {
            if part.count() > 0 {
                ledger.space.give_back(part.first(), part.count());
            }
        }
    }
}

impl Ledger {
    /// What is kept of an allocation that begins with these pages.
    #[inline]
    pub(crate) fn entry(&mut self, part: Part) -> &mut Taken {
        let page = usize::try_from(part.first()).unwrap_or(usize::MAX);
        if self.taken.len() <= page {
            self.grow(page);
        }
        &mut self.taken[page]
    }

    #[cold]
    fn grow(&mut self, page: usize) {
        self.taken.resize(page + 1, Taken::default());
    }
}
