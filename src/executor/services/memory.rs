//! The memory map's functions of the contract, those of farcall and of LLVM.

use crate::ExecutorAddr;
use crate::call::contract::{
    self, Action, MemoryDeinitialize, MemoryInitialize, MemoryRelease, MemoryReserve,
    NativeDeinitialize, NativeDeinitializeOne, NativeInitialize, NativeRelease, NativeReleaseOne,
    NativeReserve, Placement, Region, RegionAttach, RegionDetach,
};
use crate::error::{Error, Result};
use crate::executor::context::instance::Instance;
use crate::executor::entry::wrapper::{Serve, offer};
use crate::executor::memory::Segment;
use crate::sps::{AllocGroup, Bytes, Expected, Status};

/// The names and addresses of the functions in this file.
pub(crate) fn functions() -> [(String, ExecutorAddr); 12] {
    [
        offer::<MemoryReserve>(),
        offer::<MemoryInitialize>(),
        offer::<MemoryDeinitialize>(),
        offer::<MemoryRelease>(),
        offer::<NativeReserve>(),
        offer::<NativeInitialize>(),
        offer::<NativeDeinitialize>(),
        offer::<NativeRelease>(),
        offer::<NativeDeinitializeOne>(),
        offer::<NativeReleaseOne>(),
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
        Instance::at(instance)?.memory.deinitialize(&bases)
    }
}

impl Serve for MemoryRelease {
    fn serve((instance, slabs): (ExecutorAddr, Vec<ExecutorAddr>)) -> Result<()> {
        Instance::at(instance)?.memory.release(&slabs)
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
        Ok(Instance::at(instance)?.memory.reserve_private(bytes).into())
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
        let segments: Vec<_> = segments.into_iter().map(segment).collect();
        Ok(session.memory.initialize(&segments, actions).into())
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
