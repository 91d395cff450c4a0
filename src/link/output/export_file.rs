//! The names that images define for others, as a shared library without contents for a dynamic linker.
//!
//! Its symbols are absolute: they have the addresses of the images. The file has one segment, which holds a table of symbols,
//! a hash table, the text of the names, and the dynamic section. Source of the format: the ELF specification (gABI 4.1).
//!
//! Behind its own headers the file has two empty ones. An executor writes into them, once the file is loaded, where the constants
//! and the data of a program are.
//!
//! Invariant: every name that is no thread-local is in the file once.

use std::collections::HashSet;

use object::elf;

use super::elf_file::{HEADER_BYTES, SEGMENT_BYTES, SYMBOL_BYTES, put, put_header};
use super::symbol_table::{Definition, SymbolTable};
use crate::addr::ExecutorAddr;
use crate::arch::processor::Processor;
use crate::graph::link_graph::{Global, LinkGraph, Resolution};
use crate::limits::PAGE_BYTES;

/// The segment that is loaded, the dynamic section, the stack, which is not executable, and two empty headers.
const SEGMENTS: u64 = 5;

/// Tables of names, of symbols, of hashes, two sizes, and the end.
const DYNAMIC_ENTRIES: u64 = 6;
const DYNAMIC_ENTRY_BYTES: u64 = 16;

/// An ELF shared library that defines the names which images have for others, at their addresses there. Of two images that
/// define a name, the first one counts. Thread-locals are left out. All images are for one processor.
#[must_use]
pub fn export_file<'a>(images: impl Iterator<Item = &'a SymbolTable>) -> Vec<u8> {
    let mut images = images.peekable();
    let processor = images.peek().map_or(Processor::HOST, |image| image.processor);
    let mut seen = HashSet::new();
    let all = images.flat_map(SymbolTable::iter);
    let exports = all.filter(|(name, definition)| !definition.thread && seen.insert(*name));
    let exports: Vec<_> = exports.map(|(name, definition)| (name, *definition)).collect();
    file_of(processor, &exports)
}

/// Such a library for those names of one image that are wanted, and how many there are.
#[must_use]
pub fn names_file(symbols: &SymbolTable, is_wanted: impl Fn(&str) -> bool) -> (Vec<u8>, usize) {
    let wanted = symbols.iter().filter(|(name, definition)| !definition.thread && is_wanted(name));
    let exports: Vec<_> = wanted.map(|(name, definition)| (name, *definition)).collect();
    (file_of(symbols.processor, &exports), exports.len())
}

impl LinkGraph {
    /// The same for the names that this graph defines. It has no addresses yet, and every symbol has a wrong one.
    pub fn announced_file(&self) -> Vec<u8> {
        let names = self.exports_with(is_named);
        let definition = |weak, callable| {
            let address = ExecutorAddr::new(1);
            Definition { address, bytes: 0, callable, thread: false, tls_module: None, weak }
        };
        let names = names.map(|one| (one.name, definition(one.weak, one.callable)));
        file_of(self.processor(), &names.collect::<Vec<_>>())
    }

    /// These names.
    pub fn announced_names(&self) -> impl Iterator<Item = &str> {
        self.exports_with(is_named).map(|one| one.name)
    }
}

/// True for what other files may be bound to: neither hidden nor a thread-local.
fn is_named(global: &Global) -> bool {
    let is_thread = matches!(global.resolution, Resolution::Here { thread: true, .. });
    !global.hidden && !is_thread
}

/// The shared library with these names.
fn file_of(processor: Processor, exports: &[(&str, Definition)]) -> Vec<u8> {
    let count = exports.len() as u64 + 1;
    let text_bytes = exports.iter().map(|(name, _)| name.len() as u64 + 1).sum::<u64>() + 1;
    let dynamic_at = HEADER_BYTES + SEGMENTS * SEGMENT_BYTES;
    let symbols_at = dynamic_at + DYNAMIC_ENTRIES * DYNAMIC_ENTRY_BYTES;
    let hashes_at = symbols_at + count * SYMBOL_BYTES;
    let text_at = hashes_at + (2 + 2 * count) * 4;
    let end = text_at + text_bytes;

    let mut file = Vec::with_capacity(usize::try_from(end).unwrap_or(0));
    put_header(&mut file, processor, SEGMENTS, 0);
    // The dynamic linker stores addresses in the dynamic section.
    let [read, write] = [elf::PF_R, elf::PF_W].map(|flag| u64::from(flag.0));
    let flags = read | write;
    put_segment(&mut file, [elf::PT_LOAD.0.into(), flags, 0, end, PAGE_BYTES]);
    let dynamic_bytes = DYNAMIC_ENTRIES * DYNAMIC_ENTRY_BYTES;
    put_segment(&mut file, [elf::PT_DYNAMIC.0.into(), flags, dynamic_at, dynamic_bytes, 8]);
    put_segment(&mut file, [elf::PT_GNU_STACK.0.into(), flags, 0, 0, 16]);
    (0..2).for_each(|_| put_segment(&mut file, [elf::PT_NULL.0.into(), 0, 0, 0, 0]));
    let entries = [
        (elf::DT_HASH.0, hashes_at),
        (elf::DT_SYMTAB.0, symbols_at),
        (elf::DT_STRTAB.0, text_at),
        (elf::DT_STRSZ.0, text_bytes),
        (elf::DT_SYMENT.0, SYMBOL_BYTES),
        (elf::DT_NULL.0, 0),
    ];
    for (tag, value) in entries {
        put(&mut file, &[(tag.cast_unsigned(), 8), (value, 8)]);
    }

    put(&mut file, &[(0, 8); 3]);
    let mut text = 1;
    for (name, definition) in exports {
        let kind = if definition.callable { elf::STT_FUNC } else { elf::STT_OBJECT };
        let binding = if definition.weak { elf::STB_WEAK } else { elf::STB_GLOBAL };
        let info = u64::from(binding.0 << 4 | kind.0);
        put(&mut file, &[(text, 4), (info, 1), (0, 1), (elf::SHN_ABS.0.into(), 2)]);
        put(&mut file, &[(definition.address.get(), 8), (definition.bytes, 8)]);
        text += name.len() as u64 + 1;
    }
    put_hashes(&mut file, exports.iter().map(|(name, _)| name.as_bytes()), count);
    file.push(0);
    for (name, _) in exports {
        file.extend_from_slice(name.as_bytes());
        file.push(0);
    }
    file
}

/// Type, flags, offset, bytes and alignment of a segment, whose address is its offset.
fn put_segment(file: &mut Vec<u8>, [kind, flags, offset, bytes, alignment]: [u64; 5]) {
    put(file, &[(kind, 4), (flags, 4), (offset, 8), (offset, 8), (offset, 8)]);
    put(file, &[(bytes, 8), (bytes, 8), (alignment, 8)]);
}

/// The hash table of the names, whose symbols are 1, 2 and so on. It has the numbers of buckets and of chains, and the first
/// symbol of each bucket. Then it has for each symbol the next one in its bucket.
fn put_hashes<'a>(file: &mut Vec<u8>, names: impl Iterator<Item = &'a [u8]>, count: u64) {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut buckets = vec![0_u32; count as usize];
    let mut chains = vec![0_u32; count as usize];
    for (symbol, name) in (1..count).zip(names) {
        let first = &mut buckets[(elf::hash(name) % count) as usize];
        chains[symbol as usize] = std::mem::replace(first, symbol);
    }
    for word in [count, count].into_iter().chain(buckets).chain(chains) {
        file.extend_from_slice(&word.to_le_bytes());
    }
}
