//! Names from outside: which the graph lacks, and what they are defined as.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::interface::{External, Undefined};
use super::link_graph::{Global, LinkGraph, Resolution, ThreadFunctions};
use super::provided::{DSO_HANDLE_NAME, THREAD_FUNCTION_NAME, is_provided};
use crate::addr::{ExecutorAddr, Prot};
use crate::arch::edge::Formula;
use crate::error::Result;
use crate::read::parsed::Role;

impl LinkGraph {
    /// The undefined names that relocations of needed sections refer to, sorted. Names that the linker defines are not among
    /// them: `_GLOBAL_OFFSET_TABLE_`, `_TLS_MODULE_BASE_`, `__dso_handle`, and `__start_X` and `__stop_X` of a section X. Nor
    /// are bounds of the image such as `etext`, `edata`, `end` and `__init_array_start`.
    #[must_use]
    pub fn undefined(&self) -> Vec<Undefined> {
        let sets = self.named_sections();
        let sites = self.sites(|site| {
            let global = self.globals.get(site.binding() as usize);
            global.is_some_and(|global| global.resolution == Resolution::None)
        });
        let mut needs: BTreeMap<u32, Undefined> = BTreeMap::new();
        for site in sites {
            let weak = site.symbol().weak;
            let narrow = site.edge.kind.is_narrow();
            let need = needs.entry(site.binding()).or_insert_with(|| Undefined {
                name: Arc::from(self.names.text(site.binding())),
                weak,
                narrow,
                thread: false,
                used_by: Arc::clone(site.input.object.shared_name()),
            });
            need.weak &= weak;
            need.narrow |= narrow;
            need.thread |= matches!(site.edge.kind.formula, Formula::Thread(_));
        }
        let mut needs: Vec<Undefined> = needs.into_values().collect();
        needs.retain(|need| !is_provided(&need.name, &sets));
        needs.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        needs
    }

    /// Defines a name from outside. The name may be undefined, or weak or common: then this definition replaces the graph's
    /// own. For any other name this does nothing. Call it after the last object was added. A plain address counts as data;
    /// set [`External::callable`] for a function.
    pub fn define_external(&mut self, name: &str, found: impl Into<External>) {
        let Some(id) = self.names.number(name) else { return };
        let global = &mut self.globals[id as usize];
        match global.resolution {
            Resolution::Here { weak: false, .. } => return,
            Resolution::Here { input, .. } => {
                self.losers.insert(input);
            }
            Resolution::None | Resolution::External(_) | Resolution::Common { .. } => {}
        }
        global.resolution = Resolution::External(found.into());
    }

    /// Sets the two functions by which code finds dynamic thread-locals (see
    /// [`Layout::with_dynamic_threads`](crate::Layout::with_dynamic_threads)).
    ///
    /// - Code calls the function at `address` with the address of two words: the number of a TLS module, and a distance in its
    ///   TLS block.
    /// - TLS descriptors hold `descriptor`, and the distance in their third word.
    ///
    /// Call it once, before [`layout`](Self::layout).
    ///
    /// # Errors
    /// There are 2^32 names already.
    pub fn define_thread_functions(
        &mut self,
        address: ExecutorAddr,
        descriptor: ExecutorAddr,
    ) -> Result<()> {
        let global = Arc::make_mut(&mut self.names).add_internal(THREAD_FUNCTION_NAME)?;
        let found = External { callable: true, ..External::from(address) };
        self.globals.push(Global {
            resolution: Resolution::External(found),
            hidden: true,
            wanted: false,
        });
        self.thread_functions = Some(ThreadFunctions { global, address, descriptor });
        Ok(())
    }

    /// True when an object refers to `__dso_handle` and none defines it: the linker does, unless it is
    /// [defined](Self::define_external) from outside.
    #[must_use]
    pub fn lacks_handle(&self) -> bool {
        self.global(DSO_HANDLE_NAME).is_some_and(|one| one.resolution == Resolution::None)
    }

    /// The sections whose names are C identifiers, for which `__start_X` and `__stop_X` exist. With each name the stripe of all
    /// sections of that name.
    pub(crate) fn named_sections(&self) -> BTreeMap<&str, Prot> {
        let mut sets = BTreeMap::new();
        for input in &self.inputs {
            for (_, section) in input.kept_sections() {
                if matches!(section.role, Role::Plain) && section.is_named {
                    let name = input.object.text(section.name);
                    let prot = sets.entry(name).or_insert(section.prot);
                    if section.prot == Prot::Data {
                        *prot = Prot::Data;
                    }
                }
            }
        }
        sets
    }
}
