//! An object of functions and variables that a program has made itself.
//!
//! Each part has a section of its own, so an object that replaces one of several equal definitions drops its bytes, too.
//!
//! Invariant: the bytes that are made are read as the bytes of every other object.

use std::collections::{HashMap, HashSet};

use object::elf::RelocationType;
use object::write::{
    Object, Relocation, SectionId, StandardSection, Symbol, SymbolId, SymbolSection,
};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionKind, SymbolFlags, SymbolKind,
    SymbolScope,
};

use super::frame::Rows;
use super::part::{ObjectPart, PartKind};
use super::unwind::Records;
use crate::arch::facts::FieldForm;
use crate::arch::processor::Processor;
use crate::error::{Error, Result};
use crate::read::object_file::ObjectFile;

/// Machine code that a program has made itself, as an object to link: functions, data, and the fields in them that refer to
/// symbols. A compiler of your own that emits bytes needs neither ELF nor an assembler.
///
/// The object that is [built](ObjectBuilder::build) is an ordinary [`ObjectFile`], to be linked with objects from compilers.
///
/// # Examples
///
/// A function of 18 bytes that calls the C library and loads a variable:
///
/// ```
/// use farcall_link::{CalleeSaved, Frame, ObjectBuilder};
///
/// // 0: push rbp  1: mov rbp, rsp  4: call labs  9: add rax, [rip + more]  16: pop rbp  17: ret
/// let code = [0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 0, 0, 0, 0x48, 0x03, 0x05, 0, 0, 0, 0, 0x5d, 0xc3];
/// let mut object = ObjectBuilder::new("made by hand");
/// let function = object.function("far", code);
/// function.call(5, "labs").distance(12, "more", 0);
/// function.frame(Frame::of_frame_pointer().pop(17, CalleeSaved::Rbp));
/// object.data("more", 100_i64.to_le_bytes());
///
/// let object = object.build()?;
/// let mut defined: Vec<_> = object.definitions().collect();
/// defined.sort_unstable();
/// assert_eq!(defined, ["far", "more"]);
/// # Ok::<(), farcall_link::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ObjectBuilder {
    name: String,
    processor: Processor,
    parts: Vec<ObjectPart>,
}

impl ObjectBuilder {
    /// An object that defines nothing, for the processor of this program. `name` is its name in messages.
    #[must_use]
    pub fn new(name: impl Into<String>) -> ObjectBuilder {
        Self::for_processor(name, Processor::HOST)
    }

    /// An object that defines nothing, for this processor.
    ///
    /// # Examples
    ///
    /// ```
    /// use farcall_link::{Frame, ObjectBuilder, Processor};
    ///
    /// // stp x29, x30, [sp, #-16]!; mov x29, sp; bl labs; ldp x29, x30, [sp], #16; ret
    /// let code = [0xa9bf_7bfd_u32, 0x9100_03fd, 0x9400_0000, 0xa8c1_7bfd, 0xd65f_03c0];
    /// let code: Vec<u8> = code.into_iter().flat_map(u32::to_le_bytes).collect();
    /// let mut object = ObjectBuilder::for_processor("made by hand", Processor::Aarch64);
    /// object.function("far", code).call(8, "labs").frame(Frame::of_frame_record(16).leave(16));
    /// assert_eq!(object.build()?.processor(), Processor::Aarch64);
    /// # Ok::<(), farcall_link::Error>(())
    /// ```
    #[must_use]
    pub fn for_processor(name: impl Into<String>, processor: Processor) -> ObjectBuilder {
        ObjectBuilder { name: name.into(), processor, parts: Vec::new() }
    }

    /// Adds a function with this machine code. The code must not depend on its address but through fields of the part.
    pub fn function(
        &mut self,
        name: impl Into<String>,
        code: impl Into<Vec<u8>>,
    ) -> &mut ObjectPart {
        self.add(PartKind::Function, name.into(), code.into())
    }

    /// Adds a variable with these first bytes.
    pub fn data(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> &mut ObjectPart {
        self.add(PartKind::Data, name.into(), bytes.into())
    }

    /// Adds a constant, which code cannot change.
    pub fn constant(
        &mut self,
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
    ) -> &mut ObjectPart {
        self.add(PartKind::Constant, name.into(), bytes.into())
    }

    /// Adds a variable of `bytes` bytes that are zero at first. They take no memory before code touches them, if they are many.
    pub fn zeroes(&mut self, name: impl Into<String>, bytes: u64) -> &mut ObjectPart {
        self.add(PartKind::Zeroes(bytes), name.into(), Vec::new())
    }

    fn add(&mut self, kind: PartKind, name: String, content: Vec<u8>) -> &mut ObjectPart {
        self.parts.push(ObjectPart::new(kind, name, content));
        let last = self.parts.len() - 1;
        &mut self.parts[last]
    }

    /// The object. The builder can add more and build again.
    ///
    /// # Errors
    /// Two parts have one name, a field is outside of its part or overlaps another, or a frame is impossible. The message names the
    /// part, and says what to give in its place. A field may refer to a name that is missing; that is an error of the link.
    pub fn build(&self) -> Result<ObjectFile> {
        let mut names = HashSet::new();
        let mut frames = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            part.check(self.processor.facts()).map_err(|error| self.at(part, &error))?;
            if !names.insert(&part.name) {
                let error =
                    Error::invalid("the name is there already: give each part a name of its own");
                return Err(self.at(part, &error));
            }
            let Some(frame) = &part.frame else { continue };
            let bytes = u32::try_from(part.content.len());
            let bytes =
                bytes.map_err(|_| Error::invalid("a function of 4 GiB or more has no frame"));
            let rows =
                bytes.and_then(|bytes| Ok((number, frame.rows(bytes, self.processor)?, bytes)));
            frames.push(rows.map_err(|error| self.at(part, &error))?);
        }
        let architecture = match self.processor {
            Processor::X86_64 => Architecture::X86_64,
            Processor::Aarch64 => Architecture::Aarch64,
        };
        let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
        // Says that no code goes onto the stack.
        object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Linker);
        let placed: Vec<_> = self.parts.iter().map(|part| place(&mut object, part)).collect();
        let mut symbols: HashMap<&str, SymbolId> = HashMap::new();
        for (part, (_, symbol)) in self.parts.iter().zip(&placed) {
            symbols.insert(&part.name, *symbol);
        }
        let written = self.relocate(&mut object, &placed, &mut symbols);
        let written = written.and_then(|()| match frames.is_empty() {
            true => Ok(()),
            false => self.unwind(&mut object, &frames, &placed),
        });
        let bytes = written
            .and_then(|()| object.write().map_err(|error| Error::invalid(error.to_string())));
        ObjectFile::parse(self.name.clone(), bytes.map_err(|error| error.during(&self.name))?)
    }

    fn at(&self, part: &ObjectPart, error: &Error) -> Error {
        Error::invalid(format!("{}: {:?}: {error}", self.name, part.name))
    }

    /// Adds the fields of all parts.
    fn relocate<'a>(
        &'a self,
        object: &mut Object<'_>,
        placed: &[(SectionId, SymbolId)],
        symbols: &mut HashMap<&'a str, SymbolId>,
    ) -> Result<()> {
        for (part, (section, _)) in self.parts.iter().zip(placed) {
            for field in &part.fields {
                let symbol = symbols.entry(&field.symbol);
                let symbol = *symbol.or_insert_with(|| {
                    object.add_symbol(symbol_of(
                        &field.symbol,
                        SymbolKind::Unknown,
                        SymbolScope::Unknown,
                    ))
                });
                let found = part.relocation(self.processor.facts(), field)?;
                let addend = field.addend.saturating_add(found.base);
                let flags = RelocationFlags::Elf { r_type: RelocationType(found.number) };
                let relocation = Relocation { offset: field.offset, symbol, addend, flags };
                let added = object.add_relocation(*section, relocation);
                added.map_err(|error| self.at(part, &Error::invalid(error.to_string())))?;
            }
        }
        Ok(())
    }

    /// Adds the unwind information.
    fn unwind(
        &self,
        object: &mut Object<'_>,
        frames: &[(usize, Rows, u32)],
        placed: &[(SectionId, SymbolId)],
    ) -> Result<()> {
        let records = Records::new(frames, self.processor);
        let section = object.section_id(StandardSection::EhFrame);
        object.append_section_data(section, records.bytes(), 8);
        let field = (self.processor.facts().field)(FieldForm::Distance, false, &[]);
        let number = field.map_or(0, |field| field.number);
        for (offset, function) in &records.fields {
            let symbol = object.section_symbol(placed[*function].0);
            let flags = RelocationFlags::Elf { r_type: RelocationType(number) };
            let relocation = Relocation { offset: *offset, symbol, addend: 0, flags };
            let added = object.add_relocation(section, relocation);
            added.map_err(|error| Error::invalid(error.to_string()))?;
        }
        Ok(())
    }
}

/// Adds a part's section and symbol.
fn place(object: &mut Object<'_>, part: &ObjectPart) -> (SectionId, SymbolId) {
    let (prefix, section, kind) = match part.kind {
        PartKind::Function => (".text", SectionKind::Text, SymbolKind::Text),
        PartKind::Data => (".data", SectionKind::Data, SymbolKind::Data),
        PartKind::Constant => (".rodata", SectionKind::ReadOnlyData, SymbolKind::Data),
        PartKind::Zeroes(_) => (".bss", SectionKind::UninitializedData, SymbolKind::Data),
    };
    let name = format!("{prefix}.{}", part.name).into_bytes();
    let section = object.add_section(Vec::new(), name, section);
    let scope = if part.is_local { SymbolScope::Compilation } else { SymbolScope::Dynamic };
    let symbol = object.add_symbol(symbol_of(&part.name, kind, scope));
    match part.kind {
        PartKind::Zeroes(bytes) => object.add_symbol_bss(symbol, section, bytes, part.alignment),
        _ => object.add_symbol_data(symbol, section, &part.content, part.alignment),
    };
    (section, symbol)
}

fn symbol_of(name: &str, kind: SymbolKind, scope: SymbolScope) -> Symbol {
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
