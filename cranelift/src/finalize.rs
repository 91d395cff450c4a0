//! From definitions to code in the executor, and the end of that code.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::anyhow;
use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::KnownSymbol;
use cranelift_module::{DataId, FuncId, Linkage, ModuleError, ModuleRelocTarget, ModuleResult};
use farcall::controller::Library;
use farcall::link::{External, ObjectFile};
use farcall::{AddrRange, ExecutorAddr};
use object::SymbolKind;

use crate::definition::{Definition, Kind};
use crate::item::{ItemId, Linked};
use crate::module::FarcallModule;
use crate::object_file::{self, Outside, Place, Target};

/// Addresses that the objects of a batch refer to.
type Externals = BTreeMap<String, External>;

impl FarcallModule {
    /// Links what was defined since the last finalize, as one batch. Sends no message, or one when the batch imports names that
    /// [`FarcallBuilder::symbol`](crate::FarcallBuilder::symbol) does not define. With [hot
    /// swap](crate::FarcallBuilder::hotswap), one more registers the batch before the first stub leads there.
    ///
    /// # Errors
    ///
    /// - A definition refers to something that is declared and not defined.
    /// - The executor's libraries lack an imported name; the message has all such names.
    /// - Memory runs out, or the session is over.
    ///
    /// The definitions are dropped then, and may be made again; earlier batches stay.
    pub fn finalize_definitions(&mut self) -> ModuleResult<()> {
        let definitions = std::mem::take(&mut self.pending);
        if definitions.is_empty() {
            return Ok(());
        }
        let outcome = self.link(&definitions);
        for definition in &definitions {
            self.item_mut(definition.id)?.is_pending = false;
        }
        let (batch, placed) = outcome?;
        self.install(&Arc::new(batch), placed)
    }

    /// The address of a finalized function in the executor. With hot swap it is the address of a stub, and stays when the function is
    /// redefined.
    ///
    /// # Errors
    ///
    /// When the function is not finalized.
    pub fn get_finalized_function(&self, id: FuncId) -> ModuleResult<ExecutorAddr> {
        let (item, linked) = (self.item(id.into())?, self.linked(id.into())?);
        Ok(item.stub.as_ref().map_or(linked.range.start, |stub| stub.address()))
    }

    /// The addresses of a finalized data object in the executor.
    ///
    /// # Errors
    ///
    /// When the data object is not finalized, or is a thread-local, which has an address in each thread.
    pub fn get_finalized_data(&self, id: DataId) -> ModuleResult<AddrRange> {
        let linked = self.linked(id.into())?;
        if linked.is_thread_local {
            let (name, _) = self.declared(id.into())?;
            return Err(ModuleError::Backend(anyhow!(
                "{name} is a thread-local, at another address in each thread; call a function that returns its address"
            )));
        }
        Ok(linked.range)
    }

    /// Lets a finalized function be defined once more. Until the next [`finalize_definitions`](Self::finalize_definitions) all
    /// calls reach the present definition. After it, each call that begins reaches the new one. The old code is removed when no
    /// call of the controller is in it.
    ///
    /// Threads of the program's own may still run the old code then, and it must not keep their return addresses. Such a program
    /// stops these threads first.
    ///
    /// # Errors
    ///
    /// When the module has no [hot swap](crate::FarcallBuilder::hotswap), or the function is an import or is not finalized.
    pub fn prepare_for_function_redefine(&mut self, id: FuncId) -> ModuleResult<()> {
        let (name, linkage) = self.declared(id.into())?;
        if !linkage.is_definable() {
            return Err(ModuleError::InvalidImportDefinition(name));
        }
        if !self.hotswap {
            return Err(ModuleError::Backend(anyhow!(
                "{name} cannot be redefined: callers reach it directly; build the module with hotswap(true)"
            )));
        }
        self.linked(id.into())?;
        self.item_mut(id.into())?.is_replaceable = true;
        Ok(())
    }

    /// Frees a finalized function, which may be defined again. The memory is free when all functions and data of its batch are. To
    /// free functions one by one, finalize them one by one. Sends one message when the memory is freed.
    ///
    /// No code may call the function, or run it. With [hot swap](crate::FarcallBuilder::hotswap) calls of the controller may run it;
    /// its memory is free when they have returned. A later call through its stub is a crash at address 0.
    ///
    /// # Errors
    ///
    /// When the function is not finalized, or the session is over.
    pub fn free_function(&mut self, id: FuncId) -> ModuleResult<()> {
        self.free(id.into())
    }

    /// Frees a finalized data object, which may be defined again, as [`free_function`](Self::free_function) frees a function. No
    /// code may use it.
    ///
    /// # Errors
    ///
    /// When the data object is not finalized, or the session is over.
    pub fn free_data(&mut self, id: DataId) -> ModuleResult<()> {
        self.free(id.into())
    }

    /// Removes all code and data of the module from the executor. None of the code may be running, and no code may refer to any of
    /// it.
    ///
    /// # Errors
    ///
    /// When the session is over, or some of the code cannot be removed; the rest is still removed.
    pub fn free_memory(mut self) -> ModuleResult<()> {
        let mut outcome = Ok(());
        for (_, item) in self.functions.iter_mut() {
            if let Some(stub) = item.stub.take() {
                stub.remove();
            }
        }
        let items = self.functions.values_mut().chain(self.data.values_mut());
        for linked in items.filter_map(|item| item.linked.take()) {
            if let Some(batch) = Arc::into_inner(linked.batch) {
                outcome = outcome.and(batch.clear());
            }
        }
        outcome.map_err(|error| ModuleError::Backend(error.into()))
    }

    fn linked(&self, id: ItemId) -> ModuleResult<&Linked> {
        let (name, _) = self.declared(id)?;
        self.item(id)?.linked.as_ref().ok_or_else(|| {
            ModuleError::Backend(anyhow!(
                "{name} is not finalized; define it, then call finalize_definitions"
            ))
        })
    }

    fn free(&mut self, id: ItemId) -> ModuleResult<()> {
        self.linked(id)?;
        let (hotswap, process) = (self.hotswap, self.process.clone());
        let item = self.item_mut(id)?;
        // A new definition that waits is no replacement any more, and stays.
        item.is_replaceable = false;
        let batch = item.linked.take().and_then(|linked| Arc::into_inner(linked.batch));
        let outcome = match (&item.stub, batch) {
            (Some(stub), Some(batch)) => {
                stub.redirect_and_remove(ExecutorAddr::NULL, batch).map(drop)
            }
            (Some(stub), None) => stub.redirect(ExecutorAddr::NULL).map(drop),
            // Calls may still be in functions of the batch that were freed before.
            (None, Some(batch)) if hotswap => {
                process.create_redirectable(ExecutorAddr::NULL).and_then(|stub| {
                    let outcome = stub.redirect_and_remove(ExecutorAddr::NULL, batch).map(drop);
                    stub.remove();
                    outcome
                })
            }
            (None, Some(batch)) => batch.clear(),
            (None, None) => Ok(()),
        };
        outcome.map_err(|error| ModuleError::Backend(error.into()))
    }

    fn link(
        &mut self,
        definitions: &[Definition],
    ) -> ModuleResult<(Library, Vec<(Place, AddrRange)>)> {
        if self.hotswap {
            self.make_stubs(definitions)?;
        }
        let mut externals = Externals::new();
        let resolve = |target: &ModuleRelocTarget| self.resolve(target, &mut externals);
        let object = object_file::write(&*self.isa, definitions, resolve)?;
        let link = || -> farcall::Result<_> {
            let dylib = self.executor.library(&*self.name);
            for plugin in &self.plugins {
                dylib.add_plugin(Arc::clone(plugin)).expect("added");
            }
            for (name, external) in &externals {
                dylib.define(name, *external)?;
            }
            dylib.add_object(&ObjectFile::parse(&*self.name, object.file)?)?;
            dylib.link()?;
            let mut starts: BTreeMap<&str, ExecutorAddr> = BTreeMap::new();
            let mut placed = Vec::with_capacity(object.placed.len());
            for place in object.placed {
                let symbol = object_file::start_of(place.kind);
                let start = match starts.get(symbol) {
                    Some(start) => *start,
                    None if place.kind.is_thread_local() => ExecutorAddr::NULL,
                    None => dylib.lookup(symbol)?,
                };
                starts.insert(symbol, start);
                let start = ExecutorAddr::new(start.get().wrapping_add(place.offset));
                let range = AddrRange::sized(start, place.bytes).unwrap_or_default();
                placed.push((place, range));
            }
            Ok((dylib, placed))
        };
        link().map_err(|error| ModuleError::Backend(error.into()))
    }

    /// Gives each function a stub, unless it has one.
    fn make_stubs(&mut self, definitions: &[Definition]) -> ModuleResult<()> {
        for definition in definitions.iter().filter(|one| one.kind == Kind::Code) {
            if self.item(definition.id)?.stub.is_none() {
                let stub = self.process.create_redirectable(ExecutorAddr::NULL);
                let stub = stub.map_err(|error| ModuleError::Backend(error.into()))?;
                self.item_mut(definition.id)?.stub = Some(stub);
            }
        }
        Ok(())
    }

    /// Notes where the batch is, and redirects stubs to it.
    fn install(
        &mut self,
        batch: &Arc<Library>,
        placed: Vec<(Place, AddrRange)>,
    ) -> ModuleResult<()> {
        for (place, range) in placed {
            let is_thread_local = place.kind.is_thread_local();
            let item = self.item_mut(place.id)?;
            item.is_replaceable = false;
            let linked = Linked { range, is_thread_local, batch: Arc::clone(batch) };
            let before = item.linked.replace(linked);
            let Some(stub) = &item.stub else { continue };
            let redirected = match before.and_then(|linked| Arc::into_inner(linked.batch)) {
                Some(old) => stub.redirect_and_remove(range.start, old),
                None => stub.redirect(range.start),
            };
            redirected.map_err(|error| ModuleError::Backend(error.into()))?;
        }
        Ok(())
    }

    fn resolve(
        &self,
        target: &ModuleRelocTarget,
        externals: &mut Externals,
    ) -> ModuleResult<Target> {
        let (name, kind) = match target {
            ModuleRelocTarget::User { namespace: 0, index } => {
                return self.resolve_declared(FuncId::from_u32(*index).into(), externals);
            }
            ModuleRelocTarget::User { namespace: 1, index } => {
                return self.resolve_declared(DataId::from_u32(*index).into(), externals);
            }
            ModuleRelocTarget::FunctionOffset(id, offset) => {
                return Ok(Target::Here((*id).into(), *offset));
            }
            ModuleRelocTarget::LibCall(call) => ((self.libcall_names)(*call), SymbolKind::Text),
            ModuleRelocTarget::KnownSymbol(KnownSymbol::ElfGlobalOffsetTable) => {
                ("_GLOBAL_OFFSET_TABLE_".to_owned(), SymbolKind::Data)
            }
            other => {
                return Err(ModuleError::Backend(anyhow!(
                    "a reference to {other} of no declaration"
                )));
            }
        };
        Ok(self.import(Outside { name, kind, weak: false }, externals))
    }

    fn resolve_declared(&self, id: ItemId, externals: &mut Externals) -> ModuleResult<Target> {
        let item = self.item(id)?;
        let is_function = matches!(id, ItemId::Func(_));
        let address = match (&item.stub, &item.linked) {
            (Some(stub), linked) if item.is_pending || linked.is_some() => stub.address(),
            _ if item.is_pending => return Ok(Target::Here(id, 0)),
            (_, Some(linked)) if linked.is_thread_local => {
                let (name, _) = self.declared(id)?;
                return Err(ModuleError::Backend(anyhow!(
                    "thread-local {name} is in an earlier batch; finalize it together with the code that uses it"
                )));
            }
            (_, Some(linked)) => linked.range.start,
            (_, None) => return self.import_declared(id, externals),
        };
        // Names of this form are the module's own, and defined by address.
        let (name, kind) = match id {
            ItemId::Func(id) => (format!("farcall_cranelift.f{}", id.index()), SymbolKind::Text),
            ItemId::Data(id) => (format!("farcall_cranelift.d{}", id.index()), SymbolKind::Data),
        };
        let external = External { callable: is_function, ..External::from(address) };
        externals.insert(name.clone(), external);
        Ok(Target::Outside(Outside { name, kind, weak: false }))
    }

    /// A reference to something that the module does not define.
    fn import_declared(&self, id: ItemId, externals: &mut Externals) -> ModuleResult<Target> {
        let (name, linkage) = self.declared(id)?;
        let weak = match linkage {
            Linkage::Import => false,
            Linkage::Preemptible => true,
            _ => {
                return Err(ModuleError::Backend(anyhow!(
                    "{name} is declared and not defined; define it before finalize_definitions, or declare it as an import"
                )));
            }
        };
        let kind = match id {
            ItemId::Func(_) => SymbolKind::Text,
            ItemId::Data(id) if self.declarations.get_data_decl(id).tls => SymbolKind::Tls,
            ItemId::Data(_) => SymbolKind::Data,
        };
        Ok(self.import(Outside { name, kind, weak }, externals))
    }

    fn import(&self, outside: Outside, externals: &mut Externals) -> Target {
        if let Some(address) = self.symbols.get(&outside.name) {
            let callable = outside.kind == SymbolKind::Text;
            let external = External { callable, ..External::from(*address) };
            externals.insert(outside.name.clone(), external);
        }
        Target::Outside(outside)
    }
}
