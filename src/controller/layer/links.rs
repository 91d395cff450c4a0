//! The links of an object layer, by the key of the tracker that owns them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::ExecutorAddr;
use crate::call::contract::Placement;
use crate::controller::linker::linking::Linked;
use crate::controller::linker::object_plugin::Plugins;
use crate::controller::session::Session;
use crate::error::Result;
use crate::jit::{JITDylib, ResourceKey, ResourceManager};
use crate::sync::{Mutex, MutexGuard};

pub(super) struct Links {
    pub(super) session: Arc<Session>,
    /// The slab of all its links.
    pub(super) placement: Placement,
    pub(super) plugins: Plugins,
    pub(super) records: Mutex<Records>,
}

#[derive(Default)]
pub(super) struct Records {
    pub(super) by_key: HashMap<ResourceKey, Vec<Linked>>,
    /// The symbols whose lookup links objects with initializers, until [`ObjectLayer::initialize`](super::object_layer::ObjectLayer)
    /// looks them up.
    pub(super) initializers: Vec<(JITDylib, Arc<str>)>,
    /// The number of such symbols so far.
    pub(super) numbered: u64,
    /// Programs whose initializers have not run, in order.
    pub(super) uninitialized: Vec<(JITDylib, ExecutorAddr)>,
}

impl Links {
    pub(super) fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock()
    }
}

impl ResourceManager for Links {
    fn remove_resources(&self, dylib: &JITDylib, key: ResourceKey) -> Result<()> {
        for plugin in self.plugins.all() {
            plugin.notify_removing(dylib, key)?;
        }
        let linked = {
            let mut records = self.records();
            let linked = records.by_key.remove(&key).unwrap_or_default();
            if !records.uninitialized.is_empty() {
                let removed: HashSet<u64> = linked.iter().map(|one| one.program.get()).collect();
                records.uninitialized.retain(|(_, program)| !removed.contains(&program.get()));
            }
            linked
        };
        self.session.linker.deallocate(&linked)
    }

    fn transfer_resources(&self, dylib: &JITDylib, to: ResourceKey, from: ResourceKey) {
        let mut records = self.records();
        if let Some(moved) = records.by_key.remove(&from) {
            records.by_key.entry(to).or_default().extend(moved);
        }
        drop(records);
        for plugin in self.plugins.all() {
            plugin.notify_transferring(dylib, to, from);
        }
    }
}
