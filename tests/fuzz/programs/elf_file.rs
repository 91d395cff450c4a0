//! A writer of object files: sections, symbols, groups, and the ways in which ELF can number them.
//!
//! Invariant: writes what it is given, sound or not.

use farcall_link::Processor;

/// An object file.
#[derive(Debug, Default)]
pub(super) struct ElfFile {
    pub(super) processor: Processor,
    pub(super) sections: Vec<Section>,
    /// Local symbols come first, as ELF requires.
    pub(super) symbols: Vec<Symbol>,
    pub(super) groups: Vec<Group>,
    /// Uses the numbering of files with more than 65,280 sections.
    pub(super) is_wide: bool,
}

/// A section; its ELF index is its place in [`ElfFile::sections`] plus 1.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) kind: u32,
    pub(super) flags: u64,
    pub(super) alignment: u64,
    pub(super) content: Vec<u8>,
    /// The size of zero fill, which has no content.
    pub(super) zero_bytes: u64,
    /// The section that this one describes.
    pub(super) link: Option<usize>,
    pub(super) relocations: Vec<Relocation>,
}

/// A relocation; the symbol is an index into [`ElfFile::symbols`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Relocation {
    pub(super) offset: u64,
    pub(super) kind: u32,
    pub(super) symbol: usize,
    pub(super) addend: i64,
}

/// A symbol; its ELF index is its place in [`ElfFile::symbols`] plus 1.
#[derive(Debug, Clone)]
pub(super) struct Symbol {
    pub(super) name: String,
    pub(super) binding: u8,
    pub(super) kind: u8,
    pub(super) visibility: u8,
    pub(super) home: Home,
    pub(super) value: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    Undefined,
    Absolute,
    Common,
    Section(usize),
}

/// A COMDAT group; the signature is an index into [`ElfFile::symbols`].
#[derive(Debug)]
pub(super) struct Group {
    pub(super) signature: usize,
    pub(super) members: Vec<usize>,
}

pub(super) const PROGBITS: u32 = 1;
pub(super) const NOBITS: u32 = 8;
pub(super) const INIT_ARRAY: u32 = 14;
pub(super) const FINI_ARRAY: u32 = 15;
pub(super) const PREINIT_ARRAY: u32 = 16;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const RELA: u32 = 4;
const GROUP: u32 = 17;
const SYMTAB_SHNDX: u32 = 18;

pub(super) const WRITE: u64 = 1;
pub(super) const ALLOC: u64 = 2;
pub(super) const EXECUTE: u64 = 4;
pub(super) const LINK_ORDER: u64 = 0x80;
pub(super) const IN_GROUP: u64 = 0x200;
pub(super) const THREAD: u64 = 0x400;

const HEADER_BYTES: usize = 64;
const XINDEX: u16 = 0xffff;

/// A section header before the file is put together.
struct Header {
    name: String,
    kind: u32,
    flags: u64,
    alignment: u64,
    link: u32,
    info: u32,
    entry_bytes: u64,
    content: Vec<u8>,
    zero_bytes: u64,
}

impl ElfFile {
    /// The bytes of the file.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut headers: Vec<Header> = self.sections.iter().map(Section::header).collect();
        let count = headers.len();
        let tables = self.sections.iter().filter(|section| !section.relocations.is_empty()).count();
        // Behind the sections: groups, relocations, the symbol table, and what belongs to that.
        let symbol_table = number(1 + count + self.groups.len() + tables);
        for group in &self.groups {
            let mut words = vec![1];
            words.extend(group.members.iter().map(|member| number(member + 1)));
            let content = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let header = Header::new(".group", GROUP, content);
            let info = number(group.signature + 1);
            headers.push(Header {
                link: symbol_table,
                info,
                alignment: 4,
                entry_bytes: 4,
                ..header
            });
        }
        for (index, section) in self.sections.iter().enumerate() {
            if section.relocations.is_empty() {
                continue;
            }
            let content = section.relocations.iter().flat_map(Relocation::record).collect();
            let header = Header::new(&format!(".rela{}", section.name), RELA, content);
            let info = number(index + 1);
            headers.push(Header { link: symbol_table, info, entry_bytes: 24, ..header });
        }
        let mut names = vec![0];
        let records =
            self.symbols.iter().flat_map(|symbol| symbol.record(&mut names, self.is_wide));
        let records = vec![0; 24].into_iter().chain(records).collect();
        let locals = self.symbols.iter().filter(|symbol| symbol.binding == 0).count();
        let header = Header::new(".symtab", SYMTAB, records);
        let (link, info) = (symbol_table + 1, number(1 + locals));
        headers.push(Header { link, info, entry_bytes: 24, ..header });
        headers.push(Header::new(".strtab", STRTAB, names));
        if self.is_wide {
            let indices = self.symbols.iter().map(|symbol| symbol.home.index());
            let indices = std::iter::once(0).chain(indices).flat_map(u32::to_le_bytes).collect();
            let header = Header::new(".symtab_shndx", SYMTAB_SHNDX, indices);
            headers.push(Header { link: symbol_table, entry_bytes: 4, ..header });
        }
        assemble(headers, self.is_wide, self.processor)
    }
}

impl Section {
    fn header(&self) -> Header {
        Header {
            flags: self.flags,
            alignment: self.alignment,
            link: self.link.map_or(0, |section| number(section + 1)),
            zero_bytes: self.zero_bytes,
            ..Header::new(&self.name, self.kind, self.content.clone())
        }
    }
}

impl Header {
    fn new(name: &str, kind: u32, content: Vec<u8>) -> Header {
        let (flags, alignment, link, info, entry_bytes, zero_bytes) = (0, 8, 0, 0, 0, 0);
        let name = name.to_owned();
        Header { name, kind, flags, alignment, link, info, entry_bytes, content, zero_bytes }
    }
}

impl Relocation {
    fn record(&self) -> [u8; 24] {
        let mut record = [0; 24];
        record[..8].copy_from_slice(&self.offset.to_le_bytes());
        record[8..12].copy_from_slice(&self.kind.to_le_bytes());
        record[12..16].copy_from_slice(&number(self.symbol + 1).to_le_bytes());
        record[16..].copy_from_slice(&self.addend.to_le_bytes());
        record
    }
}

impl Symbol {
    fn record(&self, names: &mut Vec<u8>, is_wide: bool) -> [u8; 24] {
        let name = if self.name.is_empty() { 0 } else { number(names.len()) };
        if !self.name.is_empty() {
            names.extend_from_slice(self.name.as_bytes());
            names.push(0);
        }
        let section = match self.home {
            Home::Undefined => 0,
            Home::Absolute => 0xfff1,
            Home::Common => 0xfff2,
            Home::Section(_) if is_wide => XINDEX,
            Home::Section(_) => u16::try_from(self.home.index()).unwrap_or(XINDEX),
        };
        let mut record = [0; 24];
        record[..4].copy_from_slice(&name.to_le_bytes());
        record[4] = self.binding << 4 | self.kind;
        record[5] = self.visibility;
        record[6..8].copy_from_slice(&section.to_le_bytes());
        record[8..16].copy_from_slice(&self.value.to_le_bytes());
        record[16..].copy_from_slice(&self.bytes.to_le_bytes());
        record
    }
}

impl Home {
    fn index(self) -> u32 {
        match self {
            Home::Section(section) => number(section + 1),
            _ => 0,
        }
    }
}

/// Puts the file together: header, contents, section headers.
fn assemble(mut headers: Vec<Header>, is_wide: bool, processor: Processor) -> Vec<u8> {
    let mut names = vec![0];
    let mut name_offsets = Vec::new();
    headers.push(Header::new(".shstrtab", STRTAB, Vec::new()));
    for header in &headers {
        name_offsets.push(number(names.len()));
        names.extend_from_slice(header.name.as_bytes());
        names.push(0);
    }
    let count = 1 + headers.len();
    if let Some(last) = headers.last_mut() {
        last.content = names;
    }
    let mut file = vec![0; HEADER_BYTES];
    let mut table = vec![0; HEADER_BYTES];
    for (header, name) in headers.iter().zip(name_offsets) {
        while !file.len().is_multiple_of(8) {
            file.push(0);
        }
        let bytes = header.content.len() as u64 + header.zero_bytes;
        table.extend_from_slice(&name.to_le_bytes());
        table.extend_from_slice(&header.kind.to_le_bytes());
        for word in [header.flags, 0, file.len() as u64, bytes] {
            table.extend_from_slice(&word.to_le_bytes());
        }
        table.extend_from_slice(&header.link.to_le_bytes());
        table.extend_from_slice(&header.info.to_le_bytes());
        table.extend_from_slice(&header.alignment.to_le_bytes());
        table.extend_from_slice(&header.entry_bytes.to_le_bytes());
        file.extend_from_slice(&header.content);
    }
    let (sections, names) = match is_wide {
        true => (0, XINDEX),
        false => (short(count), short(count - 1)),
    };
    if is_wide {
        table[32..40].copy_from_slice(&(count as u64).to_le_bytes());
        table[40..44].copy_from_slice(&number(count - 1).to_le_bytes());
    }
    let table_offset = file.len() as u64;
    file.extend_from_slice(&table);
    // 64 bits, little-endian, version 1; a relocatable object, version 1.
    file[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    file[16..24].copy_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0]);
    file[18..20].copy_from_slice(&processor.elf_machine().to_le_bytes());
    file[40..48].copy_from_slice(&table_offset.to_le_bytes());
    for (at, value) in [(52, 64), (58, 64), (60, sections), (62, names)] {
        file[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    file
}

/// A number of a generated file. They are all far smaller than 2^32.
fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn short(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
