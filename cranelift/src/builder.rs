//! The parts of a module: a target, names, and the executor that runs its code.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use anyhow::anyhow;
use cranelift_codegen::ir::LibCall;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_module::{ModuleError, ModuleResult};
use farcall::ExecutorAddr;
use farcall::controller::plugin::ObjectPlugin;
use farcall::controller::{Executor, Process};
use target_lexicon::{Architecture, BinaryFormat};

/// Says which symbol is a library call of Cranelift's.
pub(crate) type LibcallNames = Box<dyn Fn(LibCall) -> String + Send + Sync>;

/// A builder for [`FarcallModule`](crate::FarcallModule), as `JITBuilder` is for `JITModule`.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// use cranelift_module::default_libcall_names;
/// use farcall_cranelift::{FarcallBuilder, FarcallModule};
///
/// let flags = [("opt_level", "speed")];
/// let mut builder = FarcallBuilder::with_flags(&executor, &flags, default_libcall_names())?;
/// builder.name("calculator").hotswap(true);
/// let module = FarcallModule::new(builder);
/// # drop(module);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FarcallBuilder {
    pub(crate) executor: Executor,
    pub(crate) process: Process,
    pub(crate) isa: OwnedTargetIsa,
    pub(crate) libcall_names: LibcallNames,
    pub(crate) symbols: HashMap<String, ExecutorAddr>,
    pub(crate) plugins: Vec<Arc<dyn ObjectPlugin>>,
    pub(crate) name: String,
    pub(crate) hotswap: bool,
}

impl FarcallBuilder {
    /// A builder for this machine's processor. `libcall_names` says which symbols the library calls of Cranelift are;
    /// [`default_libcall_names`](cranelift_module::default_libcall_names) has the names of C.
    ///
    /// # Errors
    ///
    /// When Cranelift does not support this machine.
    pub fn new(executor: &Executor, libcall_names: LibcallNames) -> ModuleResult<Self> {
        Self::with_flags(executor, &[], libcall_names)
    }

    /// The same, with flags of Cranelift such as `("opt_level", "speed")`.
    ///
    /// # Errors
    ///
    /// When Cranelift does not know a flag or its value, or does not support this machine.
    pub fn with_flags(
        executor: &Executor,
        flags: &[(&str, &str)],
        libcall_names: LibcallNames,
    ) -> ModuleResult<Self> {
        let mut builder = settings::builder();
        for (name, value) in flags {
            builder.set(name, value)?;
        }
        // The linker computes any address before the code can run.
        builder.set("is_pic", "false")?;
        builder.set("use_colocated_libcalls", "false")?;
        builder.set("tls_model", "elf_gd")?;
        let native = cranelift_native::builder().map_err(|why| {
            ModuleError::Backend(anyhow!("Cranelift does not support this machine: {why}"))
        })?;
        let isa = native.finish(settings::Flags::new(builder))?;
        Self::with_isa(executor, isa, libcall_names)
    }

    /// A builder for a target of the caller's, position-independent or not.
    ///
    /// # Errors
    ///
    /// When the target is not x86-64 with ELF objects, or the executor has no process.
    pub fn with_isa(
        executor: &Executor,
        isa: OwnedTargetIsa,
        libcall_names: LibcallNames,
    ) -> ModuleResult<Self> {
        let triple = isa.triple();
        if triple.architecture != Architecture::X86_64 || triple.binary_format != BinaryFormat::Elf
        {
            return Err(ModuleError::Backend(anyhow!(
                "target {triple}: the executor runs code for x86-64 with ELF objects"
            )));
        }
        let process = executor.process().map_err(|error| ModuleError::Backend(error.into()))?;
        Ok(Self {
            executor: executor.clone(),
            process,
            isa,
            libcall_names,
            symbols: HashMap::new(),
            plugins: Vec::new(),
            name: "cranelift".to_owned(),
            hotswap: false,
        })
    }

    /// Defines a name that the module imports, as an address of the executor. The last definition of a name counts. The executor
    /// looks in its libraries for other imports.
    pub fn symbol(&mut self, name: impl Into<String>, address: ExecutorAddr) -> &mut Self {
        self.symbols.insert(name.into(), address);
        self
    }

    /// Lets functions be [redefined](crate::FarcallModule::prepare_for_function_redefine). Each function then has a stub, whose address
    /// stays, and costs one jump more a call. The default is false: functions call each other directly.
    pub fn hotswap(&mut self, enabled: bool) -> &mut Self {
        self.hotswap = enabled;
        self
    }

    /// Adds a plugin for all links of the module, such as [`PerfMap`](farcall::controller::profile::PerfMap).
    pub fn plugin(&mut self, plugin: Arc<dyn ObjectPlugin>) -> &mut Self {
        self.plugins.push(plugin);
        self
    }

    /// The name of the module in errors and in the messages of crashes; `cranelift` without.
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = name.into();
        self
    }
}

impl fmt::Debug for FarcallBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarcallBuilder")
            .field("name", &self.name)
            .field("target", &self.isa.triple().to_string())
            .field("symbols", &self.symbols.len())
            .field("hotswap", &self.hotswap)
            .finish_non_exhaustive()
    }
}
