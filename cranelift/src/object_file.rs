//! The object of a batch: an ELF file with a section for each kind of definition.
//!
//! Definitions are local symbols, which name the functions in messages and profiles. The start of each section is a global
//! symbol; the addresses of the definitions follow from it. References to other batches are undefined symbols.

use std::collections::HashMap;

use anyhow::anyhow;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::isa::TargetIsa;
use cranelift_module::{ModuleError, ModuleReloc, ModuleRelocTarget, ModuleResult};
use object::write::{
    Object, Relocation, SectionId, StandardSection, Symbol, SymbolId, SymbolSection,
};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope, elf,
};

use crate::definition::{Definition, Kind};
use crate::eh_frame;
use crate::item::ItemId;

/// A reference, resolved as far as the module knows.
pub(crate) enum Target {
    /// A definition of the same batch, and an offset in it.
    Here(ItemId, u32),
    Outside(Outside),
}

/// A symbol that others define.
pub(crate) struct Outside {
    pub(crate) name: String,
    pub(crate) kind: SymbolKind,
    pub(crate) weak: bool,
}

/// The object, and where its definitions are.
pub(crate) struct BatchObject {
    pub(crate) file: Vec<u8>,
    pub(crate) placed: Vec<Place>,
}

/// Where a definition is.
pub(crate) struct Place {
    pub(crate) id: ItemId,
    pub(crate) kind: Kind,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

struct Writer {
    object: Object<'static>,
    sections: HashMap<Kind, SectionId>,
    own: HashMap<ItemId, SymbolId>,
    outside: HashMap<String, SymbolId>,
}

/// The symbol at the start of a kind's section.
pub(crate) fn start_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Code => "farcall_cranelift.code",
        Kind::Constant => "farcall_cranelift.constants",
        Kind::Variable => "farcall_cranelift.variables",
        Kind::Zeroed => "farcall_cranelift.zeroed",
        Kind::ThreadLocal => "farcall_cranelift.thread_locals",
        Kind::ZeroedThreadLocal => "farcall_cranelift.zeroed_thread_locals",
    }
}

/// Makes the object. `resolve` says what a reference refers to.
///
/// # Errors
///
/// The errors of `resolve`; when a relocation is not one of x86-64 with ELF.
pub(crate) fn write(
    isa: &dyn TargetIsa,
    definitions: &[Definition],
    mut resolve: impl FnMut(&ModuleRelocTarget) -> ModuleResult<Target>,
) -> ModuleResult<BatchObject> {
    let mut writer = Writer {
        object: Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little),
        sections: HashMap::new(),
        own: HashMap::new(),
        outside: HashMap::new(),
    };
    let placed: Vec<Place> = definitions.iter().map(|one| writer.place(one)).collect();
    for (definition, place) in definitions.iter().zip(&placed) {
        for reloc in &definition.relocs {
            writer.relocate(definition, place.offset, reloc, &mut resolve)?;
        }
    }
    writer.unwind(isa, definitions)?;
    // Says that no code goes onto the stack.
    writer.object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Linker);
    let file = writer.object.write().map_err(backend)?;
    Ok(BatchObject { file, placed })
}

impl Writer {
    /// Gives a definition its place and its symbol.
    fn place(&mut self, definition: &Definition) -> Place {
        let Definition { id, kind, bytes, align, .. } = *definition;
        let section = self.section(kind);
        // A definition of no bytes has an address of its own, too.
        let offset = match kind {
            Kind::Zeroed | Kind::ZeroedThreadLocal => {
                self.object.append_section_bss(section, bytes.max(1), align)
            }
            _ if bytes == 0 => self.object.append_section_data(section, &[0], align),
            _ => self.object.append_section_data(section, &definition.content, align),
        };
        let name = &definition.name;
        let symbol = symbol(name, symbol_kind(kind), SymbolScope::Compilation);
        let own = Symbol {
            value: offset,
            size: bytes,
            section: SymbolSection::Section(section),
            ..symbol
        };
        let own = self.object.add_symbol(own);
        self.own.insert(id, own);
        Place { id, kind, offset, bytes }
    }

    fn section(&mut self, kind: Kind) -> SectionId {
        if let Some(section) = self.sections.get(&kind) {
            return *section;
        }
        let section = self.object.section_id(match kind {
            Kind::Code => StandardSection::Text,
            Kind::Constant => StandardSection::ReadOnlyData,
            Kind::Variable => StandardSection::Data,
            Kind::Zeroed => StandardSection::UninitializedData,
            Kind::ThreadLocal => StandardSection::Tls,
            Kind::ZeroedThreadLocal => StandardSection::UninitializedTls,
        });
        if !kind.is_thread_local() {
            let start = symbol(start_of(kind), SymbolKind::Label, SymbolScope::Dynamic);
            self.object.add_symbol(Symbol { section: SymbolSection::Section(section), ..start });
        }
        self.sections.insert(kind, section);
        section
    }

    fn relocate(
        &mut self,
        definition: &Definition,
        start: u64,
        reloc: &ModuleReloc,
        resolve: &mut impl FnMut(&ModuleRelocTarget) -> ModuleResult<Target>,
    ) -> ModuleResult<()> {
        let r_type = match reloc.kind {
            Reloc::Abs4 => elf::R_X86_64_32,
            Reloc::Abs8 => elf::R_X86_64_64,
            Reloc::X86PCRel4 => elf::R_X86_64_PC32,
            Reloc::X86CallPCRel4 | Reloc::X86CallPLTRel4 => elf::R_X86_64_PLT32,
            Reloc::X86GOTPCRel4 => elf::R_X86_64_GOTPCREL,
            Reloc::ElfX86_64TlsGd => elf::R_X86_64_TLSGD,
            other => {
                return Err(ModuleError::Backend(anyhow!(
                    "{}: relocation {other} is none of x86-64 with ELF",
                    definition.name
                )));
            }
        };
        let (symbol, inside) = match resolve(&reloc.name)? {
            Target::Here(id, offset) => (self.own.get(&id).copied(), i64::from(offset)),
            Target::Outside(outside) => (Some(self.outside(outside)), 0),
        };
        let symbol = symbol.ok_or_else(|| {
            ModuleError::Backend(anyhow!(
                "{} refers to a part of another function",
                definition.name
            ))
        })?;
        let relocation = Relocation {
            offset: start + u64::from(reloc.offset),
            symbol,
            addend: reloc.addend.wrapping_add(inside),
            flags: RelocationFlags::Elf { r_type },
        };
        let section = self.section(definition.kind);
        self.object.add_relocation(section, relocation).map_err(backend)
    }

    fn outside(&mut self, outside: Outside) -> SymbolId {
        if let Some(symbol) = self.outside.get(&outside.name) {
            return *symbol;
        }
        let undefined = symbol(&outside.name, outside.kind, SymbolScope::Unknown);
        let id = self.object.add_symbol(Symbol { weak: outside.weak, ..undefined });
        self.outside.insert(outside.name, id);
        id
    }

    fn unwind(&mut self, isa: &dyn TargetIsa, definitions: &[Definition]) -> ModuleResult<()> {
        let with_frames =
            definitions.iter().enumerate().filter_map(|(at, one)| Some((at, one.frame.as_ref()?)));
        let frames = eh_frame::frames(isa, with_frames)?;
        if frames.bytes.is_empty() {
            return Ok(());
        }
        let section = self.object.section_id(StandardSection::EhFrame);
        self.object.append_section_data(section, &frames.bytes, 8);
        for (offset, function) in frames.functions {
            let symbol = definitions.get(function).and_then(|one| self.own.get(&one.id).copied());
            let symbol = symbol.ok_or_else(|| backend("a frame of no function"))?;
            let flags = RelocationFlags::Elf { r_type: elf::R_X86_64_PC32 };
            let relocation = Relocation { offset, symbol, addend: 0, flags };
            self.object.add_relocation(section, relocation).map_err(backend)?;
        }
        Ok(())
    }
}

impl Kind {
    pub(crate) fn is_thread_local(self) -> bool {
        matches!(self, Self::ThreadLocal | Self::ZeroedThreadLocal)
    }
}

fn symbol_kind(kind: Kind) -> SymbolKind {
    match kind {
        Kind::Code => SymbolKind::Text,
        Kind::ThreadLocal | Kind::ZeroedThreadLocal => SymbolKind::Tls,
        _ => SymbolKind::Data,
    }
}

/// An undefined symbol.
fn symbol(name: &str, kind: SymbolKind, scope: SymbolScope) -> Symbol {
    Symbol {
        name: name.as_bytes().to_vec(),
        value: 0,
        size: 0,
        kind,
        scope,
        weak: false,
        section: SymbolSection::Undefined,
        flags: SymbolFlags::None,
    }
}

fn backend(error: impl std::fmt::Display) -> ModuleError {
    ModuleError::Backend(anyhow!("writing the object of a batch: {error}"))
}
