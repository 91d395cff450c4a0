//! Thread-locals of shared libraries, for linked code that names them (`std::call_once` does).
//!
//! Linked code wants a distance from the thread pointer that is the same in all threads. Natively the dynamic linker
//! provides it, because the libraries are there when the program starts. Here they are opened later, and the linker puts
//! their thread-locals wherever it likes, unless an object that it loads insists: then it takes room from
//! what every thread has in reserve, once for all. So it is given such an object, made up in memory, of one
//! relocation against the wanted name, and the distance is read from where the relocation has put it. The object stays
//! loaded, as the library does.
//!
//! Invariant: a distance that is returned was checked against the address that the calling thread has.
#![allow(unsafe_code, reason = "calls the dynamic linker")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_void};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;

use crate::ExecutorAddr;
use crate::call::contract::ThreadLookup;
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::executor::process::libraries::{last_error, open_defaults};
use crate::sync::Mutex;
use crate::sys::{memfd, thread};

/// What was found so far.
#[derive(Debug)]
struct Found {
    distances: BTreeMap<String, i64>,
    /// How many objects were given to the linker.
    objects: usize,
}

/// Locked while one looks: who is late finds what the other has found.
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
    /// Loads an object that wants to know; `None` when no library has the name.
    fn ask(&mut self, name: &str) -> Result<Option<i64>> {
        let Ok(symbol) = CString::new(name) else { return Ok(None) };
        self.objects += 1;
        ask(&symbol, self.objects)
    }
}

/// Loads the object with this number.
fn ask(symbol: &CStr, number: usize) -> Result<Option<i64>> {
    let name = symbol.to_string_lossy();
    let (object, place) = object(symbol.to_bytes_with_nul());
    let during = |error: std::io::Error| {
        Error::remote(format!("writing the object that asks for {name}: {error}"))
    };
    let mut file = File::from(memfd::create(c"farcall-thread", object.len() as u64, false)?);
    file.write_all(&object).map_err(during)?;
    // The linker takes two objects of one name for the same, so each has a name that nobody else will have.
    let detour = "./".repeat(number);
    let path = CString::new(format!("/proc/self/fd/{detour}{}", file.as_raw_fd()));
    let path = path.unwrap_or_default();
    // SAFETY: the path is a C string, and the object has no code.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        let reason = last_error();
        if reason.contains("undefined symbol") {
            return Ok(None);
        }
        return Err(Error::remote(format!(
            "the thread-local {name} of a shared library can have no place that is the same in all threads: \
             {reason}; set GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 for the executor"
        )));
    }
    // SAFETY: the linker's record of an object starts with the address where it was loaded.
    let base = unsafe { *handle.cast::<u64>() };
    // SAFETY: the relocation's place is an aligned word of the object, which is never unloaded.
    let distance = unsafe { *pointer::<i64>(ExecutorAddr::new(base + place)) };
    // SAFETY: the name is a C string. Only now: this would have let the linker choose any place.
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
/// The relocation that puts a thread-local's distance from the thread pointer into a word.
#[cfg(target_arch = "x86_64")]
const DISTANCE: u64 = 18;
#[cfg(target_arch = "aarch64")]
const DISTANCE: u64 = 1030;

/// Where the parts of the object are, one behind the other.
const HEADERS: u64 = 64;
const DYNAMIC: u64 = HEADERS + 3 * 56;
const SYMBOLS: u64 = DYNAMIC + 8 * 16;
const RELOCATION: u64 = SYMBOLS + 2 * 24;
const PLACE: u64 = RELOCATION + 24;
const STRINGS: u64 = PLACE + 8;

/// A shared object with one relocation against `name`, which ends with a zero byte, and where that one puts its word.
fn object(name: &[u8]) -> (Vec<u8>, u64) {
    let strings = 1 + name.len() as u64;
    let end = STRINGS + strings;
    let mut object = Vec::new();
    let mut put = |words: &[u64]| words.iter().for_each(|word| object.extend(word.to_le_bytes()));
    // A 64-bit little-endian shared object, with three program headers and no sections.
    put(&[u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0"), 0]);
    put(&[3 | u64::from(MACHINE) << 16 | 1 << 32, 0, HEADERS, 0]);
    put(&[64 << 32 | 56 << 48, 3 | 64 << 16]);
    // All of it, readable and writable; the table below; no executable stack.
    put(&[1 | 6 << 32, 0, 0, 0, end, end, 4096]);
    put(&[2 | 6 << 32, DYNAMIC, DYNAMIC, DYNAMIC, SYMBOLS - DYNAMIC, SYMBOLS - DYNAMIC, 8]);
    put(&[0x6474_e551 | 6 << 32, 0, 0, 0, 0, 0, 16]);
    // Strings, symbols and relocations: where, how many bytes, how large one is.
    put(&[5, STRINGS, 10, strings, 6, SYMBOLS, 11, 24, 7, RELOCATION, 8, 24, 9, 24, 0, 0]);
    // Symbol 1 is global, thread-local, undefined, and its name is the first.
    put(&[0, 0, 0, 1 | 0x16 << 32, 0, 0]);
    put(&[PLACE, 1 << 32 | DISTANCE, 0]);
    put(&[0]);
    object.push(0);
    object.extend_from_slice(name);
    (object, PLACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_locals_of_a_library_opened_late_have_one_place_in_all_threads() {
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
            std::thread::spawn(check).join().expect("the same place in another thread");
        }
    }

    #[test]
    fn what_is_no_thread_local_is_refused_and_what_is_missing_is_not_found() {
        let ask = |name: &str| ThreadLookup::serve((vec![name.to_owned()],));
        assert_eq!(ask("nobody_has_this_name").expect("an answer"), [None]);
        assert!(ask("environ").expect_err("a plain variable").is_invalid_argument());
    }
}
