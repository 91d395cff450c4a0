//! A model of the memory map: a letter and an owner for each page, and a list of the initialized sets.

use super::FAILING;
use crate::executor::memory::Segment;
use crate::limits::PAGE_BYTES;
use crate::sps::Lifetime;
use crate::{ExecutorAddr, Prot};

/// The slabs of one thread and its region sets.
#[derive(Default)]
pub(super) struct Model {
    pub(super) slabs: Vec<Slab>,
    /// In the order of initialization.
    pub(super) sets: Vec<Set>,
    /// The actions that should have run since the start of the last operation.
    pub(super) log: Vec<u32>,
}

pub(super) struct Slab {
    pub(super) start: ExecutorAddr,
    pub(super) pages: Vec<Page>,
    /// The controller sets its protections and contents.
    pub(super) is_shared: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub(super) letter: char,
    pub(super) is_used: bool,
    /// The first and the last byte.
    pub(super) content: (u8, u8),
}

pub(super) struct Set {
    pub(super) base: ExecutorAddr,
    slab: ExecutorAddr,
    pages: Vec<usize>,
    dealloc: Vec<u32>,
}

/// A finalize and a dealloc note; 0 is none.
pub(super) type Notes = (u32, u32);

const EMPTY: Page = Page { letter: 'w', is_used: false, content: (0, 0) };

impl Slab {
    pub(super) fn private(start: ExecutorAddr, pages: usize) -> Slab {
        Slab { start, pages: vec![EMPTY; pages], is_shared: false }
    }

    pub(super) fn shared(start: ExecutorAddr, stripe_pages: usize) -> Slab {
        let pages =
            Prot::ALL.map(|prot| vec![Page { letter: letter(prot), ..EMPTY }; stripe_pages]);
        Slab { start, pages: pages.concat(), is_shared: true }
    }

    fn bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }
}

impl Model {
    /// The base that a request returns; `None` if it is refused or fails.
    pub(super) fn initialize(
        &mut self,
        segments: &[Segment],
        notes: &[Notes],
    ) -> Option<ExecutorAddr> {
        let slab = self.slabs.iter_mut().find(|slab| {
            let start = segments.first().map_or(0, |segment| segment.start.get());
            (slab.start.get()..slab.start.get() + slab.bytes()).contains(&start)
        })?;
        let mut after = slab.pages.clone();
        let (mut stay, mut go) = (Vec::new(), Vec::new());
        for segment in segments {
            let offset = segment.start.get().checked_sub(slab.start.get())?;
            let end = offset.checked_add(segment.bytes)?;
            if segment.bytes == 0 || (offset | end) % PAGE_BYTES != 0 || end > slab.bytes() {
                return None;
            }
            if slab.is_shared && segment.content.is_some() {
                return None;
            }
            let content = segment.content.as_deref().unwrap_or_default();
            if content.len() as u64 > segment.bytes {
                return None;
            }
            let wanted = letter(segment.group.prot);
            let range = (offset / PAGE_BYTES) as usize..(end / PAGE_BYTES) as usize;
            for (from, page) in after[range.clone()].iter_mut().enumerate() {
                if page.is_used || slab.is_shared && page.letter != wanted {
                    return None;
                }
                let from = from * PAGE_BYTES as usize;
                let byte = |at: usize| content.get(from + at).copied().unwrap_or(0);
                let content = (byte(0), byte(PAGE_BYTES as usize - 1));
                *page = Page { letter: wanted, is_used: true, content };
            }
            match segment.group.lifetime {
                Lifetime::Standard => stay.extend(range),
                Lifetime::Finalize => go.extend(range),
            }
        }
        let base = slab.start.get() + *stay.iter().min()? as u64 * PAGE_BYTES;
        let mut dealloc = Vec::new();
        for (finalize, undo) in notes {
            if *finalize != 0 {
                self.log.push(*finalize);
            }
            if *finalize % 1000 >= FAILING {
                self.log.extend(dealloc.iter().rev());
                return None;
            }
            if *undo != 0 {
                dealloc.push(*undo);
            }
        }
        for page in go {
            after[page] = slab.pages[page];
        }
        slab.pages = after;
        let (base, slab) = (ExecutorAddr::new(base), slab.start);
        self.sets.push(Set { base, slab, pages: stay, dealloc });
        Some(base)
    }

    /// The addresses that a request's error should name, in the order of its list.
    pub(super) fn deinitialize(&mut self, bases: &[ExecutorAddr]) -> Vec<ExecutorAddr> {
        let (mut bad, mut good) = (Vec::new(), Vec::new());
        for base in bases {
            if good.contains(base) || !self.sets.iter().any(|set| set.base == *base) {
                bad.push(*base);
            } else {
                good.push(*base);
            }
        }
        self.remove(|set| good.contains(&set.base));
        bad
    }

    /// As [`Model::deinitialize`], of slabs.
    pub(super) fn release(&mut self, slabs: &[ExecutorAddr]) -> Vec<ExecutorAddr> {
        let (mut bad, mut good) = (Vec::new(), Vec::new());
        for start in slabs {
            if good.contains(start) || !self.slabs.iter().any(|slab| slab.start == *start) {
                bad.push(*start);
            } else {
                good.push(*start);
            }
        }
        self.remove(|set| good.contains(&set.slab));
        self.slabs.retain(|slab| !good.contains(&slab.start));
        bad
    }

    /// Removes sets, the newest first.
    fn remove(&mut self, is_going: impl Fn(&Set) -> bool) {
        let (going, stays) = std::mem::take(&mut self.sets).into_iter().partition(is_going);
        self.sets = stays;
        let going: Vec<Set> = going;
        for set in going.into_iter().rev() {
            self.log.extend(set.dealloc.iter().rev());
            let slab = self.slabs.iter_mut().find(|slab| slab.start == set.slab);
            let slab = slab.expect("slabs go after what is in them");
            for page in set.pages {
                slab.pages[page] = match slab.is_shared {
                    true => Page { is_used: false, ..slab.pages[page] },
                    false => EMPTY,
                };
            }
        }
    }
}

fn letter(prot: Prot) -> char {
    match prot {
        Prot::Code => 'x',
        Prot::Constants => 'r',
        Prot::Data => 'w',
    }
}
