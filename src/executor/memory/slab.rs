//! A slab: a range of address space in which regions are initialized.
//!
//! Invariant: the protections of a shared slab never change; only the memory map changes the protections of other slabs.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::Segment;
use crate::call::contract::Placement;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;
use crate::sys::memory::map::Reservation;
use crate::sys::memory::memfd;
use crate::sys::memory::named::{self, Name};
use crate::sys::processor;
use crate::{AddrRange, ExecutorAddr, Prot};

/// A shared, private or named slab. Dropping it unmaps it.
#[derive(Debug)]
pub(super) struct Slab {
    reservation: Arc<Reservation>,
    kind: Kind,
    /// Its release has begun.
    is_releasing: bool,
}

#[derive(Debug)]
enum Kind {
    /// One stripe per protection, which the controller fills.
    Shared(Box<[AddrRange; Prot::ALL.len()]>),
    /// Plain memory, which the executor fills.
    Private,
    /// A file with a name, which the controller fills. The executor sets protections.
    Named {
        /// Removed with the slab, if the controller has not removed it.
        _name: Name,
    },
}

/// The memory of a slab; it stays mapped while this value lives.
#[derive(Debug)]
pub(super) struct Memory {
    reservation: Arc<Reservation>,
    /// Content and protections are not the executor's to change.
    is_striped: bool,
}

/// Whole pages that are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) range: AddrRange,
    /// The number of bytes from the start that may be nonzero. `None` if code may have written anywhere.
    pub(super) stored: Option<u64>,
}

impl Pages {
    /// The range from the first to the last of adjacent pages.
    pub(super) fn span(neighbours: &[Pages]) -> Option<AddrRange> {
        let (first, last) = (neighbours.first()?, neighbours.last()?);
        Some(AddrRange { start: first.range.start, end: last.range.end })
    }

    /// The part with known content that has memory; it may be empty.
    pub(super) fn held(&self) -> AddrRange {
        let start = self.range.start;
        let bytes = self.stored.unwrap_or(0).next_multiple_of(PAGE_BYTES);
        AddrRange::sized(start, bytes).unwrap_or(AddrRange { start, end: start })
    }

    fn stored_range(&self) -> Option<AddrRange> {
        AddrRange::sized(self.range.start, self.stored?)
    }
}

/// True when `next` starts where `one` ends.
pub(super) fn touch(one: &Pages, next: &Pages) -> bool {
    one.range.end == next.range.start
}

impl Memory {
    /// The whole range.
    pub(super) fn range(&self) -> AddrRange {
        self.reservation.range()
    }

    #[cfg(test)]
    pub(super) fn reservation(&self) -> &Reservation {
        &self.reservation
    }

    /// Takes the copies that a debugger has made of pages of code.
    ///
    /// # Errors
    ///
    /// If they are not whole pages, or the system refuses.
    pub(super) fn refresh(&self, code: AddrRange) -> Result<()> {
        // A mapped file is not emptied: its pages are read again.
        if self.is_striped { self.reservation.discard(code) } else { Ok(()) }
    }

    /// Stores the content of segments and sets their protections; adjacent segments of one protection in one system
    /// call. Does nothing in a shared slab, which the controller fills.
    ///
    /// # Errors
    ///
    /// If the system refuses; part of the work has been done then.
    pub(super) fn fill(&self, segments: &[Segment]) -> Result<()> {
        if self.is_striped {
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
                if prot == Prot::Code {
                    processor::publish_code(run);
                }
            }
        }
        Ok(())
    }

    /// Makes pages empty, readable and writable, and frees their memory; adjacent pages together. Does nothing in a
    /// shared slab.
    ///
    /// # Errors
    ///
    /// The first refusal of the system; the rest has been done nevertheless.
    pub(super) fn discard(&self, pages: &[Pages]) -> Result<()> {
        if self.is_striped {
            return Ok(());
        }
        let runs = coalesced(pages.iter().map(|pages| pages.range).collect()).into_iter();
        runs.map(|run| self.reservation.reset(run)).fold(Ok(()), Result::and)
    }

    /// Makes sorted pages empty, readable and writable, adjacent ones together. Pages with known content keep their
    /// memory and are added to `kept`. Does nothing in a shared slab.
    ///
    /// # Errors
    ///
    /// As [`Memory::discard`].
    pub(super) fn reset(&self, pages: &[Pages], kept: &mut Vec<AddrRange>) -> Result<()> {
        if self.is_striped {
            return Ok(());
        }
        let runs = pages.chunk_by(touch);
        runs.map(|run| self.reset_run(run, kept)).fold(Ok(()), Result::and)
    }

    fn reset_run(&self, run: &[Pages], kept: &mut Vec<AddrRange>) -> Result<()> {
        let Some(whole) = Pages::span(run) else { return Ok(()) };
        // Pages with unknown content are discarded first: changing the protection of a page without memory is cheap.
        for alike in run.chunk_by(|one, next| one.stored.is_some() == next.stored.is_some()) {
            if let (Some(unknown), [Pages { stored: None, .. }, ..]) = (Pages::span(alike), alike) {
                self.reservation.discard(unknown)?;
            }
        }
        let stored = run.iter().filter_map(Pages::stored_range);
        self.reservation.wipe(whole, stored).inspect_err(|_| {
            // They are emptied nevertheless.
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

/// Merges adjacent ranges. The ranges do not overlap.
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
    /// Maps one stripe per protection, each the whole of its file. Code that is mapped privately shows what the controller stores
    /// all the same, until a debugger writes to a page.
    ///
    /// # Errors
    ///
    /// If a file's size is not a positive multiple of the page size, a file is not sealed, or address space runs out.
    pub(super) fn shared(
        placement: Placement,
        files: Vec<OwnedFd>,
        has_private_code: bool,
    ) -> Result<(Self, AddrRange)> {
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
        Self::striped(placement, sizes, |reservation, prot, offset, size| {
            let file = &files[prot.index()];
            match has_private_code && prot == Prot::Code {
                true => reservation.map_privately(offset, size, prot, file),
                false => reservation.map(offset, size, prot, file),
            }
        })
    }

    /// The same for a controller in this process. Code and constants are mapped from their files, in this order. The data is plain memory
    /// of the process: a forked child has a copy.
    ///
    /// # Errors
    ///
    /// As [`Slab::shared`].
    pub(super) fn in_process(
        placement: Placement,
        files: [BorrowedFd<'_>; 2],
        data_bytes: u64,
        has_private_code: bool,
    ) -> Result<Self> {
        let [code, constants] = files;
        let sizes = [memfd::sealed_bytes(code)?, memfd::sealed_bytes(constants)?, data_bytes];
        let striped =
            Self::striped(placement, sizes, |reservation, prot, offset, size| match prot {
                Prot::Code if has_private_code => {
                    reservation.map_privately(offset, size, prot, code)
                }
                Prot::Code => reservation.map(offset, size, prot, code),
                Prot::Constants => reservation.map(offset, size, prot, constants),
                Prot::Data => {
                    let start = ExecutorAddr::new(reservation.start() + offset);
                    let data = AddrRange::sized(start, size).unwrap_or_default();
                    reservation.protect(data, prot)
                }
            });
        striped.map(|(slab, _)| slab)
    }

    /// Reserves a slab of stripes with these sizes, each of which `map` maps: its protection, its offset and its size.
    fn striped(
        placement: Placement,
        sizes: [u64; Prot::ALL.len()],
        map: impl Fn(&Reservation, Prot, u64, u64) -> Result<()>,
    ) -> Result<(Self, AddrRange)> {
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
        for (prot, size) in Prot::ALL.into_iter().zip(sizes) {
            map(&reservation, prot, offset, size)?;
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
    /// If the size is not a positive multiple of the page size, or address space runs out.
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

    /// Maps a new file, readable and writable. Returns the file's name, by which the controller opens it.
    ///
    /// # Errors
    ///
    /// If the system refuses the file or its size, code cannot run from it, or address space runs out.
    pub(super) fn named(bytes: u64) -> Result<(Self, String)> {
        let reservation = Reservation::new(bytes)?;
        let (file, name) = named::create(bytes)?;
        reservation.map(0, bytes, Prot::Data, file)?;
        let opened_by = name.as_str().to_owned();
        Ok((Self::new(reservation, Kind::Named { _name: name }), opened_by))
    }

    fn new(reservation: Reservation, kind: Kind) -> Self {
        Self { reservation: Arc::new(reservation), kind, is_releasing: false }
    }

    pub(super) fn range(&self) -> AddrRange {
        self.reservation.range()
    }

    /// The memory, which stays mapped while the result lives.
    pub(super) fn memory(&self) -> Memory {
        let is_striped = matches!(self.kind, Kind::Shared(_));
        Memory { reservation: Arc::clone(&self.reservation), is_striped }
    }

    /// The address space, which stays mapped while the result lives.
    pub(super) fn reservation(&self) -> Arc<Reservation> {
        Arc::clone(&self.reservation)
    }

    /// True if the controller opens the slab by a name.
    pub(super) fn has_name(&self) -> bool {
        matches!(self.kind, Kind::Named { .. })
    }

    /// Checks that a range of the slab may become memory of this protection.
    ///
    /// # Errors
    ///
    /// The reason against it.
    pub(super) fn admits(
        &self,
        prot: Prot,
        range: AddrRange,
        has_content: bool,
    ) -> std::result::Result<(), String> {
        if self.is_releasing {
            return Err("its slab is being released".to_owned());
        }
        match &self.kind {
            Kind::Private => Ok(()),
            Kind::Shared(_) | Kind::Named { .. } if has_content => {
                Err("content for shared memory, which its controller writes itself".to_owned())
            }
            Kind::Named { .. } => Ok(()),
            Kind::Shared(stripes) if stripes[prot.index()].encloses(range) => Ok(()),
            Kind::Shared(_) => Err(format!("not inside the stripe of {prot:?} memory")),
        }
    }

    /// Marks the slab as being released: no region is initialized in it any more.
    ///
    /// # Errors
    ///
    /// If it is being released already.
    pub(super) fn begin_release(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_releasing, true) {
            let start = self.range().start;
            return Err(Error::invalid(format!("the slab at {start} is being released already")));
        }
        Ok(())
    }
}

/// Unmaps slabs, adjacent ones together. Returns those that the kernel refuses to unmap, usable again, and the
/// reason.
pub(super) fn unmap_all(slabs: Vec<Slab>) -> (Vec<Slab>, Option<Error>) {
    let mut kinds = Vec::with_capacity(slabs.len());
    let mut ranges = Vec::with_capacity(slabs.len());
    for slab in slabs {
        // A slab whose memory is being filled or emptied is not released.
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
