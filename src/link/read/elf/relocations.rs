//! Relocations, as edges.
//!
//! Invariant: the field of an edge lies in its section, and its symbol can have an address.

use object::read::SectionIndex;
use object::read::elf::{Rela, SectionHeader};
use object::{LittleEndian, elf};

use super::{LE, Reader};
use crate::addr::Prot;
use crate::arch::edge::{Edge, EdgeKind, Formula};
use crate::arch::processor::Processor;
use crate::arch::{aarch64, x86_64};
use crate::error::{Error, Result};
use crate::read::eh_frame;
use crate::read::parsed::{Place, Role, Section, indices};

type Relocation = elf::Rela64<LittleEndian>;

impl Reader<'_> {
    pub(super) fn read_relocations(&mut self) -> Result<()> {
        let mut found: Vec<(u32, &[Relocation])> = Vec::new();
        for (index, header) in self.table.enumerate() {
            let kind = header.sh_type(LE);
            if !matches!(kind, elf::SHT_RELA | elf::SHT_REL | elf::SHT_RELR | elf::SHT_CREL) {
                continue;
            }
            let what = format_args!("relocation section {}", index.0);
            let Some(section) = self.loaded_index(header.sh_info(LE), || what.to_string())? else {
                continue;
            };
            if kind != elf::SHT_RELA {
                return Err(self.error(format!(
                    "{what}: type {:#x}; {} objects have SHT_RELA relocations (recompile without \
                     experimental relocation formats)",
                    kind.0, self.processor
                )));
            }
            if SectionIndex(header.sh_link(LE) as usize) != self.symbol_table.section() {
                return Err(self.error(format!(
                    "{what}: its symbol table is section {}, not {}",
                    header.sh_link(LE),
                    self.symbol_table.section().0
                )));
            }
            let range = self.content_range(what, header.sh_offset(LE), header.sh_size(LE))?;
            if range.len() % size_of::<Relocation>() != 0 {
                return Err(self.error(format!(
                    "{what}: {} bytes are not {}-byte relocations",
                    range.len(),
                    size_of::<Relocation>()
                )));
            }
            let relocations = header.data_as_array(LE, self.bytes);
            let relocations = relocations.map_err(|e| self.error(format!("{what}: {e}")))?;
            found.push((section, relocations));
        }
        // The relocations of one section lie next to each other.
        found.sort_by_key(|(section, _)| *section);
        let count = found.iter().map(|(_, relocations)| relocations.len()).sum();
        let mut edges = Vec::with_capacity(count);
        for (section, relocations) in found {
            let first = self.length(&edges)?;
            let is_low = match self.processor {
                Processor::X86_64 => self.read_edges::<false>(section, relocations, &mut edges)?,
                Processor::Aarch64 => self.read_edges::<true>(section, relocations, &mut edges)?,
            };
            let end = self.length(&edges)?;
            let section = &mut self.sections[section as usize];
            section.is_low |= is_low;
            let first = if section.edges.is_empty() { first } else { section.edges.start };
            section.edges = first..end;
        }
        self.edges = edges;
        Ok(())
    }

    /// Appends the relocations of a section. Returns whether one holds an address in 32 bits.
    fn read_edges<const IS_AARCH64: bool>(
        &self,
        section: u32,
        relocations: &[Relocation],
        edges: &mut Vec<Edge>,
    ) -> Result<bool> {
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
        // Known to the compiler, so that nothing is asked for each relocation.
        let processor = if IS_AARCH64 { Processor::Aarch64 } else { Processor::X86_64 };
        let first = edges.len();
        let (mut is_low, mut is_thread) = (false, false);
        for relocation in relocations {
            let (number, target) = (relocation.r_type(LE, false).0, relocation.r_sym(LE, false));
            let offset = relocation.r_offset(LE);
            let Some(kind) = processor.edge_kind(number) else {
                return Err(at(format!(
                    "offset {offset:#x}: unknown relocation type {number} of {processor}"
                )));
            };
            match kind.formula {
                Formula::Nothing => continue,
                Formula::Dynamic => {
                    return Err(at(format!(
                        "offset {offset:#x}: {} belongs in a linked program, not in an object",
                        kind.name
                    )));
                }
                Formula::Unsupported => {
                    return Err(at(format!(
                        "offset {offset:#x}: {} is not supported; {}",
                        kind.name,
                        aarch64::advice(number)
                    )));
                }
                _ => {}
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
            let is_array = matches!(
                into.role,
                Role::PreinitArray | Role::InitArray { .. } | Role::FiniArray { .. }
            );
            if is_array && offset % 8 + u32::from(kind.field_bytes) > 8 {
                return Err(at(format!(
                    "{} at offset {offset:#x} crosses two function pointers",
                    kind.name
                )));
            }
            let Some(symbol) = self.symbols.get(target as usize) else {
                return Err(at(format!(
                    "offset {offset:#x}: {} against symbol {target}, and there are {} symbols",
                    kind.name,
                    self.symbols.len()
                )));
            };
            let local_nowhere =
                !symbol.is_global && symbol.place == Place::Undefined && target != 0;
            if local_nowhere || symbol.place == Place::NotLoaded {
                return Err(at(format!(
                    "offset {offset:#x}: {} against `{}` (symbol {target}), which is not loaded",
                    kind.name,
                    self.text(symbol.name)
                )));
            }
            let addend = relocation.r_addend(LE);
            let kind = match processor {
                Processor::X86_64 => x86_64::refine(kind, code, offset, addend),
                Processor::Aarch64 => {
                    if let Some(what) = self.objection_to_operand(into, kind, offset, addend) {
                        return Err(at(format!("offset {offset:#x}: {}: {what}", kind.name)));
                    }
                    kind
                }
            };
            is_low |= kind.is_narrow()
                && kind.formula == Formula::Absolute
                && symbol.place != Place::Absolute;
            is_thread |= matches!(kind.formula, Formula::Thread(_));
            edges.push(Edge { offset, target, addend, kind });
        }
        if is_thread {
            let own = edges.split_off(first);
            let symbol = |edge: &Edge| &self.symbols[edge.target as usize];
            let is_tls_get_addr = |edge: &Edge| {
                symbol(edge).is_global && self.text(symbol(edge).name) == "__tls_get_addr"
            };
            let own = self.processor.accept_threads(code, own, is_tls_get_addr);
            let own = own.map_err(|(edge, what)| {
                let (name, symbol) = (edge.kind.name, self.text(symbol(&edge).name));
                at(format!("offset {:#x}: {name} against `{symbol}`: {what}", edge.offset))
            })?;
            edges.extend(own);
        }
        Ok(is_low)
    }

    #[inline(never)]
    /// Why an instruction of `section` cannot hold a part of a value.
    fn objection_to_operand(
        &self,
        section: &Section,
        kind: &EdgeKind,
        offset: u32,
        addend: i64,
    ) -> Option<String> {
        let operand = kind.operand?;
        let bytes = section.content.clone().and_then(|range| self.bytes.get(range));
        let bytes = bytes.and_then(|bytes| bytes.get(offset as usize..)).unwrap_or_default();
        if !operand.is_of(bytes) {
            let bytes = bytes.get(..4).unwrap_or_default();
            return Some(format!("the bytes {bytes:02x?} are no instruction with such an operand"));
        }
        (kind.formula.needs_got_entry() && addend != 0).then(|| {
            format!("the addend {addend}, and an entry of the GOT is for the symbol itself")
        })
    }

    /// Finds the records of every `.eh_frame`.
    pub(super) fn split_eh_frames(&mut self) -> Result<()> {
        for slot in 0..self.sections.len() {
            let section = &mut self.sections[slot];
            if !matches!(section.role, Role::EhFrame(_)) {
                continue;
            }
            let edges = &mut self.edges[indices(&section.edges)];
            edges.sort_by_key(|edge| edge.offset);
            let range = section.content.clone().unwrap_or_default();
            let content = self.bytes.get(range).unwrap_or_default();
            let records = eh_frame::split(content, edges)
                .map_err(|what| Error::link(format!("{}: section .eh_frame: {what}", self.name)))?;
            section.role = Role::EhFrame(records);
        }
        Ok(())
    }
}
