//! A program's names before the names of shared libraries, as natively.
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
//! 4. Constructors run, the program's own last.
//!
//! Libraries that the program opens later are bound ahead of their constructors. Those that a library opens by itself are not
//! bound. The executor's own program is never bound.
//!
//! Invariant: when a program is removed, nothing is bound to it any more. Each word that still is gets its old value. Libraries without
//! contents have none of its names.
#![allow(unsafe_code, reason = "changes what libraries are bound to")]

use std::collections::{BTreeMap, HashSet};
use std::ffi::{CStr, OsString, c_int};

use super::ahead::Object;
use super::name_file::NameFile;
use super::name_library::{self, NameLibrary};
use super::{allocator, constructors, find};
use crate::call::contract::{LibraryNames, NamesPrecede, NamesYield, ProgramAnnounce};
use crate::error::Result;
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::executor::memory::advice;
use crate::executor::process::loaded::{self, LoadedFile};
use crate::sps::Bytes;
use crate::sync::Mutex;
use crate::{AddrRange, ExecutorAddr, Prot};

/// A program whose names come first.
struct Program {
    names: AddrRange,
    /// Its variables.
    data: AddrRange,
    /// The words that are bound to it: address, value, and the value before.
    words: Vec<(u64, u64, u64)>,
    /// Its names as a library whose headers say where it has its variables.
    listing: Option<NameLibrary>,
}

/// The programs, the newest last.
static PROGRAMS: Mutex<Vec<Program>> = Mutex::new(Vec::new());

/// The names that links have announced. They stay.
static ANNOUNCED: Mutex<Vec<NameLibrary>> = Mutex::new(Vec::new());

/// The names of a link that is about to open its libraries. They have wrong addresses.
static NEW: Mutex<Option<NameLibrary>> = Mutex::new(None);

impl Serve for ProgramAnnounce {
    fn serve((Bytes(library),): (Bytes,)) -> Result<()> {
        // A confined executor may open no such library. Then libraries can need no names of the program.
        if let Ok(library) = NameLibrary::announce(library) {
            let old = NEW.lock().replace(library);
            drop(old);
        }
        Ok(())
    }
}

/// Notes that a link has opened its libraries, or could not. Libraries that are opened later must not find a name without an address.
pub(crate) fn libraries_are_open(opened: bool) {
    if !name_library::were_announced() {
        return;
    }
    let new = NEW.lock().take();
    let Some(new) = new else { return };
    new.set(|_, _| None);
    // If the link comes to nothing, the library of names stays only where others are bound to it.
    if opened {
        ANNOUNCED.lock().push(new);
    }
}

impl Serve for NamesPrecede {
    fn serve(
        (names, constants, data, stored): (AddrRange, AddrRange, AddrRange, Option<u64>),
    ) -> Result<()> {
        let mut program = Program { names, data, words: Vec::new(), listing: None };
        let file = program.file();
        if has_others() {
            program.listing = NameLibrary::open(file.bytes().to_vec()).ok();
            let ranges = [(constants, Prot::Constants), (data, Prot::Data)];
            program.listing.iter().for_each(|listing| listing.put_headers(Some(ranges)));
        }
        if let Some(stored) = stored {
            advice::keep_initial(data, stored);
        }
        for library in &*ANNOUNCED.lock() {
            library.set(|name, old| file.find(name).or(old));
        }
        let begun = allocator::begin(|name| file.find(name));
        let bound = begun.and_then(|()| {
            loaded::with_files(|files, _| {
                loaded::libraries(files).try_for_each(|file| program.bind(file))?;
                name_library::require_addresses(files)
            })
        });
        match bound {
            Ok(()) => PROGRAMS.lock().push(program),
            // The controller frees the names.
            Err(_) => drop(program.remove()),
        }
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
        program.remove()
    }
}

/// The names of a program, as hashes, that the loaded files may define or be bound to.
pub(crate) fn names_among(files: &[LoadedFile], mut hashes: Vec<u32>) -> LibraryNames {
    if name_library::were_announced() {
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

/// The constructor of gates where libraries are bound. It is called as the constructor of gates in [`constructors`], and
/// must not wait for a lock under which others call the dynamic linker.
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

    /// Leaves nothing of the program to libraries.
    fn remove(self) -> Result<()> {
        let file = self.file();
        let is_removed = |name: &CStr, address: u64| file.find(name) == Some(address);
        for library in &*ANNOUNCED.lock() {
            library.set(|name, old| old.filter(|address| !is_removed(name, *address)));
        }
        if let Some(listing) = &self.listing {
            listing.set(|_, _| None);
            listing.put_headers(None);
        }
        let unbound = self.unbind();
        // Behind the words, by which libraries call these functions.
        allocator::end(|name| file.find(name));
        advice::forget(self.data);
        unbound
    }

    /// Gives the words their old values that were bound here. The dynamic linker itself has bound libraries that other libraries have
    /// opened since. For these the first definition comes that is there now, or null.
    fn unbind(&self) -> Result<()> {
        let names = self.file();
        let bound = |file: &LoadedFile| {
            let words = file.words_of(names.names(), |name| names.find(name));
            let is_same = |(slot, value): &(u64, u64)| word(*slot) == *value;
            words.into_iter().filter(is_same).collect::<Vec<_>>()
        };
        let left = loaded::with_files(|files, _| {
            for file in files {
                let words = self.words.iter().filter(|(slot, ..)| file.contains(*slot));
                let words = words
                    .filter(|(slot, value, _)| word(*slot) == *value && !allocator::stays(*value));
                let old: Vec<_> = words.map(|(slot, _, old)| (*slot, *old)).collect();
                file.set_words(&old)?;
            }
            Ok(loaded::libraries(files).any(|file| !bound(file).is_empty()))
        })?;
        if !left {
            return Ok(());
        }
        let others: BTreeMap<u64, u64> = names
            .names()
            .map(|(name, own)| (own, find(name).map_or(0, ExecutorAddr::get)))
            .collect();
        loaded::with_files(|files, _| {
            loaded::libraries(files)
                .try_for_each(|file| file.rebind_all(|address| others.get(&address).copied()))
        })
    }
}

/// A word that the dynamic linker has bound.
fn word(slot: u64) -> u64 {
    // SAFETY: the file that contains the word is loaded.
    unsafe { *pointer::<u64>(ExecutorAddr::new(slot)) }
}

/// True if there are libraries that the program has brought, or the environment.
fn has_others() -> bool {
    let is_preloaded = |list: OsString| !list.is_empty();
    constructors::is_holding() || std::env::var_os("LD_PRELOAD").is_some_and(is_preloaded)
}
