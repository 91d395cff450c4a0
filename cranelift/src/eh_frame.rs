//! The unwind information of a batch, by which exceptions and backtraces pass the frames of its functions.

use anyhow::anyhow;
use cranelift_codegen::gimli::constants::{DW_EH_PE_pcrel, DW_EH_PE_sdata4, DwEhPe};
use cranelift_codegen::gimli::write::{
    Address, EhFrame, EndianVec, FrameTable, RelocateWriter, Relocation, RelocationTarget,
};
use cranelift_codegen::gimli::{LittleEndian, write};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::isa::unwind::systemv::UnwindInfo;
use cranelift_module::{ModuleError, ModuleResult};

/// An `.eh_frame` section, and the places in it that hold the distance of a function.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) bytes: Vec<u8>,
    /// Each field of 32 bits, and the number of its function.
    pub(crate) functions: Vec<(u64, usize)>,
}

/// The section for these functions; the numbers are the caller's.
pub(crate) fn frames<'a>(
    isa: &dyn TargetIsa,
    functions: impl Iterator<Item = (usize, &'a UnwindInfo)>,
) -> ModuleResult<Frames> {
    let mut functions = functions.peekable();
    let (Some(_), Some(mut cie)) = (functions.peek(), isa.create_systemv_cie()) else {
        return Ok(Frames::default());
    };
    cie.fde_address_encoding = DwEhPe(DW_EH_PE_pcrel.0 | DW_EH_PE_sdata4.0);
    let mut table = FrameTable::default();
    let cie = table.add_cie(cie);
    for (symbol, info) in functions {
        table.add_fde(cie, info.to_fde(Address::Symbol { symbol, addend: 0 }));
    }
    let mut section = EhFrame(Section::default());
    let written = table.write_eh_frame(&mut section);
    let EhFrame(Section { writer, functions, is_odd }) = section;
    match written {
        Ok(()) if !is_odd => Ok(Frames { bytes: writer.into_vec(), functions }),
        other => Err(ModuleError::Backend(anyhow!("writing unwind information: {other:?}"))),
    }
}

struct Section {
    writer: EndianVec<LittleEndian>,
    functions: Vec<(u64, usize)>,
    /// Something else than the distance of a function is to be relocated.
    is_odd: bool,
}

impl Default for Section {
    fn default() -> Self {
        Self { writer: EndianVec::new(LittleEndian), functions: Vec::new(), is_odd: false }
    }
}

impl RelocateWriter for Section {
    type Writer = EndianVec<LittleEndian>;

    fn writer(&self) -> &Self::Writer {
        &self.writer
    }

    fn writer_mut(&mut self) -> &mut Self::Writer {
        &mut self.writer
    }

    fn relocate(&mut self, relocation: write::Relocation) {
        match relocation {
            Relocation {
                offset,
                size: 4,
                target: RelocationTarget::Symbol(symbol),
                addend: 0,
                ..
            } => {
                self.functions.push((offset as u64, symbol));
            }
            _ => self.is_odd = true,
        }
    }
}
