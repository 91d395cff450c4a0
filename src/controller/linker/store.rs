//! The last passes of a link: from a layout with addresses to code that can be called.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::linking::{LinkMemory, LinkedMemory, Linker, Placed, Requirements};
use super::object_plugin::{ObjectPlugin, collect};
use crate::error::Result;
use crate::link::{Image, names_file};
use crate::{ExecutorAddr, PerProt, Prot};

/// A link whose code can be called.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The image, without its symbols.
    pub(crate) image: Image,
    pub(crate) memory: LinkedMemory,
    /// The address of its data.
    pub(crate) data: ExecutorAddr,
    /// The time that the image took.
    pub(crate) fixup: Duration,
    /// The time that storing the image took, and posting its actions.
    pub(crate) transfer: Duration,
}

impl Linker {
    /// Makes the image of a link, lets plugins add to it, stores it, and posts its actions. `fixed_up` sees the image before the
    /// plugins do. The image has its bytes if there are plugins, or with `keeps_bytes`. `handle` is the program's; the first link that
    /// needs one sets it.
    ///
    /// # Errors
    ///
    /// When a relocation cannot be made, `fixed_up` or a plugin refuses, memory runs out, or the session is over. All memory
    /// of the link is freed then.
    pub(crate) fn store(
        &self,
        placed: Placed<'_>,
        plugins: &[Arc<dyn ObjectPlugin>],
        fixed_up: impl FnOnce(&mut Image) -> Result<()>,
        keeps_bytes: bool,
        requirements: &Requirements,
        handle: &mut ExecutorAddr,
    ) -> Result<Stored> {
        let begun = Instant::now();
        let objects = if plugins.is_empty() { Vec::new() } else { placed.objects() };
        let stored_bytes = placed.stored_data_bytes();
        let is_looked_at = !plugins.is_empty() || keeps_bytes;
        let (mut image, memory) =
            if is_looked_at { placed.fixup()? } else { placed.fixup_in_pieces()? };
        fixed_up(&mut image)?;
        let fixup = begun.elapsed();

        let begun = Instant::now();
        let mut additions = collect(&self.memory, plugins, &objects, &image, &memory)?;
        if is_looked_at {
            memory.write(&image);
        }
        let data = memory.start(Prot::Data);
        let LinkMemory { allocation, tls, .. } = memory;
        if requirements.names {
            let ranges = PerProt::from_fn(|prot| allocation.range(prot));
            self.add_names(&mut additions, &image.symbols, ranges)?;
        }
        if let Some(known) = &requirements.precedes {
            let ranges = PerProt::from_fn(|prot| allocation.range(prot));
            let (file, names) = names_file(&image.symbols, |name| known.may_contain(name));
            // Most programs have no name in common with a library.
            if names > 0 || requirements.has_libraries || requirements.advises {
                let stored = requirements.advises.then_some(stored_bytes);
                self.add_precedence(&mut additions, &file, ranges, stored)?;
            }
        }
        let actions = self.actions(&image, &allocation, requirements, handle)?;
        let (base, added) = self.finalize(allocation, actions, additions)?;
        let symbols = Arc::new(std::mem::take(&mut image.symbols));
        self.memory.remote().remember(&symbols);
        let (tls, handlers) = (tls.keep(), Vec::new());
        let memory = LinkedMemory { base, added, tls, symbols, handlers };
        Ok(Stored { image, memory, data, fixup, transfer: begun.elapsed() })
    }
}
