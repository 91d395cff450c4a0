//! [`FarcallModule`]: declarations, and definitions until they are finalized.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use anyhow::anyhow;
use cranelift_codegen::Context;
use cranelift_codegen::entity::{EntityRef, PrimaryMap};
use cranelift_codegen::ir::Signature;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_control::ControlPlane;
use cranelift_module::{
    DataDescription, DataId, FuncId, FuncOrDataId, Linkage, Module, ModuleDeclarations,
    ModuleError, ModuleReloc, ModuleResult,
};
use farcall::ExecutorAddr;
use farcall::controller::plugin::ObjectPlugin;
use farcall::controller::{Executor, Process};

use crate::builder::{FarcallBuilder, LibcallNames};
use crate::definition::Definition;
use crate::item::{Item, ItemId};

/// A [`Module`] whose code and data are in an executor, with the functions that `JITModule` has.
///
/// Definitions that are finalized together are one *batch*: one link, which sends no message, or one when it imports symbols of
/// the executor's libraries. Functions of a batch may refer to each other in any order, and to earlier batches.
///
/// Dropping the module keeps its code until the session ends; [`free_memory`](FarcallModule::free_memory) removes it. A module
/// keeps its session alive.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// use cranelift_codegen::ir::{AbiParam, Function, InstBuilder, types};
/// use cranelift_codegen::cursor::{Cursor, FuncCursor};
/// use cranelift_module::{Linkage, Module, default_libcall_names};
/// use farcall::controller::ExecutorBuilder;
/// use farcall_cranelift::{FarcallBuilder, FarcallModule};
///
/// let executor = ExecutorBuilder::new().this_program().start()?;
/// let mut module = FarcallModule::new(FarcallBuilder::new(&executor, default_libcall_names())?);
///
/// let mut context = module.make_context();
/// context.func.signature = module.make_signature();
/// context.func.signature.returns.push(AbiParam::new(types::I64));
/// let answer = module.declare_function("answer", Linkage::Export, &context.func.signature)?;
/// let block = context.func.dfg.make_block();
/// context.func.layout.append_block(block);
/// let mut cursor = FuncCursor::new(&mut context.func).at_bottom(block);
/// let value = cursor.ins().iconst(types::I64, 42);
/// cursor.ins().return_(&[value]);
/// module.define_function(answer, &mut context)?;
/// module.finalize_definitions()?;
///
/// let address = module.get_finalized_function(answer)?;
/// let answer = executor.process()?.function::<extern "C" fn() -> i64>(address);
/// assert_eq!(answer.call(())?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FarcallModule {
    pub(crate) executor: Executor,
    pub(crate) process: Process,
    pub(crate) isa: OwnedTargetIsa,
    pub(crate) libcall_names: LibcallNames,
    pub(crate) symbols: HashMap<String, ExecutorAddr>,
    pub(crate) plugins: Vec<Arc<dyn ObjectPlugin>>,
    pub(crate) name: String,
    pub(crate) hotswap: bool,
    pub(crate) declarations: ModuleDeclarations,
    pub(crate) functions: PrimaryMap<FuncId, Item>,
    pub(crate) data: PrimaryMap<DataId, Item>,
    /// Defined since the last finalize.
    pub(crate) pending: Vec<Definition>,
}

impl FarcallModule {
    /// An empty module. Sends no message.
    #[must_use]
    pub fn new(builder: FarcallBuilder) -> Self {
        let FarcallBuilder {
            executor,
            process,
            isa,
            libcall_names,
            symbols,
            plugins,
            name,
            hotswap,
        } = builder;
        Self {
            executor,
            process,
            isa,
            libcall_names,
            symbols,
            plugins,
            name,
            hotswap,
            declarations: ModuleDeclarations::default(),
            functions: PrimaryMap::new(),
            data: PrimaryMap::new(),
            pending: Vec::new(),
        }
    }

    /// The process that has the module's code.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn item(&self, id: ItemId) -> ModuleResult<&Item> {
        let item = match id {
            ItemId::Func(id) => self.functions.get(id),
            ItemId::Data(id) => self.data.get(id),
        };
        item.ok_or_else(|| ModuleError::Undeclared(undeclared(id)))
    }

    pub(crate) fn item_mut(&mut self, id: ItemId) -> ModuleResult<&mut Item> {
        let item = match id {
            ItemId::Func(id) => self.functions.get_mut(id),
            ItemId::Data(id) => self.data.get_mut(id),
        };
        item.ok_or_else(|| ModuleError::Undeclared(undeclared(id)))
    }

    /// The name and linkage of a declaration.
    pub(crate) fn declared(&self, id: ItemId) -> ModuleResult<(String, Linkage)> {
        self.item(id)?;
        Ok(match id {
            ItemId::Func(id) => {
                let declaration = self.declarations.get_function_decl(id);
                (declaration.linkage_name(id).into_owned(), declaration.linkage)
            }
            ItemId::Data(id) => {
                let declaration = self.declarations.get_data_decl(id);
                (declaration.linkage_name(id).into_owned(), declaration.linkage)
            }
        })
    }

    /// The name of something that may be defined now.
    fn definable(&self, id: ItemId) -> ModuleResult<String> {
        let (name, linkage) = self.declared(id)?;
        if !linkage.is_definable() {
            return Err(ModuleError::InvalidImportDefinition(name));
        }
        if self.item(id)?.is_defined() {
            return Err(ModuleError::DuplicateDefinition(name));
        }
        Ok(name)
    }

    fn add(&mut self, definition: Definition) -> ModuleResult<()> {
        self.item_mut(definition.id)?.is_pending = true;
        self.pending.push(definition);
        Ok(())
    }
}

impl Module for FarcallModule {
    fn isa(&self) -> &dyn TargetIsa {
        &*self.isa
    }

    fn declarations(&self) -> &ModuleDeclarations {
        &self.declarations
    }

    fn declare_function(
        &mut self,
        name: &str,
        linkage: Linkage,
        signature: &Signature,
    ) -> ModuleResult<FuncId> {
        check_name(name)?;
        let (id, _) = self.declarations.declare_function(name, linkage, signature)?;
        grow(&mut self.functions, id);
        Ok(id)
    }

    fn declare_anonymous_function(&mut self, signature: &Signature) -> ModuleResult<FuncId> {
        let id = self.declarations.declare_anonymous_function(signature)?;
        grow(&mut self.functions, id);
        Ok(id)
    }

    fn declare_data(
        &mut self,
        name: &str,
        linkage: Linkage,
        writable: bool,
        tls: bool,
    ) -> ModuleResult<DataId> {
        check_name(name)?;
        if let Some(FuncOrDataId::Data(known)) = self.declarations.get_name(name)
            && self.declarations.get_data_decl(known).tls != tls
        {
            return Err(ModuleError::IncompatibleDeclaration(name.to_owned()));
        }
        let (id, _) = self.declarations.declare_data(name, linkage, writable, tls)?;
        grow(&mut self.data, id);
        Ok(id)
    }

    fn declare_anonymous_data(&mut self, writable: bool, tls: bool) -> ModuleResult<DataId> {
        let id = self.declarations.declare_anonymous_data(writable, tls)?;
        grow(&mut self.data, id);
        Ok(id)
    }

    fn define_function_with_control_plane(
        &mut self,
        id: FuncId,
        context: &mut Context,
        control_plane: &mut ControlPlane,
    ) -> ModuleResult<()> {
        let name = self.definable(ItemId::Func(id))?;
        context.compile(&*self.isa, control_plane)?;
        let compiled = context.compiled_code();
        let compiled =
            compiled.ok_or_else(|| ModuleError::Backend(anyhow!("{name} has no code")))?;
        let definition = Definition::compiled(id, name, &*self.isa, &context.func, compiled)?;
        self.add(definition)
    }

    fn define_function_bytes(
        &mut self,
        id: FuncId,
        alignment: u64,
        bytes: &[u8],
        relocs: &[ModuleReloc],
    ) -> ModuleResult<()> {
        let name = self.definable(ItemId::Func(id))?;
        self.add(Definition::code(id, name, &*self.isa, alignment, bytes, relocs.to_vec())?)
    }

    fn define_data(&mut self, id: DataId, data: &DataDescription) -> ModuleResult<()> {
        let name = self.definable(ItemId::Data(id))?;
        let declaration = self.declarations.get_data_decl(id);
        self.add(Definition::data(id, name, &*self.isa, declaration, data)?)
    }
}

/// Adds the item of an id, unless that was declared before.
fn grow<K: EntityRef>(items: &mut PrimaryMap<K, Item>, id: K) {
    if items.len() == id.index() {
        items.push(Item::default());
    }
}

fn check_name(name: &str) -> ModuleResult<()> {
    if name.contains('\0') {
        return Err(ModuleError::Backend(anyhow!("{name:?}: a name cannot have a null byte")));
    }
    Ok(())
}

fn undeclared(id: ItemId) -> String {
    match id {
        ItemId::Func(id) => format!("{id} of another module"),
        ItemId::Data(id) => format!("{id} of another module"),
    }
}

impl fmt::Debug for FarcallModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarcallModule")
            .field("name", &self.name)
            .field("functions", &self.functions.len())
            .field("data", &self.data.len())
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}
