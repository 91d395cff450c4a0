//! The parts that the ELF files made here have in common.
//!
//! Invariant: every field has the size that the format gives it.

use object::elf;

use crate::arch::processor::Processor;

pub(super) const HEADER_BYTES: u64 = 64;
pub(super) const SEGMENT_BYTES: u64 = 56;
pub(super) const SECTION_BYTES: u64 = 64;
pub(super) const SYMBOL_BYTES: u64 = 24;

/// A field of a record: its value, which fits, and its size.
pub(super) type Field = (u64, usize);

/// The header of a shared library with this many segments behind it, and this many sections behind those. The last section
/// holds their names.
pub(super) fn put_header(file: &mut Vec<u8>, processor: Processor, segments: u64, sections: u64) {
    let machine = processor.elf_machine().into();
    file.extend_from_slice(&elf::ELFMAG);
    let kind = [elf::ELFCLASS64.0, elf::ELFDATA2LSB.0, elf::EV_CURRENT.0, elf::ELFOSABI_NONE.0];
    file.extend_from_slice(&kind);
    put(file, &[(0, 8)]);
    put(file, &[(elf::ET_DYN.0.into(), 2), (machine, 2), (1, 4), (0, 8)]);
    let sections_at = if sections > 0 { HEADER_BYTES + segments * SEGMENT_BYTES } else { 0 };
    put(file, &[(HEADER_BYTES, 8), (sections_at, 8), (0, 4)]);
    put(file, &[(HEADER_BYTES, 2), (SEGMENT_BYTES, 2), (segments, 2)]);
    put(file, &[(SECTION_BYTES, 2), (sections, 2), (sections.saturating_sub(1), 2)]);
}

pub(super) fn put(out: &mut Vec<u8>, fields: &[Field]) {
    for (value, bytes) in fields {
        out.extend_from_slice(&value.to_le_bytes()[..*bytes]);
    }
}
