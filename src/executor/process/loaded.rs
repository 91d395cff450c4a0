//! The files that the dynamic linker has loaded: the symbols they define, and the words it has bound.
//!
//! A file's dynamic section, symbols and relocations stay mapped while the file is loaded. This module reads them
//! there, as the dynamic linker does.
//!
//! Invariant: a [`LoadedFile`] is used within [`with_files`], or in a constructor that the dynamic linker calls. Then no file is unloaded
//! meanwhile.
#![allow(unsafe_code, reason = "reads what the dynamic linker has mapped")]

mod bindings;

use std::ffi::{CStr, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use libc::{Elf64_Phdr, Elf64_Sym, dl_phdr_info};

use crate::call::contract::name_hashes::gnu_hash;
use crate::executor::entry::address;
use crate::limits::PAGE_BYTES;
use crate::{AddrRange, ExecutorAddr};

/// A loaded file.
#[derive(Debug, Default)]
pub(crate) struct LoadedFile {
    /// The load bias: what is added to the addresses in the file.
    base: u64,
    segments: Vec<Segment>,
    /// The address of its path, a C string.
    path: u64,
    /// The range that the dynamic linker made read-only after relocation.
    relro: AddrRange,
    dynamic: Dynamic,
    dynamic_section: AddrRange,
}

#[derive(Debug)]
struct Segment {
    range: AddrRange,
    executable: bool,
    writable: bool,
}

/// The addresses that the dynamic section names; 0 where it names none.
#[derive(Debug, Default)]
struct Dynamic {
    symbols: u64,
    names: u64,
    hash_table: u64,
    /// The hash table of the old form, which a file may have alone.
    old_hash_table: u64,
    relocations: u64,
    relocation_bytes: u64,
    /// The relocations of the procedure linkage table.
    plt_relocations: u64,
    plt_relocation_bytes: u64,
    /// The file prefers its own definitions.
    is_symbolic: bool,
    /// The version number of each symbol.
    symbol_versions: u64,
    /// The versions that the file defines.
    versions: u64,
}

/// The kind of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SymbolKind {
    /// A function.
    Function,
    /// A variable of this many bytes.
    Variable(u64),
    /// A variable that its library reaches without the dynamic linker, so that a copy would be another variable.
    Protected,
    /// No loaded file defines it.
    Unknown,
}

/// An entry of a dynamic section: tag, value.
pub(crate) type Dyn = [u64; 2];

const DT_NULL: u64 = 0;
const DT_PLTRELSZ: u64 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_SYMBOLIC: u64 = 16;
const DT_JMPREL: u64 = 23;
const DT_FLAGS: u64 = 30;
const DF_SYMBOLIC: u64 = 2;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
const DT_VERDEF: u64 = 0x6fff_fffc;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const STT_NOTYPE: u8 = 0;
const STT_OBJECT: u8 = 1;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STV_PROTECTED: u8 = 3;

/// All loaded files, the program first, and how many files have been loaded so far (`dlpi_adds`).
pub(crate) fn files() -> (Vec<LoadedFile>, u64) {
    type Files = (Vec<LoadedFile>, u64);

    unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: usize, files: *mut c_void) -> c_int {
        // SAFETY: the dynamic linker passes its description of a file.
        let info = unsafe { &*info };
        // SAFETY: the pointer is the one given to `dl_iterate_phdr` below.
        let files = unsafe { &mut *files.cast::<Files>() };
        files.0.push(LoadedFile::read(info));
        files.1 = info.dlpi_adds;
        0
    }

    let mut files: Files = (Vec::new(), 0);
    // SAFETY: the function is called with this pointer before this call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut files).cast()) };
    files
}

/// Calls a function with all loaded files, and with how many have been loaded so far. The dynamic linker keeps them meanwhile: it unloads
/// files under the lock of `dl_iterate_phdr`, and runs no code of a file under it. The function must not call the dynamic linker, which
/// takes other locks first, and must not take a lock under which others come here.
pub(crate) fn with_files<R>(function: impl FnOnce(&[LoadedFile], u64) -> R) -> R {
    type State<F, R> = (Option<F>, Option<std::thread::Result<R>>);

    unsafe extern "C" fn visit<F: FnOnce(&[LoadedFile], u64) -> R, R>(
        _: *mut dl_phdr_info,
        _: usize,
        state: *mut c_void,
    ) -> c_int {
        // SAFETY: the pointer is the one given to `dl_iterate_phdr` below.
        let (function, result) = unsafe { &mut *state.cast::<State<F, R>>() };
        // The lock may be taken again by the same thread.
        let (files, loaded) = files();
        let function = function.take();
        let call = AssertUnwindSafe(|| function.map(|function| function(&files, loaded)));
        *result = catch_unwind(call).transpose();
        // The other files are not visited.
        1
    }

    fn of<F: FnOnce(&[LoadedFile], u64) -> R, R>(
        _: &State<F, R>,
    ) -> unsafe extern "C" fn(*mut dl_phdr_info, usize, *mut c_void) -> c_int {
        visit::<F, R>
    }

    let mut state = (Some(function), None);
    let visit = of(&state);
    // SAFETY: the function is called with this pointer before this call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut state).cast()) };
    match state {
        (_, Some(Ok(result))) => result,
        (_, Some(Err(panic))) => resume_unwind(panic),
        (Some(function), None) => function(&[], 0),
        (None, None) => unreachable!("the function has run"),
    }
}

/// The shared libraries among the loaded files: neither the process's own program, which comes first, nor the file of this code.
/// An executor may be embedded as a shared library.
pub(crate) fn libraries(files: &[LoadedFile]) -> impl Iterator<Item = &LoadedFile> {
    let own = (self::files as *const c_void).expose_provenance() as u64;
    files.iter().skip(1).filter(move |file| !file.contains(own))
}

/// The kind of the symbol `name`, which the dynamic linker has found at `address`.
pub(crate) fn kind_of(files: &[LoadedFile], name: &CStr, address: u64) -> SymbolKind {
    let holder = files.iter().find_map(|file| Some((file, file.segment_at(address)?)));
    let Some((file, &Segment { executable, .. })) = holder else { return SymbolKind::Unknown };
    let of_symbol = |symbol: &Elf64_Sym| match symbol.st_info & 0xf {
        STT_FUNC | STT_GNU_IFUNC => Some(SymbolKind::Function),
        STT_OBJECT | STT_NOTYPE if file.base.wrapping_add(symbol.st_value) != address => None,
        STT_NOTYPE if executable => Some(SymbolKind::Function),
        STT_OBJECT | STT_NOTYPE if symbol.st_size == 0 => None,
        STT_OBJECT | STT_NOTYPE if symbol.st_other & 3 == STV_PROTECTED => {
            Some(SymbolKind::Protected)
        }
        STT_OBJECT | STT_NOTYPE => Some(SymbolKind::Variable(symbol.st_size)),
        _ => None,
    };
    let unnamed = if executable { SymbolKind::Function } else { SymbolKind::Unknown };
    file.symbols_named(name).iter().find_map(of_symbol).unwrap_or(unnamed)
}

/// The default version of a name in the file at `address`, where the dynamic linker has found the symbol. A linker would bind the name to
/// that version. `None` if surely no other file defines the name, or if that file has no versions of it.
pub(crate) fn rival_version<'a>(
    files: &'a [LoadedFile],
    name: &CStr,
    address: u64,
) -> Option<&'a CStr> {
    let is_rival = |file: &LoadedFile| {
        let has_old_table_alone = file.dynamic.hash_table == 0 && file.dynamic.old_hash_table != 0;
        !file.contains(address) && (has_old_table_alone || file.defines(name))
    };
    if !files.iter().any(is_rival) {
        return None;
    }
    files.iter().find(|file| file.contains(address))?.default_version(name)
}

impl LoadedFile {
    fn read(info: &dl_phdr_info) -> Self {
        let path = info.dlpi_name as u64;
        let mut file = Self { base: info.dlpi_addr, path, ..Self::default() };
        if info.dlpi_phdr.is_null() {
            return file;
        }
        // SAFETY: the program headers of a loaded file are mapped.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        for header in headers {
            let range = file.range(header);
            match header.p_type {
                libc::PT_LOAD => {
                    let may = |flag| header.p_flags & flag != 0;
                    let (executable, writable) = (may(libc::PF_X), may(libc::PF_W));
                    file.segments.push(Segment { range, executable, writable });
                }
                libc::PT_DYNAMIC => {
                    file.dynamic_section = range;
                    file.dynamic = Dynamic::read(range, file.base);
                }
                PT_GNU_RELRO => file.relro = whole_pages(range),
                _ => {}
            }
        }
        file
    }

    fn range(&self, header: &Elf64_Phdr) -> AddrRange {
        let start = ExecutorAddr::new(self.base.wrapping_add(header.p_vaddr));
        AddrRange::sized(start, header.p_memsz).unwrap_or_default()
    }

    fn segment_at(&self, address: u64) -> Option<&Segment> {
        let address = ExecutorAddr::new(address);
        self.segments.iter().find(|segment| segment.range.contains(address))
    }

    /// The default version of a symbol that the file defines.
    fn default_version(&self, name: &CStr) -> Option<&CStr> {
        const HIDDEN: u16 = 1 << 15;
        const FIRST_NAMED: u16 = 2;
        let Dynamic { symbol_versions, versions, names, .. } = self.dynamic;
        if symbol_versions == 0 || versions == 0 {
            return None;
        }
        let number = |index: u32| {
            // SAFETY: every symbol has a number of two bytes.
            unsafe { *pointer::<u16>(symbol_versions + 2 * u64::from(index)) }
        };
        let indices = self.indices_named(name);
        let mut numbers = indices.into_iter().map(number);
        let wanted = numbers.find(|number| number & HIDDEN == 0 && *number >= FIRST_NAMED)?;
        let mut at = versions;
        loop {
            // Format, flags, number, count of names; hash; offsets of the first name and of the next version.
            // SAFETY: the definitions form a list, whose last one has the offset 0.
            let [_, head, _, first_name, next] = unsafe { *pointer::<[u32; 5]>(at) };
            if head & 0x7fff == u32::from(wanted) {
                // SAFETY: the first name of a definition is its own: an offset in the names.
                let name = unsafe { *pointer::<u32>(at + u64::from(first_name)) };
                // SAFETY: the names are NUL-terminated.
                return Some(unsafe { CStr::from_ptr(pointer(names + u64::from(name))) });
            }
            if next == 0 {
                return None;
            }
            at += u64::from(next);
        }
    }

    /// The symbols of this name that the file defines; several if it has versions of it.
    fn symbols_named(&self, name: &CStr) -> Vec<Elf64_Sym> {
        self.indices_named(name).into_iter().map(|index| self.symbol(index)).collect()
    }

    /// True if the file defines the name.
    pub(crate) fn defines(&self, name: &CStr) -> bool {
        !self.indices_named(name).is_empty()
    }

    /// The same, without a symbol that only stands for another file's function.
    pub(crate) fn has_definition(&self, name: &CStr) -> bool {
        self.symbols_named(name).iter().any(bindings::is_defined)
    }

    /// From its first to its last byte.
    pub(crate) fn span(&self) -> AddrRange {
        let starts = self.segments.iter().map(|segment| segment.range.start);
        let ends = self.segments.iter().map(|segment| segment.range.end);
        let range = starts.min().zip(ends.max());
        range.map(|(start, end)| AddrRange { start, end }).unwrap_or_default()
    }

    fn symbol(&self, index: u32) -> Elf64_Sym {
        let at = self.dynamic.symbols + size_of::<Elf64_Sym>() as u64 * u64::from(index);
        // SAFETY: the indices come from the file's own tables.
        unsafe { *pointer::<Elf64_Sym>(at) }
    }

    fn name_of(&self, symbol: &Elf64_Sym) -> &CStr {
        // SAFETY: the names are NUL-terminated.
        unsafe { CStr::from_ptr(pointer(self.dynamic.names + u64::from(symbol.st_name))) }
    }

    /// The indices of the symbols of this name that the file defines.
    fn indices_named(&self, name: &CStr) -> Vec<u32> {
        let indices = self.indices_hashed(gnu_hash(name.to_bytes()));
        indices.filter(|index| self.name_of(&self.symbol(*index)) == name).collect()
    }

    /// The indices of the symbols that the file defines whose names have this hash. The lowest bit of hashes does not count.
    fn indices_hashed(&self, hash: u32) -> impl Iterator<Item = u32> {
        let Dynamic { symbols, names, hash_table, .. } = self.dynamic;
        let is_empty = symbols == 0 || names == 0 || hash_table == 0;
        let [buckets, first, filter_words, shift] = match is_empty {
            true => [0; 4],
            // SAFETY: the table starts with four numbers.
            false => unsafe { *pointer::<[u32; 4]>(hash_table) },
        };
        let filter_at = hash_table + 16;
        let is_filtered = |word: u32| {
            // SAFETY: the index is less than the number of words.
            let word = unsafe { *pointer::<u64>(filter_at + 8 * u64::from(word)) };
            [hash, hash.unbounded_shr(shift)].iter().any(|hash| word >> (hash % 64) & 1 == 0)
        };
        let is_absent = (hash / 64).checked_rem(filter_words).is_none_or(is_filtered);
        let buckets_at = filter_at + 8 * u64::from(filter_words);
        let chains_at = buckets_at + 4 * u64::from(buckets);
        let mut next = match hash.checked_rem(buckets).filter(|_| !is_absent) {
            // SAFETY: the index is less than the number of buckets.
            Some(bucket) => unsafe { *pointer::<u32>(buckets_at + 4 * u64::from(bucket)) },
            None => 0,
        };
        std::iter::from_fn(move || {
            while next >= first && next != 0 {
                // SAFETY: a bucket's chain is readable up to the entry that ends it.
                let chain = unsafe { *pointer::<u32>(chains_at + 4 * u64::from(next - first)) };
                let index = next;
                next = if chain & 1 == 1 { 0 } else { next + 1 };
                if chain | 1 == hash | 1 {
                    return Some(index);
                }
            }
            None
        })
    }

    /// The load bias, which tells loaded files apart.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// True if the file is mapped at an address.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.segment_at(address).is_some()
    }

    /// The entries of the dynamic section, and their addresses.
    pub(crate) fn dynamic_entries(&self) -> impl Iterator<Item = (u64, Dyn)> {
        let start = self.dynamic_section.start.get();
        let count = self.dynamic_section.bytes() / size_of::<Dyn>() as u64;
        let entries = (0..count).map(move |index| start + size_of::<Dyn>() as u64 * index);
        // SAFETY: the dynamic section of a loaded file is mapped.
        let entries = entries.map(|at| (at, unsafe { *pointer::<Dyn>(at) }));
        entries.take_while(|(_, [tag, _])| *tag != DT_NULL)
    }

    /// A name in the text of names, by its offset.
    pub(crate) fn text(&self, offset: u64) -> &CStr {
        // SAFETY: the names are NUL-terminated.
        unsafe { CStr::from_ptr(pointer(self.dynamic.names + offset)) }
    }

    /// The path by which it was loaded.
    pub(crate) fn path(&self) -> &CStr {
        if self.path == 0 {
            return c"";
        }
        // SAFETY: the dynamic linker keeps the path, a C string, while the file is loaded.
        unsafe { CStr::from_ptr(pointer(self.path)) }
    }
}

impl Dynamic {
    fn read(section: AddrRange, base: u64) -> Self {
        let mut dynamic = Self::default();
        let count = usize::try_from(section.bytes()).unwrap_or(0) / size_of::<Dyn>();
        // SAFETY: the dynamic section of a loaded file is mapped.
        let entries =
            unsafe { std::slice::from_raw_parts(pointer::<Dyn>(section.start.get()), count) };
        for [tag, value] in entries {
            // The dynamic linker has added the base already, except where the section is read-only.
            let address = if *value < base { base + value } else { *value };
            match *tag {
                DT_NULL => break,
                DT_STRTAB => dynamic.names = address,
                DT_SYMTAB => dynamic.symbols = address,
                DT_HASH => dynamic.old_hash_table = address,
                DT_GNU_HASH => dynamic.hash_table = address,
                DT_RELA => dynamic.relocations = address,
                DT_RELASZ => dynamic.relocation_bytes = *value,
                DT_JMPREL => dynamic.plt_relocations = address,
                DT_PLTRELSZ => dynamic.plt_relocation_bytes = *value,
                DT_SYMBOLIC => dynamic.is_symbolic = true,
                DT_FLAGS => dynamic.is_symbolic |= value & DF_SYMBOLIC != 0,
                DT_VERSYM => dynamic.symbol_versions = address,
                DT_VERDEF => dynamic.versions = address,
                _ => {}
            }
        }
        dynamic
    }
}

/// The pages that the dynamic linker protects: from the page in which the range starts to the last page that it
/// fills.
fn whole_pages(range: AddrRange) -> AddrRange {
    let floor = |address: ExecutorAddr| ExecutorAddr::new(address.get() & !(PAGE_BYTES - 1));
    AddrRange { start: floor(range.start), end: floor(range.end) }
}

/// An address as a pointer.
pub(crate) fn pointer<T>(address: u64) -> *const T {
    address::pointer(ExecutorAddr::new(address))
}
