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
//! any constructor runs.
//!
//! Invariant: every returned distance was compared with the address in the calling thread.
#![allow(unsafe_code, reason = "calls the dynamic linker")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_int, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use object::LittleEndian;
use object::elf::{FileHeader64, PT_TLS, SHT_DYNSYM, STB_LOCAL, STT_TLS};
use object::read::elf::{FileHeader, ProgramHeader, Sym};

use crate::ExecutorAddr;
use crate::call::contract::ThreadLookup;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::executor::process::libraries::{last_error, open_defaults};
use crate::sync::Mutex;
use crate::sys::memory::memfd;
use crate::sys::process::thread;

/// The results so far.
#[derive(Debug)]
struct Found {
    distances: BTreeMap<String, i64>,
    /// The number of objects that were loaded.
    objects: usize,
}

/// Locked during a look-up, so that a concurrent one finds its result.
static FOUND: Mutex<Found> = Mutex::new(Found { distances: BTreeMap::new(), objects: 0 });

impl Serve for ThreadLookup {
    fn serve((names,): (Vec<String>,)) -> Result<Vec<Option<i64>>> {
        names.iter().map(|name| look_up(name)).collect()
    }
}

fn look_up(name: &str) -> Result<Option<i64>> {
    let mut found = FOUND.lock();
    if let Some(distance) = found.distances.get(name) {
        return Ok(Some(*distance));
    }
    let mut distance = found.ask(name)?;
    if distance.is_none() {
        open_defaults();
        distance = found.ask(name)?;
    }
    if let Some(distance) = distance {
        found.distances.insert(name.to_owned(), distance);
    }
    Ok(distance)
}

impl Found {
    /// Loads an object with a relocation against `name`; `None` if no library defines the name.
    fn ask(&mut self, name: &str) -> Result<Option<i64>> {
        let Ok(symbol) = CString::new(name) else { return Ok(None) };
        self.objects += 1;
        ask(&symbol, self.objects)
    }
}

/// Loads the object with this number, and reads the distance.
fn ask(symbol: &CStr, number: usize) -> Result<Option<i64>> {
    let name = symbol.to_string_lossy();
    let Object { bytes, word } = Object::new(symbol, None);
    let handle = load(&bytes, number, libc::RTLD_NOW)
        .map_err(|error| error.during(format_args!("asking for {name}")))?;
    if handle.is_null() {
        let reason = last_error();
        if reason.contains("undefined symbol") {
            return Ok(None);
        }
        return Err(Error::remote(format!(
            "the thread-local {name} of a shared library cannot have the same distance in all threads: \
             {reason}; start the executor with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=BYTES, more than the \
             library's thread-locals have, and open the library by farcall"
        )));
    }
    // SAFETY: the handle points to the object's link map, which starts with the load address.
    let base = unsafe { *handle.cast::<u64>() };
    // SAFETY: the relocation wrote an aligned word of the object, which is never unloaded.
    let distance = unsafe { *pointer::<i64>(ExecutorAddr::new(base + word)) };
    // SAFETY: the name is a C string. An earlier call would have let the dynamic linker choose any position.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) }.cast::<c_void>();
    if address as u64 != thread::pointer().wrapping_add_signed(distance) {
        return Err(Error::invalid(format!(
            "{name} is used as a thread-local, and is something else in a shared library"
        )));
    }
    Ok(Some(distance))
}

#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = libc::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = libc::EM_AARCH64;
/// The type of the relocation that stores a thread-local's distance from the thread pointer.
#[cfg(target_arch = "x86_64")]
const DISTANCE: u64 = 18;
#[cfg(target_arch = "aarch64")]
const DISTANCE: u64 = 1030;

/// The offsets of the object's parts.
const HEADERS: u64 = 64;
const DYNAMIC: u64 = HEADERS + 3 * 56;
const SYMBOLS: u64 = DYNAMIC + 9 * 16;
const RELOCATION: u64 = SYMBOLS + 2 * 24;
const WORD: u64 = RELOCATION + 24;
const STRINGS: u64 = WORD + 8;

/// A shared object with one relocation against a name.
struct Object {
    bytes: Vec<u8>,
    /// The offset of the word that the relocation writes.
    word: u64,
}

impl Object {
    /// Makes an object that names `library` as its dependency, if that is given.
    fn new(name: &CStr, library: Option<&CStr>) -> Object {
        let (name, library) = (name.to_bytes_with_nul(), library.map(CStr::to_bytes_with_nul));
        let strings = 1 + name.len() as u64 + library.map_or(0, |path| path.len() as u64);
        let end = STRINGS + strings;
        let mut bytes = Vec::new();
        let mut put =
            |words: &[u64]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        // A 64-bit little-endian shared object, with three program headers and no sections.
        put(&[u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0"), 0]);
        put(&[3 | u64::from(MACHINE) << 16 | 1 << 32, 0, HEADERS, 0]);
        put(&[64 << 32 | 56 << 48, 3 | 64 << 16]);
        // A segment with the whole file, readable and writable; the dynamic section; no executable stack.
        put(&[1 | 6 << 32, 0, 0, 0, end, end, 4096]);
        put(&[2 | 6 << 32, DYNAMIC, DYNAMIC, DYNAMIC, SYMBOLS - DYNAMIC, SYMBOLS - DYNAMIC, 8]);
        put(&[0x6474_e551 | 6 << 32, 0, 0, 0, 0, 0, 16]);
        // Strings, symbols and relocations: address, size, entry size.
        put(&[5, STRINGS, 10, strings, 6, SYMBOLS, 11, 24, 7, RELOCATION, 8, 24, 9, 24]);
        // The dependency, or the end twice.
        match library {
            Some(_) => put(&[1, 1 + name.len() as u64, 0, 0]),
            None => put(&[0, 0, 0, 0]),
        }
        // Symbol 1 is global, thread-local and undefined; its name is the first string.
        put(&[0, 0, 0, 1 | 0x16 << 32, 0, 0]);
        put(&[WORD, 1 << 32 | DISTANCE, 0]);
        put(&[0]);
        bytes.push(0);
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(library.unwrap_or_default());
        Object { bytes, word: WORD }
    }
}

/// Loads the object with this number, and returns its handle; null if the dynamic linker refuses it.
fn load(object: &[u8], number: usize, mode: c_int) -> Result<*mut c_void> {
    let during = |error: std::io::Error| Error::remote(format!("writing an object: {error}"));
    let mut file = File::from(memfd::create(c"farcall-thread", object.len() as u64, false)?);
    file.write_all(object).map_err(during)?;
    // The dynamic linker identifies objects by path, so each needs a new one.
    let detour = "./".repeat(number);
    let path = CString::new(format!("/proc/self/fd/{detour}{}", file.as_raw_fd()));
    let path = path.unwrap_or_default();
    // SAFETY: the path is a C string, and the object has no code. The initializers of its dependency are the user's choice.
    Ok(unsafe { libc::dlopen(path.as_ptr(), mode | libc::RTLD_LOCAL) })
}

/// Loads a library that has thread-locals, so that all threads have them at one distance. Does nothing for others, and if the
/// dynamic linker has no room for that: then `dlopen` alone decides.
pub(crate) fn load_at_one_distance(path: &str) {
    let Some(symbol) = File::open(path).ok().and_then(|file| thread_local_of(&file)) else {
        return;
    };
    let Ok(library) = CString::new(path) else { return };
    let number = {
        let mut found = FOUND.lock();
        found.objects += 1;
        found.objects
    };
    // A failure has loaded nothing.
    let _ = load(&Object::new(&symbol, Some(&library)).bytes, number, libc::RTLD_LAZY);
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
