//! A slab: a range of address space in which regions are initialized.
//!
//! Invariant: the protections of a shared slab never change after it was made; those of a private one are changed by the
//! memory map alone.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::Segment;
use crate::call::contract::Placement;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::sys::map::Reservation;
use crate::sys::memfd;
use crate::{AddrRange, ExecutorAddr, Prot};

/// A slab of either kind. Unmapped when dropped.
#[derive(Debug)]
pub(super) struct Slab {
    reservation: Arc<Reservation>,
    kind: Kind,
    /// It is going away.
    is_leaving: bool,
}

#[derive(Debug)]
enum Kind {
    /// A stripe for each protection, filled by the controller.
    Shared(Box<[AddrRange; Prot::ALL.len()]>),
    /// Plain memory, filled by the executor.
    Private,
}

/// The memory of a slab, which stays mapped as long as this is held.
#[derive(Debug)]
pub(super) struct Memory {
    reservation: Arc<Reservation>,
    /// Content and protections are the executor's to change.
    is_private: bool,
}

/// Whole pages that are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) range: AddrRange,
    /// How many bytes from the start may be other than zero. `None` where anybody may have written anything.
    pub(super) stored: Option<u64>,
}

impl Pages {
    /// The range of neighbours, if there are any.
    pub(super) fn span(neighbours: &[Pages]) -> Option<AddrRange> {
        let (first, last) = (neighbours.first()?, neighbours.last()?);
        Some(AddrRange { start: first.range.start, end: last.range.end })
    }

    /// The pages with memory behind them that is known; may be none.
    pub(super) fn held(&self) -> AddrRange {
        let start = self.range.start;
        let bytes = self.stored.unwrap_or(0).next_multiple_of(PAGE_BYTES);
        AddrRange::sized(start, bytes).unwrap_or(AddrRange { start, end: start })
    }

    fn stored_range(&self) -> Option<AddrRange> {
        AddrRange::sized(self.range.start, self.stored?)
    }
}

/// True when pages follow others without a gap.
pub(super) fn touch(one: &Pages, next: &Pages) -> bool {
    one.range.end == next.range.start
}

impl Memory {
    /// All of it.
    pub(super) fn range(&self) -> AddrRange {
        self.reservation.range()
    }

    #[cfg(test)]
    pub(super) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Stores the content of segments and gives them their protection, neighbours of one protection together. Does nothing
    /// where the controller has done it.
    ///
    /// # Errors
    ///
    /// When the system refuses; some of it has been done then.
    pub(super) fn fill(&self, segments: &[Segment]) -> Result<()> {
        if !self.is_private {
            return Ok(());
        }
        let range = |segment: &Segment| AddrRange::sized(segment.start, segment.bytes);
        for segment in segments {
            if let (Some(range), Some(content)) = (range(segment), &segment.content) {
                self.reservation.fill(range, content)?;
            }
        }
        for prot in Prot::ALL {
            let of_prot = segments.iter().filter(|segment| segment.group.prot == prot);
            for run in coalesced(of_prot.filter_map(range).collect()) {
                self.reservation.protect(run, prot)?;
            }
        }
        Ok(())
    }

    /// Makes pages empty, readable and writable, without memory behind them, neighbours together. Does nothing where the
    /// memory is the controller's.
    ///
    /// # Errors
    ///
    /// When the system refuses: the first refusal; the rest has been done even so.
    pub(super) fn discard(&self, pages: &[Pages]) -> Result<()> {
        if !self.is_private {
            return Ok(());
        }
        let runs = coalesced(pages.iter().map(|pages| pages.range).collect()).into_iter();
        runs.map(|run| self.reservation.reset(run)).fold(Ok(()), Result::and)
    }

    /// Makes pages empty, readable and writable, neighbours together. They are sorted. Those of which it is known what they
    /// hold keep the memory behind them, and are added to `kept`. Does nothing where the memory is the controller's.
    ///
    /// # Errors
    ///
    /// As [`Memory::discard`].
    pub(super) fn reset(&self, pages: &[Pages], kept: &mut Vec<AddrRange>) -> Result<()> {
        if !self.is_private {
            return Ok(());
        }
        let runs = pages.chunk_by(touch);
        runs.map(|run| self.reset_run(run, kept)).fold(Ok(()), Result::and)
    }

    fn reset_run(&self, run: &[Pages], kept: &mut Vec<AddrRange>) -> Result<()> {
        let Some(whole) = Pages::span(run) else { return Ok(()) };
        // These go first: changing the protection of a page that has no memory costs next to nothing.
        for alike in run.chunk_by(|one, next| one.stored.is_some() == next.stored.is_some()) {
            if let (Some(unknown), [Pages { stored: None, .. }, ..]) = (Pages::span(alike), alike) {
                self.reservation.discard(unknown)?;
            }
        }
        let stored = run.iter().filter_map(Pages::stored_range);
        self.reservation.wipe(whole, stored).inspect_err(|_| {
            // They are emptied even so.
            let _ = self.reservation.discard(whole);
        })?;
        for held in run.iter().map(Pages::held).filter(|held| held.bytes() > 0) {
            match kept.last_mut() {
                Some(last) if last.end == held.start => last.end = held.end,
                _ => kept.push(held),
            }
        }
        Ok(())
    }
}

/// The same ranges, those that touch as one. They do not overlap.
fn coalesced(mut ranges: Vec<AddrRange>) -> Vec<AddrRange> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, run| {
        let touches = run.end == next.start;
        if touches {
            run.end = next.end;
        }
        touches
    });
    ranges
}

impl Slab {
    /// Maps one stripe for each protection, the whole of its file.
    ///
    /// # Errors
    ///
    /// When a file's size is not a positive multiple of the page size or not sealed, or address space runs out.
    pub(super) fn shared(placement: Placement, files: Vec<OwnedFd>) -> Result<(Self, AddrRange)> {
        if files.len() != Prot::ALL.len() {
            return Err(Error::invalid(format!(
                "{} files, a slab has {} stripes",
                files.len(),
                Prot::ALL.len()
            )));
        }
        let mut sizes = [0; Prot::ALL.len()];
        for (size, file) in sizes.iter_mut().zip(&files) {
            *size = memfd::sealed_bytes(file)?;
        }
        let mut total: u64 = 0;
        for size in sizes {
            if size == 0 || !size.is_multiple_of(PAGE_BYTES) {
                return Err(Error::invalid(format!(
                    "a stripe of {size} bytes, not a positive multiple of {PAGE_BYTES}"
                )));
            }
            total = total.checked_add(size).ok_or_else(|| Error::invalid("stripes overflow"))?;
        }
        let reservation = match placement {
            Placement::Near => Reservation::new(total)?,
            Placement::Low => Reservation::low(total)?,
        };
        let mut stripes = [AddrRange::default(); Prot::ALL.len()];
        let mut offset = 0;
        for ((prot, size), file) in Prot::ALL.into_iter().zip(sizes).zip(files) {
            reservation.map(offset, size, prot, file)?;
            let start = ExecutorAddr::new(reservation.start() + offset);
            offset += size;
            let end = ExecutorAddr::new(reservation.start() + offset);
            stripes[prot.index()] = AddrRange { start, end };
        }
        let data = stripes[Prot::Data.index()];
        Ok((Self::new(reservation, Kind::Shared(Box::new(stripes))), data))
    }

    /// Reserves plain memory, readable, writable and zero.
    ///
    /// # Errors
    ///
    /// When the size is not a positive multiple of the page size, or address space runs out.
    pub(super) fn private(bytes: u64) -> Result<Self> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE_BYTES) {
            return Err(Error::invalid(format!(
                "a slab of {bytes} bytes, not a positive multiple of {PAGE_BYTES}"
            )));
        }
        let reservation = Reservation::new(bytes)?;
        reservation.make_private()?;
        Ok(Self::new(reservation, Kind::Private))
    }

    fn new(reservation: Reservation, kind: Kind) -> Self {
        Self { reservation: Arc::new(reservation), kind, is_leaving: false }
    }

    pub(super) fn range(&self) -> AddrRange {
        self.reservation.range()
    }

    /// The memory, kept mapped.
    pub(super) fn memory(&self) -> Memory {
        let is_private = matches!(self.kind, Kind::Private);
        Memory { reservation: Arc::clone(&self.reservation), is_private }
    }

    /// Whether a range inside may become memory of this protection.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(super) fn admits(
        &self,
        prot: Prot,
        range: AddrRange,
        has_content: bool,
    ) -> std::result::Result<(), String> {
        if self.is_leaving {
            return Err("its slab is being released".to_owned());
        }
        match &self.kind {
            Kind::Private => Ok(()),
            Kind::Shared(_) if has_content => {
                Err("content for shared memory, which its controller writes itself".to_owned())
            }
            Kind::Shared(stripes) if stripes[prot.index()].encloses(range) => Ok(()),
            Kind::Shared(_) => Err(format!("not inside the stripe of {prot:?} memory")),
        }
    }

    /// From now on nothing new is initialized here.
    ///
    /// # Errors
    ///
    /// When somebody has begun that already.
    pub(super) fn begin_release(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_leaving, true) {
            let start = self.range().start;
            return Err(Error::invalid(format!("the slab at {start} is being released already")));
        }
        Ok(())
    }
}

/// Unmaps slabs, neighbours together. Returns those that the kernel refuses to unmap, of use again, and why.
pub(super) fn unmap_all(slabs: Vec<Slab>) -> (Vec<Slab>, Option<Error>) {
    let mut kinds = Vec::with_capacity(slabs.len());
    let mut ranges = Vec::with_capacity(slabs.len());
    for slab in slabs {
        // Whoever fills or empties memory of a slab keeps it from being released.
        if let Some(reservation) = Arc::into_inner(slab.reservation) {
            kinds.push((reservation.start(), slab.kind));
            ranges.push(reservation);
        }
    }
    let (kept, why) = Reservation::unmap_all(ranges);
    let kept = kept.into_iter().filter_map(|reservation| {
        let at = kinds.iter().position(|(start, _)| *start == reservation.start())?;
        Some(Slab::new(reservation, kinds.swap_remove(at).1))
    });
    (kept.collect(), why)
}
