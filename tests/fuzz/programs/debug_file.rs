//! An object with the caller's debug information, and everything else sound.

use super::elf_file::{ALLOC, EXECUTE, ElfFile, Home, PROGBITS, Relocation, Section, Symbol};
use farcall_link::Processor;

/// The size of the code that the debug information describes.
const CODE_BYTES: usize = 256;
/// The relocation that stores an address, and binding and type of a function's symbol.
const ABSOLUTE_64: u32 = 1;
const GLOBAL: u8 = 1;
const FUNCTION: u8 = 2;

/// An object with one function. A relocation stores its address in the line table at `address_at`, if the table has 8 bytes
/// there.
#[must_use]
pub fn debug_file(
    [line, info, abbreviations, strings, line_strings]: [&[u8]; 5],
    address_at: u64,
) -> Vec<u8> {
    let plain = |name: &str, content: &[u8]| Section {
        name: name.to_owned(),
        kind: PROGBITS,
        flags: 0,
        alignment: 1,
        content: content.to_vec(),
        zero_bytes: 0,
        link: None,
        relocations: Vec::new(),
    };
    let has_room = address_at.checked_add(8).is_some_and(|end| end <= line.len() as u64);
    let address = Relocation { offset: address_at, kind: ABSOLUTE_64, symbol: 0, addend: 0 };
    let code = Section { flags: ALLOC | EXECUTE, ..plain(".text", &[0x90; CODE_BYTES]) };
    let relocations = if has_room { vec![address] } else { Vec::new() };
    let function = Symbol {
        name: "function".to_owned(),
        binding: GLOBAL,
        kind: FUNCTION,
        visibility: 0,
        home: Home::Section(0),
        value: 0,
        bytes: CODE_BYTES as u64,
    };
    let file = ElfFile {
        processor: Processor::X86_64,
        sections: vec![
            code,
            Section { relocations, ..plain(".debug_line", line) },
            plain(".debug_info", info),
            plain(".debug_abbrev", abbreviations),
            plain(".debug_str", strings),
            plain(".debug_line_str", line_strings),
        ],
        symbols: vec![function],
        groups: Vec::new(),
        is_wide: false,
    };
    file.write()
}
