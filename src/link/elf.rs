//! Reading an ELF relocatable object into plain data.
//!
//! Invariant: nothing is believed. Every offset, size and index is checked before it is used, and the
//! work and memory spent are at most proportional to the size of the file: sections and names may not
//! overlap so much that they add up to more than the file itself.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use object::elf;
use object::read::elf::{FileHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable};
use object::read::{SectionIndex, SymbolIndex};
use object::{LittleEndian, U32};

use super::edge::{Edge, Formula};
use super::object_file::{Group, Name, Parsed, Place, Role, Section, Symbol, SymbolKind};
use super::section_role::{is_loaded, is_relro, role};
use super::{eh_frame, file_kind, x86_64};
use crate::addr::Prot;
use crate::error::{Error, Result};
use crate::limits::PAGE_BYTES;

/// Reads a whole object.
///
/// # Errors
/// The file is not a sound x86-64 relocatable object.
pub(super) fn read(name: Arc<str>, bytes: Arc<[u8]>) -> Result<Parsed> {
    if let Some(objection) = file_kind::objection(&bytes) {
        return Err(Error::link(format!("{name}: {objection}")));
    }
    let mut reader = Reader::new(&name, &bytes)?;
    reader.read_sections()?;
    reader.read_symbols()?;
    reader.read_groups()?;
    reader.read_relocations()?;
    reader.split_eh_frames()?;
    let Reader { sections, symbols, groups, .. } = reader;
    Ok(Parsed { name, bytes, sections, symbols, groups })
}

type Header = elf::FileHeader64<LittleEndian>;
type HeaderOfSection = elf::SectionHeader64<LittleEndian>;
type Relocation = elf::Rela64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

struct Reader<'a> {
    name: &'a str,
    bytes: &'a [u8],
    table: SectionTable<'a, Header>,
    /// ELF section index to index in `sections`; `None` for what is not loaded.
    loaded: Vec<Option<u32>>,
    symbol_table: SymbolTable<'a, Header>,
    sections: Vec<Section>,
    symbols: Vec<Symbol>,
    groups: Vec<Group>,
    /// What sections and names may still add up to.
    bytes_left: u64,
    name_bytes_left: u64,
}

impl<'a> Reader<'a> {
    fn new(name: &'a str, bytes: &'a [u8]) -> Result<Self> {
        let at = |what: &str, error: object::read::Error| {
            Error::link(format!("{name}: {what}: {error} (the file has {} bytes)", bytes.len()))
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(Error::link(format!(
                "{name}: {} bytes is too large an object",
                bytes.len()
            )));
        }
        let header = Header::parse(bytes).map_err(|error| at("ELF header", error))?;
        let table = header.sections(LE, bytes).map_err(|error| {
            at(&format!("section headers at offset {}", header.e_shoff.get(LE)), error)
        })?;
        if table.is_empty() {
            return Err(Error::link(format!(
                "{name}: no sections; the file is stripped or damaged"
            )));
        }
        let symbol_table =
            table.symbols(LE, bytes, elf::SHT_SYMTAB).map_err(|error| at("symbol table", error))?;
        let size = bytes.len() as u64;
        Ok(Reader {
            name,
            bytes,
            table,
            loaded: vec![None; table.len()],
            symbol_table,
            sections: Vec::new(),
            symbols: Vec::new(),
            groups: Vec::new(),
            bytes_left: size,
            name_bytes_left: size.saturating_mul(NAME_OVERLAP_MAX),
        })
    }

    fn error(&self, what: impl Display) -> Error {
        Error::link(format!("{}: {what}", self.name))
    }

    // ---- sections ----------------------------------------------------------------------------------

    fn read_sections(&mut self) -> Result<()> {
        let mut has_lto = false;
        let mut has_bytes = false;
        let mut links = Vec::new();
        for (index, header) in self.table.enumerate().skip(1) {
            let bytes = self.table.section_name(LE, header);
            let bytes =
                bytes.map_err(|error| self.error(format!("section {}: {error}", index.0)))?;
            let name = self.name_of(bytes, || format!("section {}", index.0))?;
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            has_lto |= text.starts_with(".gnu.lto_");
            if !is_loaded(text, header) {
                continue;
            }
            let section = self.read_section(text, name, header)?;
            has_bytes |= section.bytes > 0;
            let slot = self.next_section()?;
            if header.sh_flags(LE).contains(elf::SHF_LINK_ORDER) && header.sh_link(LE) != 0 {
                links.push((slot, header.sh_link(LE)));
            }
            self.loaded[index.0] = Some(slot);
            self.sections.push(section);
        }
        if has_lto && !has_bytes {
            return Err(self.error(file_kind::LTO));
        }
        for (slot, link) in links {
            let target = self.loaded_index(link, "sh_link")?;
            self.sections[slot as usize].linked_to = target;
        }
        Ok(())
    }

    fn read_section(
        &mut self,
        text: &str,
        name: Name,
        header: &HeaderOfSection,
    ) -> Result<Section> {
        let flags = header.sh_flags(LE);
        let bytes = header.sh_size(LE);
        let object = self.name;
        let at = |what: String| Error::link(format!("{object}: section {text}: {what}"));
        if flags.contains(elf::SHF_COMPRESSED) {
            return Err(at("compressed, which a loaded section must not be".to_owned()));
        }
        let executable = flags.contains(elf::SHF_EXECINSTR);
        let relro = is_relro(text, header);
        let writable = flags.contains(elf::SHF_WRITE) && !relro;
        if executable && flags.contains(elf::SHF_WRITE) {
            return Err(at("writable and executable; split it into code and data".to_owned()));
        }
        if matches!(text, ".init" | ".fini") {
            return Err(at("code fragments of _init and _fini are not run; use \
                 __attribute__((constructor)) or .init_array"
                .to_owned()));
        }
        let alignment = header.sh_addralign(LE).max(1);
        if !alignment.is_power_of_two() || alignment > PAGE_BYTES {
            return Err(at(format!(
                "alignment {alignment}; at most a page ({PAGE_BYTES}) and a power of two is possible"
            )));
        }
        let content = match header.file_range(LE) {
            Some((offset, size)) => Some(self.content_range(text, offset, size)?),
            None if executable => {
                return Err(at("executable but without bytes (NOBITS)".to_owned()));
            }
            None => None,
        };
        let role = role(text, header);
        let is_array =
            matches!(role, Role::PreinitArray | Role::InitArray { .. } | Role::FiniArray { .. });
        if is_array && (!bytes.is_multiple_of(8) || content.is_none()) {
            return Err(at(format!("{bytes} bytes are not an array of 8-byte function pointers")));
        }
        let prot = match (executable, writable) {
            (true, _) => Prot::Code,
            (false, true) => Prot::Data,
            (false, false) => Prot::Constants,
        };
        Ok(Section {
            name,
            role,
            prot,
            alignment,
            bytes,
            content,
            edges: Vec::new(),
            linked_to: None,
        })
    }

    /// Checks that `size` bytes at `offset` are in the file, and counts them.
    fn content_range(&mut self, what: &str, offset: u64, size: u64) -> Result<Range<usize>> {
        let end = offset.checked_add(size).filter(|end| *end <= self.bytes.len() as u64);
        let (Some(end), Some(left)) = (end, self.bytes_left.checked_sub(size)) else {
            return Err(self.error(format!(
                "section {what}: {size} bytes at offset {offset} are outside of the file ({} bytes) \
                 or overlap other sections; the file is truncated or damaged",
                self.bytes.len()
            )));
        };
        self.bytes_left = left;
        match (usize::try_from(offset), usize::try_from(end)) {
            (Ok(start), Ok(end)) => Ok(start..end),
            _ => Err(self.error(format!("section {what}: offset {offset} is too large"))),
        }
    }

    fn next_section(&self) -> Result<u32> {
        u32::try_from(self.sections.len()).map_err(|_| self.error("more than 2^32 sections"))
    }

    /// Our index of an ELF section; `Ok(None)` when it is not loaded.
    fn loaded_index(&self, index: u32, what: impl Display) -> Result<Option<u32>> {
        self.loaded.get(index as usize).copied().ok_or_else(|| {
            self.error(format!(
                "{what}: section index {index}, and there are {} sections",
                self.loaded.len()
            ))
        })
    }

    // ---- symbols -----------------------------------------------------------------------------------

    fn read_symbols(&mut self) -> Result<()> {
        self.symbols.reserve(self.symbol_table.len());
        for (index, symbol) in self.symbol_table.enumerate() {
            let symbol =
                if index.0 == 0 { Symbol::null() } else { self.read_symbol(index, symbol)? };
            self.symbols.push(symbol);
        }
        Ok(())
    }

    fn read_symbol(
        &mut self,
        index: SymbolIndex,
        symbol: &elf::Sym64<LittleEndian>,
    ) -> Result<Symbol> {
        let bytes = self.symbol_table.symbol_name(LE, symbol);
        let bytes = bytes.map_err(|error| self.error(format!("symbol {}: {error}", index.0)))?;
        let name = self.name_of(bytes, || format!("symbol {}", index.0))?;
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let what = format_args!("symbol {} `{text}`", index.0);
        let at = |problem: String| self.error(format!("{what}: {problem}"));

        let kind = match symbol.st_type() {
            elf::STT_NOTYPE | elf::STT_OBJECT | elf::STT_COMMON => SymbolKind::Plain,
            elf::STT_FUNC => SymbolKind::Function,
            elf::STT_SECTION | elf::STT_FILE => SymbolKind::Anonymous,
            elf::STT_TLS => SymbolKind::Thread,
            elf::STT_GNU_IFUNC => SymbolKind::Indirect,
            kind => return Err(at(format!("unknown symbol type {}", kind.0))),
        };
        let (local, weak) = match symbol.st_bind() {
            elf::STB_LOCAL => (true, false),
            elf::STB_GLOBAL => (false, false),
            elf::STB_WEAK | elf::STB_GNU_UNIQUE => (false, true),
            binding => return Err(at(format!("unknown symbol binding {}", binding.0))),
        };
        let value = symbol.st_value(LE);
        let place = self.place_of(index, symbol, what)?;
        match place {
            Place::Section(section) => {
                let size = self.sections[section as usize].bytes;
                if value > size {
                    return Err(at(format!(
                        "offset {value} is past the {size} bytes of its section"
                    )));
                }
            }
            Place::Common if !value.is_power_of_two() || value > PAGE_BYTES => {
                return Err(at(format!(
                    "alignment {value}; at most a page ({PAGE_BYTES}) and a power of two is possible"
                )));
            }
            Place::Common if local => return Err(at("common, but local".to_owned())),
            _ => {}
        }
        if !local && text.is_empty() {
            return Err(at("global, but without a name".to_owned()));
        }
        Ok(Symbol {
            name,
            global: (!local).then(|| Arc::from(text)),
            weak,
            hidden: matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL),
            kind,
            place,
            value,
            bytes: symbol.st_size(LE),
        })
    }

    fn place_of(
        &self,
        index: SymbolIndex,
        symbol: &elf::Sym64<LittleEndian>,
        what: std::fmt::Arguments<'_>,
    ) -> Result<Place> {
        let section = match symbol.st_shndx(LE) {
            elf::SHN_UNDEF => return Ok(Place::Undefined),
            elf::SHN_ABS => return Ok(Place::Absolute),
            elf::SHN_COMMON | SHN_X86_64_LCOMMON => return Ok(Place::Common),
            elf::SHN_XINDEX => self
                .symbol_table
                .shndx(LE, index)
                .filter(|section| *section != 0)
                .ok_or_else(|| {
                self.error(format!("{what}: its extended section index (SHN_XINDEX) is missing"))
            })?,
            reserved if reserved.is_reserved() => {
                return Err(
                    self.error(format!("{what}: unknown reserved section index {:#x}", reserved.0))
                );
            }
            section => u32::from(section.0),
        };
        Ok(match self.loaded_index(section, what)? {
            Some(section) => Place::Section(section),
            None => Place::NotLoaded,
        })
    }

    /// Where in the file `bytes`, a part of it, lies; checked to be text, and counted.
    fn name_of(&mut self, bytes: &[u8], what: impl Fn() -> String) -> Result<Name> {
        let Some(left) = self.name_bytes_left.checked_sub(bytes.len() as u64) else {
            return Err(self.error(format!(
                "{}: names overlap so much that they add up to more than {NAME_OVERLAP_MAX} times \
                 the file",
                what()
            )));
        };
        self.name_bytes_left = left;
        if std::str::from_utf8(bytes).is_err() {
            return Err(self.error(format!("{}: its name is not UTF-8", what())));
        }
        let start = bytes.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr());
        match (u32::try_from(start), u32::try_from(start.saturating_add(bytes.len()))) {
            (Ok(start), Ok(end)) => Ok(Name { start, end }),
            _ => Ok(Name::default()),
        }
    }

    // ---- groups ------------------------------------------------------------------------------------

    fn read_groups(&mut self) -> Result<()> {
        for (index, header) in self.table.enumerate() {
            if header.sh_type(LE) != elf::SHT_GROUP {
                continue;
            }
            let what = format!("section group {}", index.0);
            let range = self.content_range(&what, header.sh_offset(LE), header.sh_size(LE))?;
            let group = header.group(LE, self.bytes);
            let group = group.map_err(|error| self.error(format!("{what}: {error}")))?;
            let Some((flags, members)) = group else { continue };
            if !flags.contains(elf::GRP_COMDAT) {
                continue;
            }
            if range.len() % 4 != 0 {
                return Err(
                    self.error(format!("{what}: {} bytes are not 4-byte words", range.len()))
                );
            }
            let signature = self.signature(header.sh_info(LE), &what)?;
            let sections = self.group_members(members, &what)?;
            self.groups.push(Group { signature, sections });
        }
        Ok(())
    }

    fn signature(&self, symbol: u32, what: &str) -> Result<Arc<str>> {
        let Some(symbol) = self.symbols.get(symbol as usize).filter(|_| symbol != 0) else {
            return Err(self.error(format!(
                "{what}: signature is symbol {symbol}, and there are {} symbols",
                self.symbols.len()
            )));
        };
        if let Some(name) = &symbol.global {
            return Ok(Arc::clone(name));
        }
        let name = match (symbol.kind, symbol.place) {
            (SymbolKind::Anonymous, Place::Section(section)) => {
                self.sections[section as usize].name
            }
            _ => symbol.name,
        };
        let text = self.bytes.get(name.start as usize..name.end as usize).unwrap_or_default();
        Ok(Arc::from(std::str::from_utf8(text).unwrap_or_default()))
    }

    fn group_members(&self, members: &[U32<LittleEndian>], what: &str) -> Result<Vec<u32>> {
        let mut sections = Vec::new();
        for member in members {
            sections.extend(self.loaded_index(member.get(LE), what)?);
        }
        Ok(sections)
    }

    // ---- relocations -------------------------------------------------------------------------------

    fn read_relocations(&mut self) -> Result<()> {
        for (index, header) in self.table.enumerate() {
            let kind = header.sh_type(LE);
            if !matches!(kind, elf::SHT_RELA | elf::SHT_REL | elf::SHT_RELR | elf::SHT_CREL) {
                continue;
            }
            let what = format!("relocation section {}", index.0);
            let Some(section) = self.loaded_index(header.sh_info(LE), &what)? else { continue };
            if kind != elf::SHT_RELA {
                return Err(self.error(format!(
                    "{what}: type {:#x}; x86-64 objects have SHT_RELA relocations (recompile without \
                     experimental relocation formats)",
                    kind.0
                )));
            }
            if SectionIndex(header.sh_link(LE) as usize) != self.symbol_table.section() {
                return Err(self.error(format!(
                    "{what}: its symbol table is section {}, not {}",
                    header.sh_link(LE),
                    self.symbol_table.section().0
                )));
            }
            let range = self.content_range(&what, header.sh_offset(LE), header.sh_size(LE))?;
            if range.len() % size_of::<Relocation>() != 0 {
                return Err(self.error(format!(
                    "{what}: {} bytes are not {}-byte relocations",
                    range.len(),
                    size_of::<Relocation>()
                )));
            }
            let relocations = header.data_as_array(LE, self.bytes);
            let relocations = relocations.map_err(|e| self.error(format!("{what}: {e}")))?;
            self.read_edges(section, relocations)?;
        }
        Ok(())
    }

    fn read_edges(&mut self, section: u32, relocations: &[Relocation]) -> Result<()> {
        let slot = section as usize;
        let at = |what: String| {
            let text = self.text(self.sections[slot].name);
            Error::link(format!("{}: section {text}: {what}", self.name))
        };
        let into = &self.sections[slot];
        let code = match (into.prot, &into.content) {
            (Prot::Code, Some(range)) => self.bytes.get(range.clone()).unwrap_or_default(),
            _ => &[],
        };
        let mut edges = Vec::with_capacity(relocations.len());
        for relocation in relocations {
            let (number, target) = (relocation.r_type(LE, false).0, relocation.r_sym(LE, false));
            let offset = relocation.r_offset(LE);
            let Some(kind) = x86_64::edge_kind(number) else {
                return Err(at(format!("offset {offset:#x}: unknown relocation type {number}")));
            };
            if kind.formula == Formula::Nothing {
                continue;
            }
            if kind.formula == Formula::Dynamic {
                return Err(at(format!(
                    "offset {offset:#x}: {} belongs in a linked program, not in an object",
                    kind.name
                )));
            }
            let inside = offset
                .checked_add(u64::from(kind.field_bytes))
                .is_some_and(|end| end <= into.bytes);
            let (true, Ok(offset)) = (inside, u32::try_from(offset)) else {
                return Err(at(format!(
                    "{} at offset {offset:#x} is outside of the section's {:#x} bytes",
                    kind.name, into.bytes
                )));
            };
            let Some(symbol) = self.symbols.get(target as usize) else {
                return Err(at(format!(
                    "offset {offset:#x}: {} against symbol {target}, and there are {} symbols",
                    kind.name,
                    self.symbols.len()
                )));
            };
            let local_nowhere =
                symbol.global.is_none() && symbol.place == Place::Undefined && target != 0;
            if local_nowhere || symbol.place == Place::NotLoaded {
                return Err(at(format!(
                    "offset {offset:#x}: {} against `{}` (symbol {target}), which is not loaded",
                    kind.name,
                    self.text(symbol.name)
                )));
            }
            let addend = relocation.r_addend(LE);
            let kind = x86_64::refine(kind, code, offset, addend);
            edges.push(Edge { offset, target, addend, kind });
        }
        self.sections[slot].edges.append(&mut edges);
        Ok(())
    }

    fn split_eh_frames(&mut self) -> Result<()> {
        for slot in 0..self.sections.len() {
            let section = &mut self.sections[slot];
            if !matches!(section.role, Role::EhFrame(_)) {
                continue;
            }
            section.edges.sort_by_key(|edge| edge.offset);
            let range = section.content.clone().unwrap_or_default();
            let content = self.bytes.get(range).unwrap_or_default();
            let records = eh_frame::split(content, &section.edges)
                .map_err(|what| Error::link(format!("{}: section .eh_frame: {what}", self.name)))?;
            section.role = Role::EhFrame(records);
        }
        Ok(())
    }

    fn text(&self, name: Name) -> &str {
        let bytes = self.bytes.get(name.start as usize..name.end as usize).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Symbol {
    /// The symbol at index 0: address 0.
    fn null() -> Symbol {
        Symbol {
            name: Name::default(),
            global: None,
            weak: false,
            hidden: true,
            kind: SymbolKind::Anonymous,
            place: Place::Absolute,
            value: 0,
            bytes: 0,
        }
    }
}

/// How many times the size of the file its names may add up to. Names share their ends, never that much.
const NAME_OVERLAP_MAX: u64 = 8;

/// The section index of common symbols of the large code model.
const SHN_X86_64_LCOMMON: elf::SymbolSection = elf::SymbolSection(0xff02);
