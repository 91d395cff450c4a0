//! Thread-locals of shared libraries that linked code names (`std::call_once` has some).
//!
//! Linked code needs one distance from the thread pointer for all threads. Natively the dynamic linker provides it, because the
//! libraries are loaded at the program's start. The executor opens them later, and the dynamic linker may place their
//! thread-locals anywhere. An exception is a loaded object with a static TLS relocation against the name. For that, the dynamic
//! linker takes room from the reserve that every thread has, once for all threads.
//!
//! So this module makes such an object in memory, with one relocation against the name, and loads it. Then it reads the
//! distance from the word that the relocation wrote. The object stays loaded, as the library does.
//!
//! That fails for a library whose constructor has used its thread-locals: from then on their place is decided. So such an
//! object comes with each library that is opened, and names it as its dependency. The dynamic linker relocates all of them before
//! any constructor runs. Such an object is also the gate where the constructors of a program's libraries wait
//! (`process/libraries/constructors.rs`).
//!
//! Invariant: every returned distance was compared with the address in the calling thread.
#![allow(unsafe_code, reason = "calls the dynamic linker")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::fs::File;

use object::LittleEndian;
use object::elf::{FileHeader64, PT_TLS, SHT_DYNSYM, STB_LOCAL, STT_TLS};
use object::read::elf::{FileHeader, ProgramHeader, Sym};

use crate::ExecutorAddr;
use crate::call::contract::ThreadLookup;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::executor::process::libraries::ahead::Object;
use crate::executor::process::libraries::open_defaults;
use crate::sync::Mutex;
use crate::sys::process::thread;

/// The results so far. Not locked during a look-up: a constructor that the dynamic linker runs meanwhile may need one, too.
static FOUND: Mutex<BTreeMap<String, i64>> = Mutex::new(BTreeMap::new());

impl Serve for ThreadLookup {
    fn serve((names,): (Vec<String>,)) -> Result<Vec<Option<i64>>> {
        names.iter().map(|name| look_up(name)).collect()
    }
}

fn look_up(name: &str) -> Result<Option<i64>> {
    if let Some(distance) = FOUND.lock().get(name) {
        return Ok(Some(*distance));
    }
    let Ok(symbol) = CString::new(name) else { return Ok(None) };
    let mut distance = ask(&symbol)?;
    if distance.is_none() {
        open_defaults();
        distance = ask(&symbol)?;
    }
    if let Some(distance) = distance {
        FOUND.lock().insert(name.to_owned(), distance);
    }
    Ok(distance)
}

/// Loads an object with a relocation against a name, and reads the distance; `None` if no library defines the name.
fn ask(symbol: &CStr) -> Result<Option<i64>> {
    let name = symbol.to_string_lossy();
    let object = Object::new(Some(symbol), None, None);
    let handle = match object.load(libc::RTLD_NOW) {
        Ok(handle) => handle,
        Err(reason) if reason.to_string().contains("undefined symbol") => return Ok(None),
        Err(reason) => {
            return Err(Error::remote(format!(
                "the thread-local {name} of a shared library cannot have the same distance in all threads: \
                 {reason}; start the executor with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=BYTES, more than the \
                 library's thread-locals have, and open the library by farcall"
            )));
        }
    };
    // SAFETY: the handle points to the object's link map, which starts with the load address.
    let base = unsafe { *handle.cast::<u64>() };
    // SAFETY: the relocation wrote an aligned word of the object, which is never unloaded.
    let distance = unsafe { *pointer::<i64>(ExecutorAddr::new(base + object.word)) };
    // SAFETY: the name is a C string. An earlier call would have let the dynamic linker choose any position.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) }.cast::<c_void>();
    if address as u64 != thread::pointer().wrapping_add_signed(distance) {
        return Err(Error::invalid(format!(
            "{name} is used as a thread-local, and is something else in a shared library"
        )));
    }
    Ok(Some(distance))
}

/// Loads a library that has thread-locals, so that all threads have them at one distance. With `gate`, the address of a function, that
/// runs before the constructors of any library. Does nothing otherwise, and if the dynamic linker has no room for
/// thread-locals at one distance: then `dlopen` alone decides.
pub(crate) fn load_ahead(path: &str, gate: Option<u64>) {
    let symbol = File::open(path).ok().and_then(|file| thread_local_of(&file));
    let Ok(library) = CString::new(path) else { return };
    let load = |symbol: Option<&CStr>, mode| {
        // A failure has loaded nothing.
        Object::new(symbol, Some(&library), gate).load(mode).is_ok()
    };
    let is_loaded = symbol.is_some_and(|symbol| load(Some(&symbol), libc::RTLD_LAZY));
    if !is_loaded && gate.is_some() {
        load(None, libc::RTLD_NOW);
    }
}

/// The name of a thread-local that a shared library exports.
fn thread_local_of(file: &File) -> Option<CString> {
    // SAFETY: the dynamic linker maps the file as well, and relies on its bytes, too.
    let map = unsafe { memmap2::Mmap::map(file) }.ok()?;
    let data = &*map;
    let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
    let end = header.endian().ok()?;
    let segments = header.program_headers(end, data).ok()?;
    segments.iter().find(|segment| segment.p_type(end) == PT_TLS)?;
    let sections = header.sections(end, data).ok()?;
    let symbols = sections.symbols(end, data, SHT_DYNSYM).ok()?;
    let symbol = symbols.iter().find(|symbol| {
        symbol.st_type() == STT_TLS && symbol.st_bind() != STB_LOCAL && !symbol.is_undefined(end)
    })?;
    CString::new(symbol.name(end, symbols.strings()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn thread_locals_of_a_late_library_have_one_distance() {
        let names = ["_ZSt15__once_callable", "_ZSt11__once_call"].map(str::to_owned);
        let found = ThreadLookup::serve((names.to_vec(),)).expect("the C++ library is there");
        let again = ThreadLookup::serve((names.to_vec(),)).expect("found already");
        assert_eq!(found, again);
        for (name, distance) in names.into_iter().zip(found) {
            let distance = distance.expect("the C++ library has it");
            let symbol = CString::new(name).expect("no zero byte");
            let check = move || {
                // SAFETY: the name is a C string.
                let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
                assert_eq!(address as u64, thread::pointer().wrapping_add_signed(distance));
            };
            check();
            std::thread::spawn(check).join().expect("the same distance in another thread");
        }
    }

    #[test]
    fn names_that_are_no_thread_locals_are_refused_or_not_found() {
        let ask = |name: &str| ThreadLookup::serve((vec![name.to_owned()],));
        assert_eq!(ask("no_library_has_this_name").expect("an answer"), [None]);
        assert!(ask("environ").expect_err("a plain variable").kind() == ErrorKind::InvalidArgument);
    }
}
