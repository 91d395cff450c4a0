//! An object file for debuggers, which read it from memory: a copy with the addresses of the sections.
//!
//! The copy stays a relocatable file. Debuggers relocate its debug information themselves, by the addresses in the section
//! headers.
//!
//! Invariant: the copy differs in the addresses of sections, the flags of sections outside of the image, and the addresses of
//! symbols. Everything else is equal.

use object::elf;
use object::read::elf::{FileHeader, SectionHeader};
use object::{LittleEndian, U16, U64};

use super::placed_object::PlacedObject;
use crate::read::parsed::{Place, SymbolKind};

type Header = elf::FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// Sizes of records, and offsets of their fields.
const SECTION_BYTES: u64 = 64;
const SECTION_FLAGS: u64 = 8;
const SECTION_ADDRESS: u64 = 16;
const SYMBOL_BYTES: u64 = 24;
const SYMBOL_SECTION: u64 = 6;
const SYMBOL_VALUE: u64 = 8;

impl PlacedObject {
    /// A copy of the object file with the addresses of its sections. A section that is not in the image is marked as not
    /// loaded, and its symbols as undefined.
    #[must_use]
    pub fn debug_object(&self) -> Vec<u8> {
        let bytes = self.object.bytes();
        let mut copy = bytes.to_vec();
        // The file was parsed before, so this succeeds.
        let Ok(header) = Header::parse(bytes) else { return copy };
        let Ok(table) = header.sections(LE, bytes) else { return copy };
        let section_at = |number: u64| header.e_shoff.get(LE).wrapping_add(number * SECTION_BYTES);
        for (number, section) in (0..).zip(table.iter()) {
            let flags = section.sh_flags(LE).0 & !elf::SHF_ALLOC.0;
            put(&mut copy, section_at(number) + SECTION_FLAGS, &U64::new(LE, flags));
        }
        let sections = self.object.sections().iter().zip(&self.sections);
        for (section, address) in sections {
            let Some(address) = *address else { continue };
            let at = section_at(u64::from(section.number));
            let Some(found) = table.iter().nth(section.number as usize) else { continue };
            put(&mut copy, at + SECTION_FLAGS, &U64::new(LE, found.sh_flags(LE).0));
            put(&mut copy, at + SECTION_ADDRESS, &U64::new(LE, address));
        }
        let symbols = table.iter().find(|section| section.sh_type(LE) == elf::SHT_SYMTAB);
        let Some(symbols_at) = symbols.map(|section| section.sh_offset(LE)) else { return copy };
        for (number, symbol) in (0..).zip(self.object.symbols()) {
            let is_gone = |section: u32| self.sections[section as usize].is_none();
            let (section, value) = match symbol.place {
                Place::Common => (elf::SHN_ABS, self.address_of(number)),
                Place::Section(section)
                    if is_gone(section) && symbol.kind != SymbolKind::Anonymous =>
                {
                    (elf::SHN_UNDEF, 0)
                }
                _ => continue,
            };
            let at = symbols_at.wrapping_add(u64::from(number) * SYMBOL_BYTES);
            put(&mut copy, at + SYMBOL_SECTION, &U16::new(LE, section.0));
            put(&mut copy, at + SYMBOL_VALUE, &U64::new(LE, value));
        }
        copy
    }
}

/// Stores a field, if it is in the file.
fn put(file: &mut [u8], at: u64, field: &impl object::Pod) {
    let field = object::bytes_of(field);
    let start = usize::try_from(at).unwrap_or(usize::MAX);
    if let Some(place) = file.get_mut(start..start.saturating_add(field.len())) {
        place.copy_from_slice(field);
    }
}
