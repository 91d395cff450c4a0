//! What looks at links, or changes them: plugins of object layers and of dylibs.

use std::fmt;
use std::sync::Arc;

use super::finalizing::{Additions, Finalizing};
use super::linking::LinkMemory;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::error::{Error, Result};
use crate::jit::{JITDylib, MaterializationResponsibility, ResourceKey};
use crate::link::{Image, LinkGraph, PlacedObject};
use crate::sync::Mutex;

/// Something that looks at every link of an [`ObjectLayer`](crate::controller::ObjectLayer), or changes it. A
/// [`Dylib`](crate::controller::Dylib), whose
/// links have no responsibility, tells of [`finalizing`](ObjectPlugin::finalizing) alone.
///
/// The plugin runs on the thread that continues the link, which may have just received an answer. So it must not wait for a
/// call or a lookup. What needs the executor's help is added to the link as an [action](Finalizing::add_action), for which no
/// thread waits.
pub trait ObjectPlugin: Send + Sync {
    /// A link begins: `graph` has its objects.
    ///
    /// # Errors
    ///
    /// They fail the link.
    fn prepare(
        &self,
        responsibility: &MaterializationResponsibility,
        graph: &mut LinkGraph,
    ) -> Result<()> {
        let _ = (responsibility, graph);
        Ok(())
    }

    /// The image was made, and is about to be stored.
    ///
    /// # Errors
    ///
    /// They fail the link.
    fn fixed_up(
        &self,
        responsibility: &MaterializationResponsibility,
        image: &mut Image,
    ) -> Result<()> {
        let _ = (responsibility, image);
        Ok(())
    }

    /// The image is as it will be, and about to be finalized: memory and actions can be added to the link.
    ///
    /// # Errors
    ///
    /// They fail the link, and what was added is given back.
    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        let _ = link;
        Ok(())
    }

    /// The image is in place, and about to be recorded.
    ///
    /// # Errors
    ///
    /// They fail the link.
    fn notify_emitted(&self, responsibility: &MaterializationResponsibility) -> Result<()> {
        let _ = responsibility;
        Ok(())
    }

    /// A link has failed. What it had taken has been given back.
    fn notify_failed(&self, responsibility: &MaterializationResponsibility, error: &Error) {
        let _ = (responsibility, error);
    }

    /// What was recorded under a key is about to be given back.
    ///
    /// # Errors
    ///
    /// Then it is not given back until the session with the executor ends.
    fn notify_removing(&self, dylib: &JITDylib, key: ResourceKey) -> Result<()> {
        let _ = (dylib, key);
        Ok(())
    }

    /// What was recorded under `from` belongs to `to` now. Called **under the session's lock**.
    fn notify_transferring(&self, dylib: &JITDylib, to: ResourceKey, from: ResourceKey) {
        let _ = (dylib, to, from);
    }
}

/// What the plugins add to a link with this image in this memory.
///
/// # Errors
///
/// The first one's that refuses.
pub(super) fn collect<'a>(
    memory: &'a ExecutorMemory,
    plugins: &[Arc<dyn ObjectPlugin>],
    objects: &'a [PlacedObject],
    image: &'a Image,
    own: &LinkMemory<'_>,
) -> Result<Additions<'a>> {
    let mut link = Finalizing::new(memory, objects, image, own);
    plugins.iter().try_for_each(|plugin| plugin.finalizing(&mut link))?;
    Ok(link.into_additions())
}

/// Plugins, in the order in which they were added.
#[derive(Default)]
pub(crate) struct Plugins(Mutex<Vec<Arc<dyn ObjectPlugin>>>);

impl Plugins {
    pub(crate) fn add(&self, plugin: Arc<dyn ObjectPlugin>) {
        self.0.lock().push(plugin);
    }

    /// Those that there are now.
    pub(crate) fn all(&self) -> Vec<Arc<dyn ObjectPlugin>> {
        self.0.lock().clone()
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plugins").field(&self.all().len()).finish()
    }
}
