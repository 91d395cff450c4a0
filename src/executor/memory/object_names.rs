//! Names of functions in an object file whose section headers have the sections' addresses in memory: the form in which objects are
//! registered with debuggers.
//!
//! Invariant: nothing here allocates, so a crash handler can ask.

use object::LittleEndian;
use object::elf::{FileHeader64, SHT_SYMTAB, STT_FUNC, STT_NOTYPE};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};

/// The name of the function that contains an address, and the offset of the address in it. In code of an assembler, which may give
/// no sizes, this is the last function or label at or before the address.
pub(super) fn function_at(object: &[u8], address: u64) -> Option<(&[u8], u64)> {
    let endian = LittleEndian;
    let header = FileHeader64::<LittleEndian>::parse(object).ok()?;
    let sections = header.sections(endian, object).ok()?;
    let symbols = sections.symbols(endian, object, SHT_SYMTAB).ok()?;
    // A section that is not in memory has address 0.
    let (index, section) = sections.enumerate().find(|(_, section)| {
        let offset = address.checked_sub(section.sh_addr(endian));
        section.sh_addr(endian) != 0
            && offset.is_some_and(|offset| offset < section.sh_size(endian))
    })?;
    let offset = address - section.sh_addr(endian);
    let in_section = symbols.enumerate().filter(|(at, symbol)| {
        symbols.symbol_section(endian, symbol, *at) == Ok(Some(index))
            && matches!(symbol.st_type(), STT_FUNC | STT_NOTYPE)
            && symbol.st_value(endian) <= offset
    });
    let named = in_section.filter_map(|(_, symbol)| {
        let name = symbol.name(endian, symbols.strings()).ok()?;
        (!name.is_empty()).then_some((name, symbol.st_value(endian)))
    });
    let (name, start) = named.max_by_key(|(_, start)| *start)?;
    Some((name, offset - start))
}
