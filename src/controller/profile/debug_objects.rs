//! Debug information of linked code for gdb and lldb: functions, lines and variables.

use crate::AddrRange;
use crate::controller::linker::finalizing::Finalizing;
use crate::controller::linker::object_plugin::ObjectPlugin;
use crate::error::Result;
use crate::link::PlacedObject;

/// Registers each object of a link with a debugger of the executor, present or future (the JIT interface of GDB).
///
/// The plugin adds a copy of the object file, with the addresses of its sections, to the link. The copy is registered before any code
/// of the link runs, and deregistered before the memory is freed. No thread waits for either.
///
/// A debugger can set breakpoints in linked code if the executor was started by
/// [`ExecutorBuilder::debuggable`](crate::controller::ExecutorBuilder::debuggable). Elsewhere breakpoints must be those of the
/// processor (gdb: `hbreak`).
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// use std::sync::Arc;
/// use farcall::controller::profile::DebugObjects;
/// executor.library("main").add_plugin(Arc::new(DebugObjects))?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct DebugObjects;

/// The alignment of the copies in bytes.
const ALIGNMENT: usize = 16;

impl ObjectPlugin for DebugObjects {
    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        let mut copies = Vec::new();
        let mut parts = Vec::new();
        for object in link.objects().iter().filter(|object| object.is_there()) {
            copies.resize(copies.len().next_multiple_of(ALIGNMENT), 0);
            let start = copies.len() as u64;
            copies.extend_from_slice(&PlacedObject::debug_object(object));
            parts.push((start, copies.len() as u64 - start));
        }
        if parts.is_empty() {
            return Ok(());
        }
        link.add_constants(&copies, |memory, all| {
            let part = |(start, bytes)| {
                let start = all.start.checked_add(start)?;
                AddrRange::sized(start, bytes)
            };
            parts.into_iter().filter_map(part).map(|range| memory.debug_object(range)).collect()
        })
    }
}
