//! A function or data object that was defined, until it is finalized.

use crate::item::ItemId;
use anyhow::anyhow;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::isa::unwind::{UnwindInfo, systemv};
use cranelift_codegen::{CompiledCode, FinalizedRelocTarget, ir};
use cranelift_module::{
    DataDeclaration, DataDescription, DataId, FuncId, Init, ModuleError, ModuleReloc, ModuleResult,
};

/// The parts of a definition. Nothing in it depends on an address.
pub(crate) struct Definition {
    pub(crate) id: ItemId,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// Empty for what is zero at first.
    pub(crate) content: Vec<u8>,
    pub(crate) bytes: u64,
    pub(crate) align: u64,
    pub(crate) relocs: Vec<ModuleReloc>,
    /// How the function's frame is unwound.
    pub(crate) frame: Option<systemv::UnwindInfo>,
}

/// The section that a definition goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Code,
    Constant,
    Variable,
    /// A variable that is zero at first.
    Zeroed,
    ThreadLocal,
    /// A thread-local that is zero at first.
    ZeroedThreadLocal,
}

/// The largest alignment of a definition: a page.
const ALIGN_MAX: u64 = 4096;

impl Definition {
    /// A function that Cranelift has compiled.
    pub(crate) fn compiled(
        id: FuncId,
        name: String,
        isa: &dyn TargetIsa,
        function: &ir::Function,
        code: &CompiledCode,
    ) -> ModuleResult<Self> {
        let mut relocs = Vec::with_capacity(code.buffer.relocs().len());
        for reloc in code.buffer.relocs() {
            if let FinalizedRelocTarget::ExternalName(ir::ExternalName::TestCase(test)) =
                &reloc.target
            {
                return Err(ModuleError::Backend(anyhow!(
                    "{name} refers to {test:?}, a name of tests; refer to declarations of the module"
                )));
            }
            relocs.push(ModuleReloc::from_mach_reloc(reloc, function, id));
        }
        let frame = match code.create_unwind_info(isa)? {
            Some(UnwindInfo::SystemV(frame)) => Some(frame),
            _ => None,
        };
        let mut definition =
            Self::code(id, name, isa, code.buffer.alignment.into(), code.code_buffer(), relocs)?;
        definition.frame = frame;
        Ok(definition)
    }

    /// A function of machine code.
    pub(crate) fn code(
        id: FuncId,
        name: String,
        isa: &dyn TargetIsa,
        align: u64,
        code: &[u8],
        relocs: Vec<ModuleReloc>,
    ) -> ModuleResult<Self> {
        let least = u64::from(isa.function_alignment().minimum).max(isa.symbol_alignment());
        let align = checked(&name, align.max(least))?;
        let id = ItemId::Func(id);
        let (content, bytes) = (code.to_vec(), code.len() as u64);
        Ok(Self { id, name, kind: Kind::Code, content, bytes, align, relocs, frame: None })
    }

    /// A data object.
    pub(crate) fn data(
        id: DataId,
        name: String,
        isa: &dyn TargetIsa,
        declaration: &DataDeclaration,
        data: &DataDescription,
    ) -> ModuleResult<Self> {
        let DataDeclaration { writable, tls, .. } = *declaration;
        let (content, bytes) = match &data.init {
            Init::Uninitialized => {
                return Err(ModuleError::Backend(anyhow!(
                    "data {name} has no content; call define or define_zeroinit first"
                )));
            }
            Init::Zeros { size } if writable || tls => (Vec::new(), *size),
            Init::Zeros { size } => (zeros(*size)?, *size),
            Init::Bytes { contents } => (contents.to_vec(), contents.len()),
        };
        let kind = match (tls, writable, content.is_empty()) {
            (true, _, true) => Kind::ZeroedThreadLocal,
            (true, _, false) => Kind::ThreadLocal,
            (false, true, true) => Kind::Zeroed,
            (false, true, false) => Kind::Variable,
            (false, false, _) => Kind::Constant,
        };
        // As in cranelift-jit.
        let least = if writable { 8 } else { 1 };
        let align = checked(&name, data.align.unwrap_or(least).max(isa.symbol_alignment()))?;
        let relocs = data.all_relocs(Reloc::Abs8).collect();
        let id = ItemId::Data(id);
        Ok(Self { id, name, kind, content, bytes: bytes as u64, align, relocs, frame: None })
    }
}

fn zeros(bytes: usize) -> ModuleResult<Vec<u8>> {
    let mut zeros = Vec::new();
    zeros
        .try_reserve_exact(bytes)
        .map_err(|error| ModuleError::Allocation { err: std::io::Error::other(error) })?;
    zeros.resize(bytes, 0);
    Ok(zeros)
}

fn checked(name: &str, align: u64) -> ModuleResult<u64> {
    if align.is_power_of_two() && align <= ALIGN_MAX {
        return Ok(align);
    }
    Err(ModuleError::Backend(anyhow!(
        "{name}: alignment {align} is no power of two up to {ALIGN_MAX}"
    )))
}
