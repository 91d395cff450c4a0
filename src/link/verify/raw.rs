//! An object file, straight from its bytes.
//!
//! Invariant: shares nothing with the linker's reader, and panics for no input.

use object::elf::{self, RelocationType};

use super::Fault;

/// The tables of an object file, at their ELF indices.
pub(super) struct Raw<'a> {
    /// The number of the processor.
    pub(super) machine: u16,
    pub(super) sections: Vec<Section<'a>>,
    pub(super) symbols: Vec<Symbol<'a>>,
    /// For every section the sections that hold its relocations.
    relocated_by: Vec<Vec<usize>>,
}

/// A section header, and its bytes.
pub(super) struct Section<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) bytes: u64,
    pub(super) link: u32,
    pub(super) info: u32,
    pub(super) alignment: u64,
    /// Empty for zero fill.
    pub(super) content: &'a [u8],
}

/// An array of functions in an object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ArrayKind {
    pub(super) is_fini: bool,
    /// 0 for what runs before all others, then 1 for a routine, then by priority. Of one priority, arrays of the old kind come first.
    pub(super) order: u64,
    /// True when the first word is the function that runs last.
    pub(super) is_reversed: bool,
}

/// A symbol.
pub(super) struct Symbol<'a> {
    /// Without a default version.
    pub(super) name: &'a [u8],
    /// The default version of its name, if it has one and a place here. It defines the name with this version, too.
    pub(super) version: Option<&'a [u8]>,
    pub(super) binding: u8,
    pub(super) kind: u8,
    pub(super) visibility: u8,
    pub(super) home: Home,
    pub(super) value: u64,
    pub(super) bytes: u64,
}

/// The place of a symbol.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    Undefined,
    Absolute,
    Common,
    Section(usize),
}

/// One relocation.
#[derive(Clone, Copy)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) kind: RelocationType,
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

pub(super) const ALLOC: u64 = 0x2;
pub(super) const WRITE: u64 = 0x1;
pub(super) const EXECUTE: u64 = 0x4;
pub(super) const LINK_ORDER: u64 = 0x80;
pub(super) const THREAD: u64 = 0x400;
const EXCLUDE: u64 = 0x8000_0000;

pub(super) const GROUP: u32 = 17;
pub(super) const NO_BITS: u32 = 8;
/// The relocations that change nothing; the second is an old number of AArch64.
const NO_RELOCATION: [RelocationType; 2] = [elf::R_X86_64_NONE, RelocationType(256)];
const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 4;
const INDICES: u32 = 18;
const SFRAME: u32 = 0x6fff_fff4;

impl<'a> Raw<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Raw<'a>, Fault> {
        Self::read_tables(bytes).ok_or_else(|| "the file cannot be read a second time".to_owned())
    }

    fn read_tables(bytes: &'a [u8]) -> Option<Raw<'a>> {
        let start = u64_at(bytes, 40)?;
        let header = |index: u64| slice(bytes, start.checked_add(index.checked_mul(64)?)?, 64);
        let (mut count, mut names) = (u64::from(u16_at(bytes, 60)?), u32::from(u16_at(bytes, 62)?));
        if count == 0 {
            count = u64_at(header(0)?, 32)?;
        }
        if names == 0xffff {
            names = u32_at(header(0)?, 40)?;
        }
        // The first header describes no section, whatever else is written there.
        let mut sections = vec![Section::read(bytes, &[0; 64])?];
        for index in 1..count {
            sections.push(Section::read(bytes, header(index)?)?);
        }
        let strings = sections.get(names as usize)?.content;
        for (section, index) in sections.iter_mut().zip(0..).skip(1) {
            section.name = string(strings, u32_at(header(index)?, 0)?)?;
        }
        let symbols = read_symbols(&sections)?;
        let mut relocated_by = vec![Vec::new(); sections.len()];
        for (index, section) in sections.iter().enumerate() {
            if section.kind == RELOCATIONS {
                relocated_by.get_mut(section.info as usize)?.push(index);
            }
        }
        Some(Raw { machine: u16_at(bytes, 18)?, sections, symbols, relocated_by })
    }

    /// The relocations of a section that change something, sorted by offset.
    pub(super) fn relocations(&self, section: usize) -> Vec<Relocation> {
        let tables = self.relocated_by[section].iter();
        let records = tables.flat_map(|table| self.sections[*table].content.chunks_exact(24));
        let relocations = records.map(|record| {
            // A chunk has 24 bytes, so no field is missing.
            let word = |at| u64_at(record, at).unwrap_or_default();
            let half = |at| u32_at(record, at).unwrap_or_default();
            let (kind, symbol) = (RelocationType(half(8)), half(12) as usize);
            Relocation { offset: word(0), kind, symbol, addend: word(16).cast_signed() }
        });
        let mut relocations: Vec<Relocation> =
            relocations.filter(|one| !NO_RELOCATION.contains(&one.kind)).collect();
        relocations.sort_by_key(|relocation| relocation.offset);
        relocations
    }
}

impl<'a> Section<'a> {
    fn read(bytes: &'a [u8], header: &'a [u8]) -> Option<Section<'a>> {
        let (kind, size) = (u32_at(header, 4)?, u64_at(header, 32)?);
        let has_content = kind != NO_BITS;
        // Sections that are not loaded may be anything.
        let content = slice(bytes, u64_at(header, 24)?, size).filter(|_| has_content);
        Some(Section {
            name: &[],
            kind,
            flags: u64_at(header, 8)?,
            bytes: size,
            link: u32_at(header, 40)?,
            info: u32_at(header, 44)?,
            alignment: u64_at(header, 48)?.max(1),
            content: content.unwrap_or_default(),
        })
    }

    /// True for a section that a program has in memory. Notes about the object are left out, and so is `.sframe`, whose
    /// tables cannot be concatenated.
    pub(super) fn is_loaded(&self) -> bool {
        self.flags & ALLOC != 0
            && self.flags & EXCLUDE == 0
            && self.kind != SFRAME
            && self.name != b".sframe"
            && self.name != b".note.gnu.property"
    }

    pub(super) fn is_eh_frame(&self) -> bool {
        let is_thread = self.flags & THREAD != 0;
        !is_thread && (self.name == b".eh_frame" || self.kind == 0x7000_0001)
    }

    pub(super) fn is_executable(&self) -> bool {
        self.flags & EXECUTE != 0
    }

    /// True for a section with a fragment of `_init`, or of `_fini`.
    pub(super) fn is_fragment(&self, is_fini: bool) -> bool {
        let name: &[u8] = if is_fini { b".fini" } else { b".init" };
        self.name == name && self.is_executable() && self.flags & THREAD == 0
    }

    /// The kind of array that this section is, if it is one.
    pub(super) fn array_kind(&self) -> Option<ArrayKind> {
        if self.flags & THREAD != 0 || self.is_eh_frame() {
            return None;
        }
        let text = std::str::from_utf8(self.name).unwrap_or_default();
        let (family, number) = match text.match_indices('.').nth(1) {
            Some((dot, _)) => (&text[..dot], text[dot + 1..].parse::<u32>().ok()),
            None => (text, None),
        };
        // Only the customary names of such sections end with a priority.
        let is_custom = matches!(family, ".init_array" | ".fini_array" | ".ctors" | ".dtors");
        let number = number.filter(|_| is_custom);
        const LAST: u64 = 65536;
        let upwards = 2 + number.map_or(2 * LAST, |number| 2 * u64::from(number) + 1);
        let old = |number: u32| 2 * 65535_u64.saturating_sub(number.into());
        let downwards = 2 + number.map_or(2 * LAST, old);
        let kind = |is_fini, order, is_reversed| Some(ArrayKind { is_fini, order, is_reversed });
        match (self.kind, family) {
            (16, _) | (_, ".preinit_array") => kind(false, 0, false),
            (14, _) | (_, ".init_array") => kind(false, upwards, false),
            (15, _) | (_, ".fini_array") => kind(true, upwards, false),
            (_, ".ctors") => kind(false, downwards, true),
            (_, ".dtors") => kind(true, downwards, true),
            _ => None,
        }
    }
}

impl Symbol<'_> {
    pub(super) fn is_local(&self) -> bool {
        self.binding == 0
    }

    pub(super) fn is_weak(&self) -> bool {
        // STB_GNU_UNIQUE is as weak as STB_WEAK within one program.
        matches!(self.binding, 2 | 10)
    }

    pub(super) fn is_hidden(&self) -> bool {
        matches!(self.visibility, 1 | 2)
    }
}

fn read_symbols<'a>(sections: &[Section<'a>]) -> Option<Vec<Symbol<'a>>> {
    let Some(table) = sections.iter().position(|section| section.kind == SYMBOLS) else {
        return Some(Vec::new());
    };
    let strings = sections.get(sections[table].link as usize)?.content;
    let is_index = |section: &&Section| section.kind == INDICES && section.link as usize == table;
    // A damaged file may have two such tables. The last one counts, as for the linker.
    let indices = sections.iter().rfind(is_index).map_or(&[][..], |section| section.content);
    let mut symbols = Vec::new();
    for (number, record) in sections[table].content.chunks_exact(24).enumerate() {
        // The first symbol is the null symbol, whatever is written there.
        let record = if number == 0 { &[0; 24] } else { record };
        let (info, other) = (*record.get(4)?, *record.get(5)?);
        let home = match u16_at(record, 6)? {
            0 => Home::Undefined,
            0xfff1 => Home::Absolute,
            // Ordinary ones, and the ones of the large code model.
            0xfff2 | 0xff02 => Home::Common,
            0xffff => Home::Section(u32_at(indices, 4 * number as u64)? as usize),
            index => Home::Section(usize::from(index)),
        };
        if matches!(home, Home::Section(index) if index >= sections.len()) {
            return None;
        }
        let (binding, full_name) = (info >> 4, string(strings, u32_at(record, 0)?)?);
        let parts = default_version(full_name).filter(|_| binding != 0);
        let (name, version) = parts.map_or((full_name, None), |(name, of)| (name, Some(of)));
        symbols.push(Symbol {
            name,
            version: version.filter(|_| matches!(home, Home::Absolute | Home::Section(_))),
            binding,
            kind: info & 15,
            visibility: other & 3,
            home,
            value: u64_at(record, 8)?,
            bytes: u64_at(record, 16)?,
        });
    }
    Some(symbols)
}

/// The parts of a name with a default version, as `api@@V2`.
fn default_version(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = name.iter().position(|byte| *byte == b'@').filter(|at| *at > 0)?;
    let version = name[at..].strip_prefix(b"@@")?;
    let is_sound = version.first().is_some_and(|byte| *byte != b'@');
    is_sound.then_some((&name[..at], version))
}

fn slice(bytes: &[u8], start: u64, size: u64) -> Option<&[u8]> {
    let end = usize::try_from(start.checked_add(size)?).ok()?;
    bytes.get(usize::try_from(start).ok()?..end)
}

fn string(table: &[u8], start: u32) -> Option<&[u8]> {
    if table.is_empty() {
        // An object without names has no table for them.
        return Some(&[]);
    }
    let rest = table.get(start as usize..)?;
    let name = rest.get(..rest.iter().position(|byte| *byte == 0)?)?;
    // A name that cannot be printed counts as none.
    let text = std::str::from_utf8(name).unwrap_or_default();
    Some(if text.contains(char::is_control) { &[] } else { text.as_bytes() })
}

fn u16_at(bytes: &[u8], at: u64) -> Option<u16> {
    Some(u16::from_le_bytes(*slice(bytes, at, 2)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: u64) -> Option<u32> {
    Some(u32::from_le_bytes(*slice(bytes, at, 4)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: u64) -> Option<u64> {
    Some(u64::from_le_bytes(*slice(bytes, at, 8)?.first_chunk()?))
}
