//! Objects without code that are made in memory and loaded: to ask the dynamic linker for a distance, or ahead of a library.
//!
//! An object that names a library as its dependency is loaded together with it. The dynamic linker relocates both before any
//! constructor runs, and the object's constructor can be the first.
//!
//! Invariant: every object has a path of its own.

use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use super::dlopen;
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::memory::memfd;
use crate::sys::processor::{ELF_MACHINE, ELF_THREAD_DISTANCE};

/// The offsets of the object's parts.
const HEADERS: u64 = 64;
const DYNAMIC: u64 = HEADERS + 3 * 56;
const SYMBOLS: u64 = DYNAMIC + DYNAMIC_ENTRIES * 16;
const RELOCATION: u64 = SYMBOLS + 2 * 24;
const WORD: u64 = RELOCATION + 24;
const CONSTRUCTOR: u64 = WORD + 8;
const STRINGS: u64 = CONSTRUCTOR + 8;

/// Seven for strings, symbols and relocations, a dependency, three for a constructor, and the end.
const DYNAMIC_ENTRIES: u64 = 12;

/// A shared object with one relocation against a name, or with none.
#[derive(Debug)]
pub(crate) struct Object {
    bytes: Vec<u8>,
    /// The offset of the word that the relocation writes.
    pub(crate) word: u64,
}

impl Object {
    /// Makes an object that names `library` as its dependency, if that is given. `constructor` is the address of a function that runs
    /// before all other constructors of what is loaded with the object.
    pub(crate) fn new(
        name: Option<&CStr>,
        library: Option<&CStr>,
        constructor: Option<u64>,
    ) -> Self {
        let relocations = if name.is_some() { 24 } else { 0 };
        let name = name.unwrap_or(c"none").to_bytes_with_nul();
        let library_at = 1 + name.len() as u64;
        let library = library.map(CStr::to_bytes_with_nul);
        let strings = library_at + library.map_or(0, |path| path.len() as u64);
        let end = STRINGS + strings;
        let mut bytes = Vec::new();
        let mut put =
            |words: &[u64]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        // A 64-bit little-endian shared object, with three program headers and no sections.
        put(&[u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0"), 0]);
        put(&[3 | u64::from(ELF_MACHINE) << 16 | 1 << 32, 0, HEADERS, 0]);
        put(&[64 << 32 | 56 << 48, 3 | 64 << 16]);
        // A segment with the whole file, readable and writable; the dynamic section; no executable stack.
        put(&[1 | 6 << 32, 0, 0, 0, end, end, 4096]);
        put(&[2 | 6 << 32, DYNAMIC, DYNAMIC, DYNAMIC, SYMBOLS - DYNAMIC, SYMBOLS - DYNAMIC, 8]);
        put(&[0x6474_e551 | 6 << 32, 0, 0, 0, 0, 0, 16]);
        // Strings, symbols and relocations: address, size, entry size.
        put(&[5, STRINGS, 10, strings, 6, SYMBOLS, 11, 24]);
        put(&[7, RELOCATION, 8, relocations, 9, 24]);
        let mut others = Vec::new();
        if library.is_some() {
            others.push([1, library_at]);
        }
        if constructor.is_some() {
            // The list of constructors, its size, and the flag that they run first.
            others.extend([[25, CONSTRUCTOR], [27, 8], [0x6fff_fffb, 0x20]]);
        }
        others.resize(5, [0, 0]);
        put(others.as_flattened());
        // Symbol 1 is global, thread-local and undefined; its name is the first string.
        put(&[0, 0, 0, 1 | 0x16 << 32, 0, 0]);
        put(&[WORD, 1 << 32 | ELF_THREAD_DISTANCE, 0]);
        put(&[0, constructor.unwrap_or(0)]);
        bytes.push(0);
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(library.unwrap_or_default());
        Self { bytes, word: WORD }
    }

    /// Loads the object, and returns its handle.
    ///
    /// # Errors
    ///
    /// If the dynamic linker refuses it.
    pub(crate) fn load(&self, mode: c_int) -> Result<*mut c_void> {
        load(c"farcall-ahead", &self.bytes, mode | libc::RTLD_LOCAL)
    }
}

/// Loads a library without contents, whose names all others find.
///
/// # Errors
///
/// If the dynamic linker refuses it.
pub(crate) fn load_names(library: &[u8]) -> Result<*mut c_void> {
    load(c"farcall-exports", library, libc::RTLD_NOW | libc::RTLD_GLOBAL)
}

/// Loads an object from a memory file of this name, with these flags of `dlopen`, and returns its handle. The initializers of its
/// dependency are the user's choice.
fn load(name: &CStr, object: &[u8], flags: c_int) -> Result<*mut c_void> {
    static LOADED: AtomicU64 = AtomicU64::new(0);
    let during = |error: std::io::Error| Error::remote(format!("writing an object: {error}"));
    let file = File::from(memfd::create(name, object.len() as u64, false)?);
    file.write_all_at(object, 0).map_err(during)?;
    // The dynamic linker takes two files with one path for one, and descriptors come again. So each object has a path of its own,
    // which is another way to write the same.
    let number = LOADED.fetch_add(1, Ordering::Relaxed);
    let bits = (0..u64::BITS).map(|bit| if number >> bit & 1 == 1 { "/." } else { "/" });
    let path = format!("/proc/self/fd{}/{}", bits.collect::<String>(), file.as_raw_fd());
    dlopen(&path, flags)
}
