//! The unwind information of functions, as `.eh_frame` has it.
//!
//! Invariant: an unwinder that reads a function's entry finds the rows of its frame, and nothing else.

use gimli::write::{
    Address, CallFrameInstruction, CommonInformationEntry, EhFrame, EndianVec,
    FrameDescriptionEntry, FrameTable, RelocateWriter, Relocation, RelocationTarget,
};
use gimli::{DW_EH_PE_pcrel, DW_EH_PE_sdata4, Encoding, Format, LittleEndian, Register};

use super::frame::{ENTRY, REGISTERS, Row, Rows};
use crate::error::{Error, Result};

/// The numbers of the stack pointer, of the frame pointer and of the return address in unwind information.
const RSP: Register = Register(7);
const RBP: Register = Register(6);
const RETURN: Register = Register(16);

/// The bytes of `.eh_frame`, and the places in it that refer to functions.
#[derive(Debug)]
pub(super) struct Records {
    writer: EndianVec<LittleEndian>,
    /// The offset of a field of 4 bytes, and the number of the function whose distance it has.
    pub(super) fields: Vec<(u64, usize)>,
}

impl Records {
    /// The records of functions: their number, the rows of their frame, their size.
    ///
    /// # Errors
    /// A row has a distance that unwind information cannot have.
    pub(super) fn new(frames: &[(usize, Rows, u32)]) -> Result<Records> {
        let encoding = Encoding { format: Format::Dwarf32, version: 1, address_size: 8 };
        let mut common = CommonInformationEntry::new(encoding, 1, -8, RETURN);
        common.fde_address_encoding = DW_EH_PE_pcrel | DW_EH_PE_sdata4;
        common.add_instruction(cfa(&ENTRY));
        common.add_instruction(CallFrameInstruction::Offset(RETURN, -8));
        let mut table = FrameTable::default();
        let common = table.add_cie(common);
        for (symbol, rows, bytes) in frames {
            let mut entry =
                FrameDescriptionEntry::new(Address::Symbol { symbol: *symbol, addend: 0 }, *bytes);
            for pair in rows.windows(2) {
                let [(_, old), (behind, new)] = pair else { continue };
                changes(old, new, |instruction| entry.add_instruction(*behind, instruction));
            }
            table.add_fde(common, entry);
        }
        let records = Records { writer: EndianVec::new(LittleEndian), fields: Vec::new() };
        let mut section = EhFrame(records);
        let written = table.write_eh_frame(&mut section);
        written.map_err(|error| {
            Error::invalid(format!("a frame without unwind information: {error}"))
        })?;
        Ok(section.0)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.writer.slice()
    }
}

impl RelocateWriter for Records {
    type Writer = EndianVec<LittleEndian>;

    fn writer(&self) -> &Self::Writer {
        &self.writer
    }

    fn writer_mut(&mut self) -> &mut Self::Writer {
        &mut self.writer
    }

    fn relocate(&mut self, relocation: Relocation) {
        // Addresses of functions are all that the records refer to.
        if let RelocationTarget::Symbol(function) = relocation.target {
            self.fields.push((relocation.offset as u64, function));
        }
    }
}

/// The instructions that make one row of another.
fn changes(old: &Row, new: &Row, mut add: impl FnMut(CallFrameInstruction)) {
    if (new.pointer, new.pointer.unwrap_or(new.stack))
        != (old.pointer, old.pointer.unwrap_or(old.stack))
    {
        add(cfa(new));
    }
    for ((_, number), (old, new)) in REGISTERS.into_iter().zip(old.saved.iter().zip(&new.saved)) {
        match new {
            _ if old == new => {}
            Some(below) => {
                add(CallFrameInstruction::Offset(Register(number), -below.cast_signed()))
            }
            None => add(CallFrameInstruction::Restore(Register(number))),
        }
    }
}

/// Where the caller's stack pointer was.
fn cfa(row: &Row) -> CallFrameInstruction {
    let (register, above) = row.pointer.map_or((RSP, row.stack), |pointer| (RBP, pointer));
    CallFrameInstruction::Cfa(register, above.cast_signed())
}
