//! The last passes of a link: from places to code that can be called.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::linking::{Left, Linker, Placed, Room, Wants};
use super::object_plugin::{ObjectPlugin, collect};
use crate::error::Result;
use crate::link::Image;
use crate::{ExecutorAddr, Prot};

/// A link whose code can be called.
#[derive(Debug)]
pub(crate) struct Stored {
    /// The image, without its symbols.
    pub(crate) image: Image,
    pub(crate) left: Left,
    /// Where the data is.
    pub(crate) data: ExecutorAddr,
    /// How long it took to make the image.
    pub(crate) fixup: Duration,
    /// How long it took to store it, and to post what registers it.
    pub(crate) transfer: Duration,
}

impl Linker {
    /// Makes the image of a link, has plugins add to it, stores it, and posts what registers it. `fixed_up` looks at the image
    /// before plugins do. `handle` is the program's, which is set when the link is its first that needs one.
    ///
    /// # Errors
    ///
    /// When a relocation cannot be made, `fixed_up` or a plugin refuses, memory runs out, or the session is over. Nothing is
    /// left then.
    pub(crate) fn store(
        &self,
        placed: Placed<'_>,
        plugins: &[Arc<dyn ObjectPlugin>],
        fixed_up: impl FnOnce(&mut Image) -> Result<()>,
        wants: &Wants,
        handle: &mut ExecutorAddr,
    ) -> Result<Stored> {
        let begun = Instant::now();
        let objects = if plugins.is_empty() { Vec::new() } else { placed.objects() };
        let (mut image, mut room) = placed.fixup()?;
        fixed_up(&mut image)?;
        let fixup = begun.elapsed();

        let begun = Instant::now();
        let additions = collect(&self.memory, plugins, &objects, &image, &room)?;
        room.write(&image);
        let data = room.start(Prot::Data);
        let Room { memory, threads, .. } = room;
        let actions = self.actions(&image, &memory, wants, handle)?;
        let (memory, added) = self.finalize(memory, actions, additions)?;
        let symbols = Arc::new(std::mem::take(&mut image.symbols));
        self.memory.remote().remember(&symbols);
        let left = Left { memory, added, threads: threads.keep(), symbols };
        Ok(Stored { image, left, data, fixup, transfer: begun.elapsed() })
    }
}
