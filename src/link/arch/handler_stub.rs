//! Objects that define a C function which calls a handler of the controller.
//!
//! The function is a *stub*: it loads the address of its constants and jumps to the executor's function that calls handlers. So its
//! frame is its caller's, and the unwind information of each stub is the same.
//!
//! ```text
//! .text    name:  lea constants(%rip),%r11; jmp farcall_call_handler
//! .rodata  constants
//! ```
//!
//! Invariant: what is made is an ordinary object; the linker has no other way to make a stub.

use object::write::{Object, Relocation, SectionId, StandardSection, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, elf,
};

use crate::error::{Error, Result};

/// `lea 0(%rip),%r11; jmp 0`
const CODE: [u8; 12] = [0x4c, 0x8d, 0x1d, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
/// Where the code has the distance to the constants.
const CONSTANTS_FIELD: u64 = 3;
/// Where the code has the distance to the target of its jump.
const TARGET_FIELD: u64 = 8;

/// The unwind information of code that never moves the stack pointer: a common entry, and an entry for the 12 bytes of code. In the
/// common one addresses are relative to themselves, the caller's frame is at `%rsp + 8`, and its return address below.
const FRAMES: [u8; 48] = [
    20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, 20,
    0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];
/// Where the unwind information has the distance to the code.
const CODE_FIELD: u64 = 32;

/// An object that defines `name` as the stub with these constants, which jumps to `target`.
///
/// # Errors
///
/// When the name is empty or has a NUL.
pub(crate) fn handler_object(name: &str, constants: &[u8], target: &str) -> Result<Vec<u8>> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::invalid(format!("{name:?} is not the name of a function")));
    }
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let text = object.section_id(StandardSection::Text);
    let data = object.section_id(StandardSection::ReadOnlyData);
    let frames = object.section_id(StandardSection::EhFrame);

    let function = object.add_symbol(symbol(name, SymbolKind::Text));
    object.add_symbol_data(function, text, &CODE, 16);
    object.append_section_data(data, constants, 8);
    object.append_section_data(frames, &FRAMES, 8);
    // Says that no code goes onto the stack.
    object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Linker);

    let target = object.add_symbol(symbol(target, SymbolKind::Unknown));
    let (of_data, of_text) = (object.section_symbol(data), object.section_symbol(text));
    let mut relocate = |section: SectionId, offset, symbol, addend, r_type| {
        let flags = RelocationFlags::Elf { r_type };
        object.add_relocation(section, Relocation { offset, symbol, addend, flags })
    };
    // The processor adds a distance to the address behind its field.
    let made = relocate(text, CONSTANTS_FIELD, of_data, -4, elf::R_X86_64_PC32)
        .and_then(|()| relocate(text, TARGET_FIELD, target, -4, elf::R_X86_64_PLT32))
        .and_then(|()| relocate(frames, CODE_FIELD, of_text, 0, elf::R_X86_64_PC32))
        .and_then(|()| object.write());
    made.map_err(|error| Error::link(format!("the stub of the handler {name}: {error}")))
}

fn symbol(name: &str, kind: SymbolKind) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: 0,
        kind,
        scope: SymbolScope::Dynamic,
        weak: false,
        section: SymbolSection::Undefined,
        flags: SymbolFlags::None,
    }
}
