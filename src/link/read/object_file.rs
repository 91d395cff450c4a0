//! An ELF relocatable object, read once and lent to any number of links.
//!
//! Invariant: every index and offset was checked when the file was read. Sections, symbols and fields that are named
//! exist, and lie inside what they belong to.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::elf;
use super::parsed::{Group, Name, Parsed, Place, Section, Symbol, SymbolKind, indices};
use crate::arch::edge::Edge;
use crate::arch::processor::Processor;
use crate::error::Result;

/// A relocatable object that was read and found sound.
///
/// Immutable and cheap to clone. Any number of threads may link it at the same time. It keeps the bytes of the file
/// alive.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// let object = compile("int answer(void) { return 42; }")?;
/// assert_eq!(object.definitions().collect::<Vec<_>>(), ["answer"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ObjectFile {
    /// The name used in messages.
    name: Arc<str>,
    parsed: Arc<Parsed>,
}

impl ObjectFile {
    /// Reads and checks an object. `name` is its name in messages.
    ///
    /// The object keeps the bytes; nothing is copied. [`FileBytes::from_owner`](Bytes::from_owner) lends a mapped file. No
    /// process may write to that file while the object exists. A process that truncates it ends this one with SIGBUS.
    ///
    /// # Errors
    /// The file is not a sound ELF relocatable object of a [`Processor`], or uses something that this linker does not support. The message
    /// names the position in the file.
    pub fn parse(name: impl Into<String>, bytes: impl Into<Bytes>) -> Result<ObjectFile> {
        Self::read(name.into(), bytes.into())
    }

    /// As [`parse`](Self::parse), for bytes that may be a part of a file.
    pub(crate) fn read(name: String, bytes: Bytes) -> Result<ObjectFile> {
        let parsed = Arc::new(elf::read(&name, bytes)?);
        Ok(ObjectFile { name: name.into(), parsed })
    }

    /// The name given when it was read.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The processor that its code is for.
    #[must_use]
    pub fn processor(&self) -> Processor {
        self.parsed.processor
    }

    /// The names this object defines for the objects it is linked with, in file order. They have no versions: the symbol
    /// `api@@V2` defines the name `api`.
    pub fn definitions(&self) -> impl Iterator<Item = &str> {
        let globals = self.parsed.symbols.iter().filter(|symbol| symbol.is_global);
        globals.filter(|symbol| symbol.is_defined()).map(|symbol| self.text(symbol.name))
    }

    /// True when both share one parse.
    #[cfg(test)]
    pub(crate) fn shares_with(&self, other: &ObjectFile) -> bool {
        Arc::ptr_eq(&self.parsed, &other.parsed)
    }

    /// The data that was read, for tests that spoil it; there must be no other copy.
    #[cfg(test)]
    pub(crate) fn parsed_mut(&mut self) -> &mut Parsed {
        Arc::get_mut(&mut self.parsed).unwrap()
    }

    pub(crate) fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// The same object under another name.
    pub(crate) fn renamed(&self, name: impl Into<String>) -> ObjectFile {
        ObjectFile { name: Arc::from(name.into()), parsed: Arc::clone(&self.parsed) }
    }

    /// The whole file, as it was read or [built](crate::ObjectBuilder::build).
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.parsed.bytes
    }

    pub(crate) fn sections(&self) -> &[Section] {
        &self.parsed.sections
    }

    pub(crate) fn section(&self, index: u32) -> &Section {
        &self.parsed.sections[index as usize]
    }

    pub(crate) fn symbols(&self) -> &[Symbol] {
        &self.parsed.symbols
    }

    pub(crate) fn symbol(&self, index: u32) -> &Symbol {
        &self.parsed.symbols[index as usize]
    }

    /// The function whose code is put on the stack and run there, if the object says that one is. It is the first function
    /// with a name as GNU C gives them to nested ones, or else the object's first function.
    pub(crate) fn function_on_stack(&self) -> Option<&str> {
        let functions = self.symbols().iter().filter(|one| one.kind == SymbolKind::Function);
        let mut names = functions.filter(|one| one.is_defined()).map(|one| self.text(one.name));
        let is_nested = |name: &&str| {
            let number = name.rsplit_once('.').map(|(_, number)| number);
            number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
        };
        let first = self.parsed.runs_on_stack.then(|| names.clone().next().unwrap_or_default())?;
        Some(names.find(is_nested).unwrap_or(first))
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.parsed.groups
    }

    /// The sections of a group.
    pub(crate) fn members(&self, group: &Group) -> &[u32] {
        self.parsed.members.get(indices(&group.sections)).unwrap_or_default()
    }

    /// The relocations of a section.
    pub(crate) fn edges(&self, section: &Section) -> &[Edge] {
        self.parsed.edges(section)
    }

    /// The bytes of a section in the file; empty for zero fill.
    pub(crate) fn content(&self, section: &Section) -> &[u8] {
        section
            .content
            .as_ref()
            .and_then(|range| self.parsed.bytes.get(range.clone()))
            .unwrap_or(&[])
    }

    pub(crate) fn bytes_of(&self, name: Name) -> &[u8] {
        name.bytes(&self.parsed.bytes)
    }

    pub(crate) fn text(&self, name: Name) -> &str {
        name.text(&self.parsed.bytes)
    }

    /// The definitions whose names have a default version: the index of the symbol, and the version.
    pub(crate) fn default_versions(&self) -> impl Iterator<Item = (u32, Name)> {
        self.parsed.default_versions.iter().copied()
    }

    /// The words for a symbol in a message: its name, or the name of its section.
    pub(crate) fn symbol_text(&self, index: u32) -> &str {
        let symbol = self.symbol(index);
        match (self.text(symbol.name), symbol.place) {
            ("", Place::Section(section)) => self.text(self.section(section).name),
            (name, _) => name,
        }
    }
}

impl fmt::Debug for ObjectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectFile")
            .field("name", &self.name)
            .field("sections", &self.parsed.sections.len())
            .field("symbols", &self.parsed.symbols.len())
            .finish_non_exhaustive()
    }
}
