//! The functions of an image as an ELF file with only a symbol table, for code that reads its own names.
//!
//! The file represents a shared library that is mapped at the image's code. Addresses in it are offsets from there. Its segments are
//! the image's code, constants and data. A collector finds the variables by them that may point to its objects.
//!
//! Invariant: every function of the table that starts in the code is in the file, in the order of addresses.

use object::elf;

use super::elf_file::{HEADER_BYTES, SECTION_BYTES, SEGMENT_BYTES, SYMBOL_BYTES, put, put_header};
use super::symbol_table::SymbolTable;
use crate::addr::{AddrRange, PerProt, Prot};

/// The null section, the code, the symbols, and the text of names.
const SECTIONS: u64 = 4;
const CODE_SECTION: u64 = 1;
const TEXT_SECTION: u64 = 3;

/// The text of names starts with the names of the sections.
const SECTION_NAMES: &[u8] = b"\0.text\0.symtab\0.strtab\0";
const CODE_NAME: u64 = 1;
const SYMBOLS_NAME: u64 = 7;
const TEXT_NAME: u64 = 15;

impl SymbolTable {
    /// A minimal ELF shared library with a symbol for every function in the range, the linker's stubs included.
    #[must_use]
    pub fn symbol_file(&self, code: AddrRange) -> Vec<u8> {
        self.symbol_file_of(PerProt { code, ..PerProt::default() })
    }

    /// The same with the segments of the constants and the data. Each image has three.
    #[doc(hidden)]
    pub fn symbol_file_of(&self, ranges: PerProt<AddrRange>) -> Vec<u8> {
        let code = ranges.code;
        let offset = |function: AddrRange| function.start.get().wrapping_sub(code.start.get());
        let functions = || self.functions().filter(|(one, _)| offset(*one) < code.bytes());
        let (count, text_bytes) = functions()
            .fold((1, SECTION_NAMES.len()), |(count, bytes), one| {
                (count + 1, bytes + one.1.len() + 1)
            });
        let segments = Prot::ALL.map(|prot| (prot, ranges[prot]));
        let segments: Vec<_> = segments
            .into_iter()
            .filter(|(prot, range)| *prot == Prot::Code || range.bytes() > 0)
            .collect();
        let segment_count = segments.len() as u64;
        let symbols_at = HEADER_BYTES + segment_count * SEGMENT_BYTES + SECTIONS * SECTION_BYTES;
        let symbol_bytes = count * SYMBOL_BYTES;
        let text_at = symbols_at + symbol_bytes;
        // Nothing is copied: the file of a large program has some MiB.
        let mut file = Vec::with_capacity(usize::try_from(text_at).unwrap_or(0) + text_bytes);
        put_header(&mut file, self.processor, segment_count, SECTIONS);
        segments
            .iter()
            .for_each(|(prot, range)| put_segment(&mut file, *prot, offset(*range), *range));
        put_section(&mut file, [0; 10]);
        let flags = elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0;
        let kind = u64::from(elf::SHT_NOBITS.0);
        put_section(&mut file, [CODE_NAME, kind, flags, 0, symbols_at, code.bytes(), 0, 0, 16, 0]);
        let kind = u64::from(elf::SHT_SYMTAB.0);
        let symbol_section =
            [SYMBOLS_NAME, kind, 0, 0, symbols_at, symbol_bytes, TEXT_SECTION, 1, 8, SYMBOL_BYTES];
        put_section(&mut file, symbol_section);
        let (kind, bytes) = (u64::from(elf::SHT_STRTAB.0), text_bytes as u64);
        put_section(&mut file, [TEXT_NAME, kind, 0, 0, text_at, bytes, 0, 0, 1, 0]);
        put(&mut file, &[(0, 8); 3]);
        let kind = u64::from(elf::STB_GLOBAL.0 << 4 | elf::STT_FUNC.0);
        let mut text = SECTION_NAMES.len() as u64;
        for (function, name) in functions() {
            // The offset of the name in 4 bytes, the kind in 1, the visibility in 1, the section in 2.
            let head = (text & u64::from(u32::MAX)) | kind << 32 | CODE_SECTION << 48;
            for word in [head, offset(function), function.bytes()] {
                file.extend_from_slice(&word.to_le_bytes());
            }
            text += name.len() as u64 + 1;
        }
        file.extend_from_slice(SECTION_NAMES);
        for (_, name) in functions() {
            file.extend_from_slice(name.as_bytes());
            file.push(0);
        }
        file
    }
}

/// A part of the image, of which the file holds no bytes, at its distance from the code.
fn put_segment(file: &mut Vec<u8>, prot: Prot, distance: u64, range: AddrRange) {
    let flags = match prot {
        Prot::Code => elf::PF_R.0 | elf::PF_X.0,
        Prot::Constants => elf::PF_R.0,
        Prot::Data => elf::PF_R.0 | elf::PF_W.0,
    };
    put(
        file,
        &[(elf::PT_LOAD.0.into(), 4), (flags.into(), 4), (0, 8), (distance, 8), (distance, 8)],
    );
    put(file, &[(0, 8), (range.bytes(), 8), (crate::limits::PAGE_BYTES, 8)]);
}

/// Name, kind, flags, address, offset, bytes, link, information, alignment, and the size of an entry.
fn put_section(file: &mut Vec<u8>, fields: [u64; 10]) {
    for (field, bytes) in fields.into_iter().zip([4, 4, 8, 8, 8, 8, 4, 4, 8, 8]) {
        put(file, &[(field, bytes)]);
    }
}
