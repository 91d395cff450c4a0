//! A program's names before those of shared libraries, as natively.
//!
//! For a native program the dynamic linker looks every name up in the program first. So its `operator new` serves all libraries, and an
//! inline variable of a common header is one variable. A library may even need a name that only the program has.
//!
//! Here libraries are loaded before the program has addresses:
//!
//! 1. The libraries are loaded, and their constructors wait. A library may need a name that only the program has. Then the names of
//!    the program are opened first: a library without contents, and with wrong addresses.
//! 2. The controller learns which names the libraries have, and sends the addresses of the program's definitions of these.
//! 3. Every word of a library that is bound to one of the names gets the program's address. A library without contents gets
//!    headers that say where the program's variables are: collectors ask the C library for these.
//! 4. Constructors run, those of the program last.
//!
//! Libraries that the program opens later are bound ahead of their constructors. Those that a library opens by itself are not
//! bound. The executor's own program is never bound.
//!
//! Invariant: when a program is removed, each word that was bound to it and that still is gets its old value.
#![allow(unsafe_code, reason = "changes what libraries are bound to")]

use std::collections::{BTreeMap, HashSet};
use std::ffi::{CStr, OsString, c_int};
use std::sync::Once;

use super::ahead::{self, Object};
use super::name_file::NameFile;
use super::{allocator, constructors};
use crate::call::contract::{LibraryNames, NamesPrecede, NamesYield, ProgramAnnounce};
use crate::error::Result;
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::executor::memory::advice;
use crate::executor::process::copy_relocations;
use crate::executor::process::loaded::{self, LoadedFile};
use crate::sps::Bytes;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::{AddrRange, ExecutorAddr, Prot};

/// A program whose names come first.
struct Program {
    names: AddrRange,
    /// Its variables.
    data: AddrRange,
    /// The words that are bound to it: address, value, and the value before.
    words: Vec<(u64, u64, u64)>,
}

/// The programs, the newest last.
static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());

/// The libraries without contents that have wrong addresses: where each is loaded, and its bytes.
static ANNOUNCED: Mutex<Vec<(u64, Vec<u8>)>> = Mutex::new(Vec::new());

impl Serve for ProgramAnnounce {
    fn serve((Bytes(library),): (Bytes,)) -> Result<()> {
        // A confined executor may open no such library. Then libraries can need no names of the program.
        if let Ok(base) = open(&library) {
            ANNOUNCED.lock().push((base, library));
        }
        Ok(())
    }
}

impl Serve for NamesPrecede {
    fn serve(
        (names, constants, data, stored): (AddrRange, AddrRange, AddrRange, Option<u64>),
    ) -> Result<()> {
        let mut program = Program { names, data, words: Vec::new() };
        let file = program.file();
        for (base, library) in &*ANNOUNCED.lock() {
            complete(*base, NameFile::new(library), file);
        }
        if has_others() {
            list(file, [(constants, Prot::Constants), (data, Prot::Data)]);
        }
        if let Some(stored) = stored {
            advice::keep_initial(data, stored);
        }
        allocator::begin(|name| file.find(name));
        let bound = {
            let _lock = copy_relocations::lock();
            let files = loaded::files().0;
            loaded::libraries(&files).try_for_each(|file| program.bind(file))
        };
        PROGRAMS.lock().push(program);
        bound
    }
}

impl Serve for NamesYield {
    fn serve((names,): (AddrRange,)) -> Result<()> {
        let program = {
            let mut programs = PROGRAMS.lock();
            programs.iter().position(|one| one.names == names).map(|at| programs.remove(at))
        };
        let Some(program) = program else { return Ok(()) };
        let lock = copy_relocations::lock();
        for file in &loaded::files().0 {
            let is_ours = |(slot, value, _): &(u64, u64, u64)| {
                // SAFETY: the file that contains the word is loaded.
                file.contains(*slot)
                    && unsafe { *pointer::<u64>(ExecutorAddr::new(*slot)) } == *value
            };
            let words = program.words.iter().filter(|word| is_ours(word));
            let old: Vec<_> = words.map(|(slot, _, old)| (*slot, *old)).collect();
            file.set_words(&old)?;
        }
        drop(lock);
        // Behind the words, by which libraries call these functions.
        let file = program.file();
        allocator::end(|name| file.find(name));
        advice::forget(program.data);
        Ok(())
    }
}

/// Those of a program's names, as hashes, that the loaded files may define or be bound to.
pub(crate) fn names_among(files: &[LoadedFile], mut hashes: Vec<u32>) -> LibraryNames {
    if !ANNOUNCED.lock().is_empty() {
        // Wrong addresses must not remain.
        return (hashes, true);
    }
    let libraries: Vec<_> = loaded::libraries(files).collect();
    let unlisted: HashSet<_> = libraries.iter().flat_map(|library| library.unlisted()).collect();
    let is_listed = |hash: u32| libraries.iter().any(|library| library.may_define(hash));
    hashes.retain(|hash| unlisted.contains(hash) || is_listed(*hash));
    (hashes, has_others())
}

/// Loads a library that linked code opens with these flags, and binds it to the programs ahead of its constructors. Returns the
/// handle of an object that has to be closed when the library is open; `None` if nothing was loaded.
pub(crate) fn load_ahead(path: &CStr, flags: c_int) -> Option<ExecutorAddr> {
    // Such a library prefers its own names, or is there already.
    let is_apart = flags & (libc::RTLD_DEEPBIND | libc::RTLD_NOLOAD) != 0;
    if is_apart || PROGRAMS.lock().is_empty() {
        return None;
    }
    let gate = Object::new(None, Some(path), Some(constructors::address(bind_behind_gate)));
    let handle = gate.load(flags & (libc::RTLD_LAZY | libc::RTLD_NOW)).ok()?;
    Some(ExecutorAddr::new(handle.expose_provenance() as u64))
}

/// The constructor of gates at which libraries are bound. It is called as that of [`constructors`], and must not wait for a lock
/// under which others call the dynamic linker.
extern "C" fn bind_behind_gate() {
    let files = loaded::files().0;
    for program in &mut *PROGRAMS.lock() {
        // The words stay as they are where the kernel refuses to change them.
        constructors::behind_gate(&files).iter().for_each(|file| drop(program.bind(file)));
    }
}

impl Program {
    fn file(&self) -> NameFile<'static> {
        let bytes = usize::try_from(self.names.bytes()).unwrap_or(0);
        // SAFETY: the controller has written these constants, and frees them after the program is removed.
        NameFile::new(unsafe { std::slice::from_raw_parts(pointer::<u8>(self.names.start), bytes) })
    }

    /// Binds a file that was loaded since the last binding.
    fn bind(&mut self, file: &LoadedFile) -> Result<()> {
        // An older file may have been there.
        self.words.retain(|(slot, ..)| !file.contains(*slot));
        let names = self.file();
        let chosen = |name: &CStr, own| allocator::routed(name).unwrap_or(own);
        let all = names.names().map(|(name, address)| (name, chosen(name, address)));
        let new = file.words_of(all, |name| Some(chosen(name, names.find(name)?)));
        let old = file.set_words(&new)?;
        let new: BTreeMap<u64, u64> = new.into_iter().collect();
        let old = old.into_iter();
        self.words.extend(old.filter_map(|(slot, old)| Some((slot, *new.get(&slot)?, old))));
        Ok(())
    }
}

/// Gives the names of a loaded library without contents their addresses.
fn complete(base: u64, library: NameFile<'_>, names: NameFile<'_>) {
    for (name, at) in library.places() {
        if let Some(address) = names.find(name) {
            set_word(base + at as u64, address);
        }
    }
}

/// True if there are libraries that the program has brought, or the environment.
fn has_others() -> bool {
    let is_preloaded = |list: OsString| !list.is_empty();
    constructors::is_holding() || std::env::var_os("LD_PRELOAD").is_some_and(is_preloaded)
}

/// Opens the names as a library whose headers say where the first program has its variables.
fn list(names: NameFile<'_>, ranges: [(AddrRange, Prot); 2]) {
    static LISTED: Once = Once::new();
    LISTED.call_once(|| {
        let Ok(base) = open(names.bytes()) else { return };
        for (at, (range, prot)) in names.empty_headers().into_iter().zip(ranges) {
            put_header(base, at, range, prot);
        }
    });
}

/// Opens a library without contents for good. Returns where it is loaded.
fn open(library: &[u8]) -> Result<u64> {
    let handle = ahead::load_names(library)?;
    // SAFETY: the handle points to the library's link map, which starts with the load address.
    Ok(unsafe { *handle.cast::<u64>() })
}

/// Makes a header of a library say that it has this range.
fn put_header(base: u64, at: usize, range: AddrRange, prot: Prot) {
    let flags = if prot == Prot::Data { libc::PF_R | libc::PF_W } else { libc::PF_R };
    let header = base + at as u64;
    let distance = range.start.get().wrapping_sub(base);
    // Offset in the file, address, physical address, bytes in the file, bytes, alignment. The type comes last.
    for (number, word) in (1..).zip([0, distance, distance, 0, range.bytes(), 4096]) {
        set_word(header + 8 * number, word);
    }
    set_word(header, u64::from(libc::PT_LOAD) | u64::from(flags) << 32);
}

/// Stores a word of a library without contents, whose segment is writable.
fn set_word(address: u64, value: u64) {
    let word = pointer::<u64>(ExecutorAddr::new(address)).cast_mut();
    // SAFETY: the library is never closed, and its words are aligned.
    let word = unsafe { AtomicU64::from_ptr(word) };
    word.store(value, Ordering::Release);
}
