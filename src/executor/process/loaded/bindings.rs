//! The words of a loaded file that the dynamic linker has bound to symbols.
//!
//! Invariant: words in pages that the dynamic linker made read-only are in read-only pages again afterwards.
#![allow(unsafe_code, reason = "reads and changes what the dynamic linker has bound")]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};

use libc::Elf64_Sym;

use super::{Dynamic, LoadedFile, pointer};
use crate::ExecutorAddr;
use crate::call::contract::name_hashes::gnu_hash;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::processor::{ELF_ADDRESS, ELF_JUMP_ADDRESS, ELF_TABLE_ADDRESS};

/// An entry of a relocation section: offset, type and symbol, addend.
type Rela = [u64; 3];

/// A word that is bound to a symbol.
struct Word {
    slot: u64,
    symbol: u32,
    addend: u64,
    is_jump: bool,
}

impl LoadedFile {
    /// Changes the words that the dynamic linker has bound to addresses of symbols. `change` receives an address and
    /// returns the new one, or `None` to keep it. Words of the procedure linkage table are not changed.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to make read-only words writable.
    pub(crate) fn rebind(&self, change: impl Fn(u64) -> Option<u64>) -> Result<()> {
        self.rebind_words(self.words().filter(|word| !word.is_jump), change)
    }

    fn rebind_words(
        &self,
        words: impl Iterator<Item = Word>,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Result<()> {
        let mut changes = Vec::new();
        for Word { slot, addend, .. } in words {
            // SAFETY: the dynamic linker has written this word.
            let bound = unsafe { *pointer::<u64>(slot) };
            if let Some(new) = change(bound.wrapping_sub(addend)) {
                changes.push((slot, new.wrapping_add(addend)));
            }
        }
        self.set_words(&changes).map(drop)
    }

    /// The same for all words, also of the procedure linkage table.
    ///
    /// # Errors
    ///
    /// As [`rebind`](Self::rebind).
    pub(crate) fn rebind_all(&self, change: impl Fn(u64) -> Option<u64>) -> Result<()> {
        self.rebind_words(self.words(), change)
    }

    /// The words that are bound to some of the names, and their values for these addresses. `find` has the same addresses by name.
    /// Words that the file binds to its own definition in any case are left out.
    pub(crate) fn words_of<'a>(
        &self,
        names: impl Iterator<Item = (&'a CStr, u64)>,
        find: impl Fn(&CStr) -> Option<u64>,
    ) -> Vec<(u64, u64)> {
        // Most files define many names and refer to few others. So their own names are looked up by the hash table.
        let mut own = BTreeMap::new();
        for (name, address) in names {
            own.extend(self.indices_named(name).into_iter().map(|index| (index, address)));
        }
        let has_table = self.dynamic.hash_table != 0;
        let address_of = |word: &Word| {
            let symbol = self.symbol(word.symbol);
            if is_defined(&symbol) && has_table {
                own.get(&word.symbol).copied().filter(|_| self.gives_way(&symbol))
            } else if self.gives_way(&symbol) {
                find(self.name_of(&symbol))
            } else {
                None
            }
        };
        let words = self.words();
        words
            .filter_map(|word| Some((word.slot, address_of(&word)?.wrapping_add(word.addend))))
            .collect()
    }

    /// Makes weak references null that are bound to this address. Returns the name of another reference to it, if there is one.
    ///
    /// # Errors
    ///
    /// As [`set_words`](Self::set_words).
    pub(crate) fn release_weak(&self, address: u64) -> Result<Option<&CStr>> {
        const STB_WEAK: u8 = 2;
        let mut nulls = Vec::new();
        for word in self.words() {
            let symbol = self.symbol(word.symbol);
            // SAFETY: the dynamic linker has written this word.
            let bound = unsafe { *pointer::<u64>(word.slot) };
            if is_defined(&symbol) || bound != address.wrapping_add(word.addend) {
                continue;
            }
            if symbol.st_info >> 4 != STB_WEAK {
                return Ok(Some(self.name_of(&symbol)));
            }
            nulls.push((word.slot, 0));
        }
        self.set_words(&nulls).map(|_| None)
    }

    /// The hashes of the names that the file is bound to and does not define. A file without a GNU hash table adds all its names.
    pub(crate) fn unlisted(&self) -> Vec<u32> {
        let Dynamic { hash_table, old_hash_table, .. } = self.dynamic;
        let hash = |symbol: Elf64_Sym| gnu_hash(self.name_of(&symbol).to_bytes());
        if hash_table == 0 && old_hash_table != 0 {
            // SAFETY: the table starts with the numbers of buckets and of symbols.
            let [_, count] = unsafe { *pointer::<[u32; 2]>(old_hash_table) };
            return (1..count).map(|index| hash(self.symbol(index))).collect();
        }
        let symbols = self.words().map(|word| self.symbol(word.symbol));
        symbols.filter(|symbol| !is_defined(symbol)).map(hash).collect()
    }

    /// False if the GNU hash table has no name with this hash.
    pub(crate) fn may_define(&self, hash: u32) -> bool {
        self.indices_hashed(hash).next().is_some()
    }

    /// True if a definition in the program comes before this symbol of the file.
    fn gives_way(&self, symbol: &Elf64_Sym) -> bool {
        const STB_LOCAL: u8 = 0;
        const STV_DEFAULT: u8 = 0;
        let keeps_own = self.dynamic.is_symbolic || symbol.st_other & 3 != STV_DEFAULT;
        symbol.st_info >> 4 != STB_LOCAL && !(is_defined(symbol) && keeps_own)
    }

    /// Stores words of the file's writable segments, and returns the old ones. Others are left out.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to make read-only words writable.
    pub(crate) fn set_words(&self, words: &[(u64, u64)]) -> Result<Vec<(u64, u64)>> {
        let is_writable = |slot: u64| self.segment_at(slot).is_some_and(|segment| segment.writable);
        let is_protected = |slot: u64| self.relro.contains(ExecutorAddr::new(slot));
        let words = words.iter().copied().filter(|(slot, _)| is_writable(*slot));
        let protected = words.clone().any(|(slot, _)| is_protected(slot));
        if protected {
            self.protect_relro(libc::PROT_READ | libc::PROT_WRITE)?;
        }
        let set = |(slot, new): (u64, u64)| {
            // SAFETY: the word is aligned, mapped and writable now.
            let word = unsafe { AtomicU64::from_ptr(pointer::<u64>(slot).cast_mut()) };
            // AcqRel: a thread that loads the new address then reads the bytes that were stored before.
            (slot, word.swap(new, Ordering::AcqRel))
        };
        let old = words.map(set).collect();
        if protected {
            self.protect_relro(libc::PROT_READ)?;
        }
        Ok(old)
    }

    fn protect_relro(&self, protection: c_int) -> Result<()> {
        let start = pointer::<c_void>(self.relro.start.get()).cast_mut();
        let bytes = usize::try_from(self.relro.bytes()).unwrap_or(0);
        // SAFETY: the pages hold the dynamic linker's words, which other threads read at most.
        if unsafe { libc::mprotect(start, bytes, protection) } != 0 {
            let error = std::io::Error::last_os_error();
            return Err(Error::os("changing what a library is bound to", error));
        }
        Ok(())
    }

    /// The words that are bound to symbols.
    fn words(&self) -> impl Iterator<Item = Word> {
        let Dynamic { relocations, relocation_bytes, .. } = self.dynamic;
        let Dynamic { plt_relocations, plt_relocation_bytes, .. } = self.dynamic;
        let all = relocations_at(relocations, relocation_bytes)
            .iter()
            .chain(relocations_at(plt_relocations, plt_relocation_bytes));
        all.filter_map(|[offset, info, addend]| {
            let addend = match info & 0xffff_ffff {
                ELF_ADDRESS => *addend,
                // These may have an addend, which is not used.
                ELF_TABLE_ADDRESS | ELF_JUMP_ADDRESS => 0,
                _ => return None,
            };
            let symbol = u32::try_from(info >> 32).ok().filter(|symbol| *symbol != 0)?;
            let slot = self.base.wrapping_add(*offset);
            let is_jump = info & 0xffff_ffff == ELF_JUMP_ADDRESS;
            slot.is_multiple_of(8).then_some(Word { slot, symbol, addend, is_jump })
        })
    }
}

pub(super) fn is_defined(symbol: &Elf64_Sym) -> bool {
    const UNDEFINED: u16 = 0;
    symbol.st_shndx != UNDEFINED
}

/// The relocations at an address that a dynamic section gives; none if it gives none.
fn relocations_at<'a>(address: u64, bytes: u64) -> &'a [Rela] {
    let count = usize::try_from(bytes).unwrap_or(0) / size_of::<Rela>();
    if address == 0 {
        return &[];
    }
    // SAFETY: the dynamic section gives their address and size.
    unsafe { std::slice::from_raw_parts(pointer(address), count) }
}
