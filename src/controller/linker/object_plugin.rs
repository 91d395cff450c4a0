//! Plugins of object layers and of dylibs: they look at links, or change them.

use std::fmt;
use std::sync::Arc;

use super::finalizing::{Additions, Finalizing};
use super::linking::LinkMemory;
use crate::controller::memory::executor_memory::ExecutorMemory;
use crate::error::{Error, Result};
use crate::jit::{JITDylib, MaterializationResponsibility, ResourceKey};
use crate::link::{Image, LinkGraph, PlacedObject};
use crate::sync::Mutex;

/// A plugin of an [`ObjectLayer`](crate::orc::ObjectLayer) or a [`Dylib`](crate::controller::Library): it looks at each link, or
/// changes it. Links of a dylib have no responsibility, so a dylib calls only [`finalizing`](ObjectPlugin::finalizing).
///
/// Plugins run on the thread that runs the phase of the link, and that thread may have just received an answer. So a plugin must not
/// wait for a call or a lookup. It adds what it needs from the executor as an [action](Finalizing::add_action), which no thread
/// waits for.
///
/// | order | function | state of the link |
/// |---|---|---|
/// | 1 | [`prepare`](ObjectPlugin::prepare) | the graph has its objects |
/// | 2 | [`fixed_up`](ObjectPlugin::fixed_up) | the image is made and can be changed |
/// | 3 | [`finalizing`](ObjectPlugin::finalizing) | the image is final; memory and actions can be added |
/// | 4 | [`notify_emitted`](ObjectPlugin::notify_emitted) | the image is stored |
/// | instead | [`notify_failed`](ObjectPlugin::notify_failed) | the memory is freed |
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use std::sync::Arc;
/// use farcall::orc::ObjectLayer;
/// use farcall::controller::plugin::ObjectPlugin;
/// use farcall::orc::{ExecutionSession, MaterializationResponsibility};
///
/// struct ReportFailures;
///
/// impl ObjectPlugin for ReportFailures {
///     fn notify_failed(&self, _: &MaterializationResponsibility, error: &farcall::Error) {
///         eprintln!("a link failed: {error}");
///     }
/// }
///
/// let session = ExecutionSession::new();
/// ObjectLayer::new(&session, &process).add_plugin(Arc::new(ReportFailures));
/// # Ok::<(), farcall::Error>(())
/// ```
pub trait ObjectPlugin: Send + Sync {
    /// A link begins: `graph` has its objects.
    ///
    /// # Errors
    ///
    /// An error fails the link.
    fn prepare(
        &self,
        responsibility: &MaterializationResponsibility,
        graph: &mut LinkGraph,
    ) -> Result<()> {
        let _ = (responsibility, graph);
        Ok(())
    }

    /// The image is made for its addresses, and may still be changed.
    ///
    /// # Errors
    ///
    /// An error fails the link.
    fn fixed_up(
        &self,
        responsibility: &MaterializationResponsibility,
        image: &mut Image,
    ) -> Result<()> {
        let _ = (responsibility, image);
        Ok(())
    }

    /// The image is final: the plugin may add memory and actions to the link.
    ///
    /// # Errors
    ///
    /// An error fails the link and frees the added memory.
    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        let _ = link;
        Ok(())
    }

    /// The image is stored, and the layer is about to record it.
    ///
    /// # Errors
    ///
    /// An error fails the link.
    fn notify_emitted(&self, responsibility: &MaterializationResponsibility) -> Result<()> {
        let _ = responsibility;
        Ok(())
    }

    /// A link has failed, and its memory is freed.
    fn notify_failed(&self, responsibility: &MaterializationResponsibility, error: &Error) {
        let _ = (responsibility, error);
    }

    /// The memory of the links that are recorded under a key is about to be freed.
    ///
    /// # Errors
    ///
    /// After an error the memory stays allocated until the session with the executor ends.
    fn notify_removing(&self, dylib: &JITDylib, key: ResourceKey) -> Result<()> {
        let _ = (dylib, key);
        Ok(())
    }

    /// The links that were recorded under `from` now belong to `to`. Called **under the session's lock**.
    fn notify_transferring(&self, dylib: &JITDylib, to: ResourceKey, from: ResourceKey) {
        let _ = (dylib, to, from);
    }
}

/// What the plugins add to a link with this image in this memory.
///
/// # Errors
///
/// The error of the first plugin that refuses.
pub(super) fn collect<'a>(
    memory: &'a ExecutorMemory,
    plugins: &[Arc<dyn ObjectPlugin>],
    objects: &'a [PlacedObject],
    image: &'a Image,
    own: &LinkMemory,
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

    /// The plugins that are added so far.
    pub(crate) fn all(&self) -> Vec<Arc<dyn ObjectPlugin>> {
        self.0.lock().clone()
    }
}

impl fmt::Debug for Plugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plugins").field(&self.all().len()).finish()
    }
}
