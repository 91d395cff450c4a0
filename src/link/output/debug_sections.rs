//! Sections of debug information, as the readers of DWARF want them.

use object::elf;
use object::read::elf::{FileHeader, Rela, SectionHeader, SectionTable};

use super::placed_object::PlacedObject;

pub(super) type Header = elf::FileHeader64<object::LittleEndian>;
pub(super) const LE: object::LittleEndian = object::LittleEndian;

/// The bytes of a section of this name with its relocations applied; none when there is no such section.
pub(super) fn section(object: &PlacedObject, name: &str) -> Vec<u8> {
    let bytes = object.object.bytes();
    let sections = Header::parse(bytes).and_then(|header| header.sections(LE, bytes));
    sections.ok().and_then(|sections| relocated(object, &sections, name)).unwrap_or_default()
}

/// The bytes of the first section of this name, and its number.
pub(super) fn content<'a>(
    sections: &SectionTable<'a, Header>,
    bytes: &'a [u8],
    name: &str,
) -> Option<(usize, &'a [u8])> {
    let (number, header) = sections.section_by_name(LE, name.as_bytes())?;
    let is_compressed = header.sh_flags(LE).contains(elf::SHF_COMPRESSED);
    let content = header.data(LE, bytes).ok().filter(|_| !is_compressed)?;
    Some((number.0, content))
}

/// The bytes of a section of debug information with its relocations applied.
pub(super) fn relocated(
    object: &PlacedObject,
    sections: &SectionTable<'_, Header>,
    name: &str,
) -> Option<Vec<u8>> {
    let bytes = object.object.bytes();
    let (number, content) = content(sections, bytes, name)?;
    let mut content = content.to_vec();
    let tables = sections
        .iter()
        .filter(|table| table.sh_type(LE) == elf::SHT_RELA && table.sh_info(LE) as usize == number);
    // Tables that overlap would have more relocations than the file has bytes for.
    let mut left = bytes.len() / size_of::<elf::Rela64<object::LittleEndian>>();
    for table in tables {
        let relocations = table.data_as_array::<elf::Rela64<_>, _>(LE, bytes).ok()?;
        left = left.checked_sub(relocations.len())?;
        for one in relocations {
            let number = one.r_type(LE, false).0;
            // Others are of thread-locals, which no reader here asks for.
            let Some(field_bytes) = object.object.processor().address_bytes(number) else {
                continue;
            };
            let value = object.address_of(one.r_sym(LE, false));
            let value = value.wrapping_add(one.r_addend(LE).cast_unsigned());
            let at = usize::try_from(one.r_offset(LE)).unwrap_or(usize::MAX);
            let field = content.get_mut(at..at.saturating_add(field_bytes))?;
            field.copy_from_slice(&value.to_le_bytes()[..field_bytes]);
        }
    }
    Some(content)
}
