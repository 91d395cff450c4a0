//! Linked code made known to debuggers: gdb and lldb see functions, lines and variables of it.

use crate::AddrRange;
use crate::controller::linker::finalizing::Finalizing;
use crate::controller::linker::object_plugin::ObjectPlugin;
use crate::error::Result;
use crate::link::PlacedObject;

/// Registers every object of a link with the debugger of the executor (the JIT interface of GDB), if there is one now or
/// later.
///
/// A copy of the object file, with the addresses of its sections, lies in the executor's memory as long as the link does. It is
/// registered before any code of the link runs, and taken back before the memory goes; neither is waited for.
///
/// Linked code cannot be written by the executor, nor by a debugger: breakpoints in it have to be the processor's own (gdb: `hbreak`).
#[derive(Debug, Clone, Copy, Default)]
pub struct DebugObjects;

/// What copies start at a multiple of.
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
