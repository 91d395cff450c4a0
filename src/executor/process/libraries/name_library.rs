//! A library without contents that is loaded: other libraries find names of linked code in it.
//!
//! Invariant: a name is found only while it has the address of something that is there. Between a link's announcement of its names and
//! the opening of its libraries it has [`WRONG`].
#![allow(unsafe_code, reason = "writes symbols and headers of loaded libraries")]

use std::ffi::CStr;

use super::name_file::NameFile;
use super::{ahead, close, find_in};
use crate::error::{Error, Result};
use crate::executor::entry::address::pointer;
use crate::executor::process::loaded::{self, LoadedFile};
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use crate::{AddrRange, ExecutorAddr, Prot};

/// The address of a name that has none yet. The controller has written it.
const WRONG: u64 = 1;

/// Whether names were announced, so that libraries may be bound to the wrong address.
static WERE_ANNOUNCED: AtomicBool = AtomicBool::new(false);

/// A library of names, which is closed when dropped. It stays while others are bound to it.
#[derive(Debug)]
pub(crate) struct NameLibrary {
    base: u64,
    handle: ExecutorAddr,
    bytes: Vec<u8>,
}

impl NameLibrary {
    /// Loads the library.
    ///
    /// # Errors
    ///
    /// If the dynamic linker refuses it.
    pub(crate) fn open(bytes: Vec<u8>) -> Result<Self> {
        let handle = ahead::load_names(&bytes)?;
        // SAFETY: the handle points to the library's link map, which starts with the load address.
        let base = unsafe { *handle.cast::<u64>() };
        Ok(Self { base, handle: ExecutorAddr::new(handle.expose_provenance() as u64), bytes })
    }

    /// Loads a library whose names have no addresses yet.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(super) fn announce(bytes: Vec<u8>) -> Result<Self> {
        WERE_ANNOUNCED.store(true, Ordering::Release);
        Self::open(bytes)
    }

    /// The address of a name.
    pub(crate) fn find(&self, name: &CStr) -> Option<ExecutorAddr> {
        find_in(self.handle, name)
    }

    /// Gives each name the address that `find` has for the name and its old address, if it has one. The others are not found any more.
    pub(crate) fn set(&self, find: impl Fn(&CStr, Option<u64>) -> Option<u64>) {
        let file = NameFile::new(&self.bytes);
        for (name, at) in file.places() {
            let value_at = self.base + at as u64;
            // In front of the value lie the name, the kind and the section: a name in no section is missing.
            let Some(kind) = at.checked_sub(8).and_then(|at| file.word(at)) else { continue };
            // SAFETY: the value is a word of this library, which is open.
            let old = unsafe { *pointer::<u64>(ExecutorAddr::new(value_at)) };
            match find(name, Some(old).filter(|old| *old != 0)) {
                Some(address) => {
                    self.put(value_at, address);
                    self.put(value_at - 8, kind);
                }
                None => {
                    self.put(value_at - 8, kind & ((1 << 48) - 1));
                    self.put(value_at, 0);
                }
            }
        }
    }

    /// Makes the library's empty headers say that it has these ranges, or is empty again.
    pub(super) fn put_headers(&self, ranges: Option<[(AddrRange, Prot); 2]>) {
        for (number, at) in NameFile::new(&self.bytes).empty_headers().into_iter().enumerate() {
            let header = self.base + at as u64;
            match ranges.map(|ranges| ranges[number]) {
                Some((range, prot)) => self.put_header(header, range, prot),
                None => self.put(header, 0),
            }
        }
    }

    fn put_header(&self, header: u64, range: AddrRange, prot: Prot) {
        let flags = if prot == Prot::Data { libc::PF_R | libc::PF_W } else { libc::PF_R };
        let distance = range.start.get().wrapping_sub(self.base);
        // Offset in the file, address, physical address, bytes in the file, bytes, alignment. The type comes last.
        for (number, word) in (1..).zip([0, distance, distance, 0, range.bytes(), 4096]) {
            self.put(header + 8 * number, word);
        }
        self.put(header, u64::from(libc::PT_LOAD) | u64::from(flags) << 32);
    }

    /// Stores a word of the library, whose segment is writable.
    fn put(&self, address: u64, value: u64) {
        let word = pointer::<u64>(ExecutorAddr::new(address)).cast_mut();
        // SAFETY: the library is open, and its words are aligned.
        let word = unsafe { AtomicU64::from_ptr(word) };
        word.store(value, Ordering::Release);
    }
}

impl Drop for NameLibrary {
    fn drop(&mut self) {
        close(self.handle);
    }
}

/// True if libraries may be bound to the wrong address.
pub(super) fn were_announced() -> bool {
    WERE_ANNOUNCED.load(Ordering::Acquire)
}

/// Makes sure that no library is bound to the wrong address of a name that was announced. Weak references become null, as for a name
/// that is missing.
///
/// # Errors
///
/// If there is another reference, as after a link that has failed.
pub(super) fn require_addresses(files: &[LoadedFile]) -> Result<()> {
    if !were_announced() {
        return Ok(());
    }
    for file in loaded::libraries(files) {
        if let Some(name) = file.release_weak(WRONG)? {
            let (file, name) = (file.path().to_string_lossy(), name.to_string_lossy());
            return Err(Error::remote(format!(
                "{file} needs {name}, which the program of an earlier link would have had: define it in this program, too"
            )));
        }
    }
    Ok(())
}
