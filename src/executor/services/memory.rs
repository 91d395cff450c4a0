//! The memory map's functions of the contract, farcall's and LLVM's.

use crate::call::contract::{
    self, Action, MemoryDeinitialize, MemoryInitialize, MemoryRefresh, MemoryRelease,
    MemoryReserve, NamedInitialize, NamedReserve, NamedSegment, NativeDeinitialize,
    NativeDeinitializeOne, NativeInitialize, NativeRelease, NativeReleaseOne, NativeReserve,
    Placement, Region, RegionAttach, RegionDetach,
};
use crate::error::{Error, Result};
use crate::executor::context::instance::Instance;
use crate::executor::entry::wrapper::{Serve, offer};
use crate::executor::memory::{MemoryMap, Segment};
use crate::executor::process::names::dlsym;
use crate::limits::PAGE_BYTES;
use crate::sps::{AllocGroup, Bytes, Expected, Lifetime, Status};
use crate::{AddrRange, ExecutorAddr};

/// The names and addresses of the functions in this file.
pub(crate) fn functions() -> [(String, ExecutorAddr); 15] {
    [
        offer::<MemoryReserve>(),
        offer::<MemoryInitialize>(),
        offer::<MemoryDeinitialize>(),
        offer::<MemoryRelease>(),
        offer::<MemoryRefresh>(),
        offer::<NativeReserve>(),
        offer::<NativeInitialize>(),
        offer::<NativeDeinitialize>(),
        offer::<NativeRelease>(),
        offer::<NativeDeinitializeOne>(),
        offer::<NativeReleaseOne>(),
        offer::<NamedReserve>(),
        offer::<NamedInitialize>(),
        offer::<RegionAttach>(),
        offer::<RegionDetach>(),
    ]
}

impl Serve for MemoryReserve {
    fn serve((instance, placement): (ExecutorAddr, Placement)) -> Result<ExecutorAddr> {
        let session = Instance::at(instance)?;
        session
            .acceptor()?
            .next_slab()
            .map_err(|error| error.during(format_args!("{placement:?} slab")))
    }
}

impl Serve for MemoryInitialize {
    fn serve(
        (instance, regions, actions): (ExecutorAddr, Vec<Region>, Vec<(Action, Action)>),
    ) -> Result<ExecutorAddr> {
        let segment = |(number, start, bytes)| {
            let group = AllocGroup::from_number(number).ok_or_else(|| {
                Error::invalid(format!("the region at {start} is for {number:#x}: no such group"))
            })?;
            Ok(Segment { group, start, bytes, content: None })
        };
        let segments: Vec<_> = regions.into_iter().map(segment).collect::<Result<_>>()?;
        Instance::at(instance)?.memory.initialize(&segments, actions)
    }
}

impl Serve for MemoryDeinitialize {
    fn serve((instance, bases): (ExecutorAddr, Vec<ExecutorAddr>)) -> Result<()> {
        let session = Instance::at(instance)?;
        let removed = session.memory.deinitialize(&bases);
        dlsym::forget(|address| session.memory.is_free(address));
        removed
    }
}

impl Serve for MemoryRelease {
    fn serve((instance, slabs): (ExecutorAddr, Vec<ExecutorAddr>)) -> Result<()> {
        let session = Instance::at(instance)?;
        let all = session.memory.slabs();
        let removed = session.memory.release(&slabs);
        let left = session.memory.slabs();
        let is_in = |slabs: &[AddrRange], address| slabs.iter().any(|slab| slab.contains(address));
        dlsym::forget(|address| is_in(&all, address) && !is_in(&left, address));
        removed
    }
}

impl Serve for MemoryRefresh {
    fn serve((instance, code): (ExecutorAddr, AddrRange)) -> Result<()> {
        Instance::at(instance)?.memory.refresh(code)
    }
}

impl Serve for RegionAttach {
    fn serve((instance, wanted): (ExecutorAddr, ExecutorAddr)) -> Result<ExecutorAddr> {
        Instance::at(instance)?.attached.wait(wanted)
    }
}

impl Serve for RegionDetach {
    fn serve((instance, wanted): (ExecutorAddr, ExecutorAddr)) -> Result<()> {
        Instance::at(instance)?.attached.detach(wanted)
    }
}

impl Serve for NativeReserve {
    fn serve((instance, bytes): (ExecutorAddr, u64)) -> Result<Expected<ExecutorAddr>> {
        let session = Instance::at(instance)?;
        Ok(match bytes {
            // As in LLVM's executor: LLVM 22's `lli` reserves nothing at its end, and takes any other answer for an error.
            0 => Ok(ExecutorAddr::NULL),
            bytes => session.memory.reserve_private(bytes),
        }
        .into())
    }
}

impl Serve for NativeInitialize {
    fn serve(
        (instance, segments, actions): (
            ExecutorAddr,
            Vec<contract::Segment>,
            Vec<(Action, Action)>,
        ),
    ) -> Result<Expected<ExecutorAddr>> {
        let session = Instance::at(instance)?;
        let segment = |(group, start, bytes, Bytes(content))| Segment {
            group,
            start,
            bytes,
            content: Some(content),
        };
        let segments = segments.into_iter().map(segment).collect();
        Ok(initialize(&session.memory, segments, actions).into())
    }
}

/// Initializes the segments of a request of LLVM's ([`in_pages`]).
///
/// # Errors
///
/// As [`MemoryMap::initialize`], and [`in_pages`].
fn initialize(
    memory: &MemoryMap,
    segments: Vec<Segment>,
    actions: Vec<(Action, Action)>,
) -> Result<ExecutorAddr> {
    let segments = in_pages(segments)?;
    if actions.is_empty()
        && let [Segment { start: ExecutorAddr::NULL, .. }] = segments[..]
    {
        return Ok(ExecutorAddr::NULL);
    }
    memory.initialize(&segments, actions)
}

/// The segments that the memory map initializes for a request of LLVM's.
///
/// | LLVM 22 sends | the memory map gets |
/// |---|---|
/// | a size that is not a multiple of the page size | whole pages |
/// | an empty segment | nothing; if all are empty, a page for the lowest, since the request needs an address |
/// | only segments that are freed after the finalize actions | the lowest one stays, for the same reason |
///
/// # Errors
///
/// If a segment is shorter than its content, or its size overflows.
fn in_pages(mut segments: Vec<Segment>) -> Result<Vec<Segment>> {
    for segment in &mut segments {
        let Segment { start, bytes, content, .. } = segment;
        if let Some(longer) = content.as_ref().filter(|content| content.len() as u64 > *bytes) {
            return Err(Error::invalid(format!(
                "{bytes} bytes at {start}: {} bytes of content",
                longer.len()
            )));
        }
        *bytes = whole_pages(*bytes)?;
    }
    segments.sort_by_key(|segment| segment.start);
    if segments.iter().all(|segment| segment.bytes == 0) {
        segments.truncate(1);
        segments.iter_mut().for_each(|lowest| lowest.bytes = PAGE_BYTES);
    }
    segments.retain(|segment| segment.bytes > 0);
    if segments.iter().all(|segment| segment.group.lifetime == Lifetime::Finalize)
        && let Some(lowest) = segments.first_mut()
    {
        lowest.group.lifetime = Lifetime::Standard;
    }
    Ok(segments)
}

/// Rounds a size up to whole pages.
///
/// # Errors
///
/// If it overflows.
fn whole_pages(bytes: u64) -> Result<u64> {
    bytes
        .checked_next_multiple_of(PAGE_BYTES)
        .ok_or_else(|| Error::invalid(format!("{bytes} bytes overflow when rounded up to pages")))
}

impl Serve for NamedReserve {
    fn serve((instance, bytes): (ExecutorAddr, u64)) -> Result<Expected<(ExecutorAddr, String)>> {
        let session = Instance::at(instance)?;
        Ok(whole_pages(bytes).and_then(|bytes| session.memory.reserve_named(bytes)).into())
    }
}

impl Serve for NamedInitialize {
    fn serve(
        (instance, slab, segments, actions): (
            ExecutorAddr,
            ExecutorAddr,
            Vec<NamedSegment>,
            Vec<(Action, Action)>,
        ),
    ) -> Result<Expected<ExecutorAddr>> {
        let session = Instance::at(instance)?;
        let slab = match session.memory.named(slab) {
            Ok(slab) => slab,
            Err(error) => return Ok(Err(error).into()),
        };
        let is_outside = |(_, start, bytes): &&NamedSegment| {
            !AddrRange::sized(*start, *bytes).is_some_and(|range| slab.encloses(range))
        };
        if let Some((_, start, bytes)) = segments.iter().find(is_outside) {
            return Ok(Err(Error::invalid(format!(
                "{bytes} bytes at {start}: not inside {}..{}",
                slab.start, slab.end
            )))
            .into());
        }
        let segment = |(group, start, bytes)| Segment { group, start, bytes, content: None };
        let segments = segments.into_iter().map(segment).collect();
        Ok(initialize(&session.memory, segments, actions).into())
    }
}

impl Serve for NativeDeinitialize {
    fn serve((instance, bases): (ExecutorAddr, Vec<ExecutorAddr>)) -> Result<Status> {
        Ok(Instance::at(instance)?.memory.deinitialize(&bases).into())
    }
}

impl Serve for NativeRelease {
    fn serve((instance, slabs): (ExecutorAddr, Vec<ExecutorAddr>)) -> Result<Status> {
        Ok(Instance::at(instance)?.memory.release(&slabs).into())
    }
}

impl Serve for NativeDeinitializeOne {
    fn serve((instance, base): (ExecutorAddr, ExecutorAddr)) -> Result<Status> {
        Ok(Instance::at(instance)?.memory.deinitialize(&[base]).into())
    }
}

impl Serve for NativeReleaseOne {
    fn serve((instance, slab): (ExecutorAddr, ExecutorAddr)) -> Result<Status> {
        Ok(Instance::at(instance)?.memory.release(&[slab]).into())
    }
}
