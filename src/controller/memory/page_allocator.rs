//! The page allocator of a stripe.

use super::free_list::FreeList;
use super::pages::{Pages, Part};

/// The pages of one stripe: which are free, which hold memory, and which allocation begins where.
#[derive(Debug)]
pub(crate) struct PageAllocator {
    pub(crate) free: FreeList,
    /// By page: the allocation whose lowest page it is.
    entries: Vec<Entry>,
    /// The first page that was never allocated. It and all pages after it are zero.
    pub(crate) untouched: u64,
    /// The first page behind which there never was memory.
    pub(crate) backed: u64,
    /// Pages before that one for which the controller has taken no memory: zero fill. Those that are free are zero.
    pub(crate) holes: FreeList,
}

/// An allocation. It has no pages where none begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Entry {
    pub(crate) pages: Pages,
    /// The executor keeps dealloc actions for it.
    pub(crate) has_actions: bool,
}

impl PageAllocator {
    pub(crate) fn new(pages: u64) -> Self {
        let (free, holes) = (FreeList::new(pages), FreeList::new(0));
        Self { free, entries: Vec::new(), untouched: 0, backed: 0, holes }
    }

    /// The allocation that begins with this page, if one does.
    #[inline]
    pub(crate) fn entry_at(&mut self, page: usize) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(page)?;
        entry.pages.first().is_some().then_some(entry)
    }

    /// The entry for an allocation that begins with these pages.
    #[inline]
    pub(crate) fn entry(&mut self, part: Part) -> &mut Entry {
        let page = usize::try_from(part.first()).unwrap_or(usize::MAX);
        if self.entries.len() <= page {
            self.grow(page);
        }
        &mut self.entries[page]
    }

    #[cold]
    fn grow(&mut self, page: usize) {
        self.entries.resize(page + 1, Entry::default());
    }
}
