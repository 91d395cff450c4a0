//! Variables of shared libraries that were moved below 2 GiB.
//!
//! Code compiled with `-fno-pic` expects every variable within reach of 32 bits, also `stdout`, `environ` or `std::cout`,
//! which are the C and C++ libraries' own. A native linker gives such a variable a place in the program, and the dynamic
//! linker copies its value there and binds the libraries to the copy. The same is done here, only later: the variable is
//! copied to private memory below 2 GiB, and the words by which libraries find it are changed. From then on the copy *is*
//! the variable. It stays one for the rest of the process's life, so that any program linked later shares it.
//!
//! What is not found: pointers to the variable that were computed before and stored elsewhere (those stored in other
//! moved variables are), near code linked before, and what `dlsym` says to programs.
//!
//! Invariant: moved variables do not overlap; no pointer inside a moved variable leads to the place it left.
#![allow(unsafe_code, reason = "copies variables of other libraries")]

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::executor::process::loaded::{LoadedFile, pointer};
use crate::limits::{LOW_ADDRESS_END, PAGE_BYTES};
use crate::sync::{Mutex, MutexGuard};
use crate::sys::map::Reservation;
use crate::{AddrRange, ExecutorAddr};

/// The variables of the process that were moved.
#[derive(Debug)]
pub(crate) struct LowData {
    /// Where variables were: their first address, size and new address.
    moved: BTreeMap<u64, (u64, u64)>,
    /// What the new places are taken from. Never given back.
    areas: Vec<Reservation>,
    /// What is free of the last area.
    free: AddrRange,
    /// How many files had been loaded when libraries were bound to the new places.
    bound: u64,
}

/// The least that is reserved at a time.
const AREA_BYTES: u64 = 64 << 10;
/// No variable is aligned more than this.
const ALIGNMENT_MAX: u64 = 64;

/// The one table: libraries, too, are the process's and not a session's.
pub(crate) fn low_data() -> MutexGuard<'static, LowData> {
    static TABLE: Mutex<LowData> = Mutex::new(LowData {
        moved: BTreeMap::new(),
        areas: Vec::new(),
        free: AddrRange { start: ExecutorAddr::NULL, end: ExecutorAddr::NULL },
        bound: 0,
    });
    TABLE.lock()
}

impl LowData {
    /// True when nothing was moved.
    pub(crate) fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    /// Where the variable at `address` is now.
    pub(crate) fn current(&self, address: u64) -> u64 {
        self.new_place(address).unwrap_or(address)
    }

    /// Moves a variable of a library below 2 GiB and returns true, or false when it is there already. Libraries go on with
    /// the old one until [`LowData::bind`].
    ///
    /// # Errors
    ///
    /// When address space or memory runs out, or a part of the variable was moved as a smaller one.
    pub(crate) fn bring_down(&mut self, name: &str, address: u64, bytes: u64) -> Result<bool> {
        let end = address.saturating_add(bytes);
        if end <= LOW_ADDRESS_END {
            return Ok(false);
        }
        let below = self.moved.range(..end).next_back();
        if let Some((start, (size, _))) = below
            && start + size > address
        {
            if *start <= address && end <= start + size {
                return Ok(false);
            }
            return Err(Error::invalid(format!(
                "{name}, {bytes} bytes at {address:#x}, overlaps a variable of {size} bytes at {start:#x} \
                 that was moved below 2 GiB; compile with -fPIC"
            )));
        }
        let new = self.take(bytes, address)?;
        // SAFETY: the dynamic linker found the variable, the new place is memory that nobody has.
        unsafe {
            std::ptr::copy_nonoverlapping(
                pointer::<u8>(address),
                pointer::<u8>(new).cast_mut(),
                usize::try_from(bytes).unwrap_or(usize::MAX),
            );
        }
        self.moved.insert(address, (bytes, new));
        Ok(true)
    }

    /// Makes libraries use what was moved, those included that were loaded since the last time.
    ///
    /// # Errors
    ///
    /// When the kernel does not let words of a library be changed.
    pub(crate) fn bind(&mut self, files: &[LoadedFile], loaded: u64) -> Result<()> {
        self.turn_inner_pointers();
        for file in files {
            file.rebind(|address| self.new_place(address))?;
        }
        self.bound = loaded;
        Ok(())
    }

    /// True when libraries may have been loaded that use what was moved before.
    pub(crate) fn is_behind(&self, loaded: u64) -> bool {
        !self.moved.is_empty() && self.bound != loaded
    }

    fn new_place(&self, address: u64) -> Option<u64> {
        let (start, (bytes, new)) = self.moved.range(..=address).next_back()?;
        (address - start < *bytes).then(|| new + (address - start))
    }

    /// Makes pointers inside of moved variables lead to where variables are now.
    fn turn_inner_pointers(&self) {
        for (bytes, new) in self.moved.values() {
            for at in (new.next_multiple_of(8)..new + bytes / 8 * 8).step_by(8) {
                let word = pointer::<u64>(at).cast_mut();
                // SAFETY: the word is a part of a moved variable.
                let value = unsafe { word.read() };
                if let Some(value) = self.new_place(value) {
                    // SAFETY: as above.
                    unsafe { word.write(value) };
                }
            }
        }
    }

    /// Takes memory for a variable, aligned as it is at `like`.
    fn take(&mut self, bytes: u64, like: u64) -> Result<u64> {
        let alignment = (1 << like.trailing_zeros().min(63)).min(ALIGNMENT_MAX);
        let start = self.free.start.get().next_multiple_of(alignment);
        if let Some(end) = start.checked_add(bytes).filter(|end| *end <= self.free.end.get()) {
            self.free.start = ExecutorAddr::new(end);
            return Ok(start);
        }
        let size = bytes.max(AREA_BYTES).checked_next_multiple_of(PAGE_BYTES);
        let area = Reservation::low(size.unwrap_or(u64::MAX))?;
        area.make_private()?;
        let (start, size) = (area.start(), size.unwrap_or(0));
        self.areas.push(area);
        self.free.start = ExecutorAddr::new(start + bytes);
        self.free.end = ExecutorAddr::new(start + size);
        Ok(start)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{CStr, c_char, c_int};

    use super::*;
    use crate::executor::process::loaded::{SymbolKind, files, kind_of};

    unsafe extern "C" {
        static mut optind: c_int;
    }

    fn address(name: &CStr) -> u64 {
        // SAFETY: the name is a C string.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as u64 }
    }

    fn kind(name: &CStr) -> SymbolKind {
        kind_of(&files().0, name, address(name))
    }

    #[test]
    fn libraries_say_what_their_symbols_are() {
        assert_eq!(kind(c"stdout"), SymbolKind::Variable(8));
        assert_eq!(kind(c"environ"), SymbolKind::Variable(8));
        assert_eq!(kind(c"optind"), SymbolKind::Variable(4));
        assert_eq!(kind(c"printf"), SymbolKind::Function);
        assert_eq!(kind(c"memcpy"), SymbolKind::Function, "chosen among several");
        assert_eq!(kind_of(&files().0, c"printf", 64), SymbolKind::Unknown, "nothing is there");
        let inside = address(c"stdout") + 1;
        assert_eq!(kind_of(&files().0, c"stdout", inside), SymbolKind::Unknown, "not quite there");
    }

    #[test]
    fn a_library_goes_on_with_the_variable_that_was_moved() {
        let old = address(c"optind");
        // SAFETY: no other test touches it.
        unsafe { optind = 7 };
        let (files, loaded) = files();
        let mut data = low_data();
        data.bring_down("optind", old, 4).expect("room");
        data.bind(&files, loaded).expect("bound");
        data.bring_down("optind", old, 4).expect("it is there already");
        assert!(data.bring_down("optind", old, 5).is_err(), "now it is larger");
        let new = data.current(old);
        assert!(new < LOW_ADDRESS_END && new.is_multiple_of(4), "{new:#x}");
        assert_eq!((data.current(old + 3), data.current(old + 4)), (new + 3, old + 4));
        assert_eq!(&raw const optind as u64, new, "this program is bound to it");
        assert!(!data.is_behind(loaded) && data.is_behind(loaded + 1));
        // SAFETY: the variable is there.
        assert_eq!(unsafe { *pointer::<c_int>(new) }, 7, "with its value");

        let arguments = [c"program", c"-x", c"-x"].map(CStr::as_ptr);
        let mut arguments = arguments.map(<*const c_char>::cast_mut);
        // SAFETY: the variable is there.
        unsafe { *pointer::<c_int>(new).cast_mut() = 1 };
        for next in [2, 3] {
            // SAFETY: three arguments and a list of options, all C strings.
            let option = unsafe { libc::getopt(3, arguments.as_mut_ptr().cast(), c"x".as_ptr()) };
            assert_eq!(option, c_int::from(b'x'));
            // SAFETY: the variable is there.
            assert_eq!(unsafe { *pointer::<c_int>(new) }, next, "the C library counts there");
        }
    }

    #[test]
    fn pointers_among_moved_variables_follow() {
        // Two variables that point to each other and to themselves.
        let variables: &'static mut [[u64; 2]; 2] = Box::leak(Box::default());
        let [a, b] = [0, 1].map(|at| &raw const variables[at] as u64);
        *variables = [[b, a + 8], [a + 8, 5]];
        let mut data = low_data();
        for (name, old) in [("a", a), ("b", b)] {
            data.bring_down(name, old, 16).expect("room");
        }
        data.bind(&[], 0).expect("nothing to bind");
        let [a, b] = [a, b].map(|old| data.current(old));
        // SAFETY: the variables are there.
        let moved = [a, b].map(|new| unsafe { *pointer::<[u64; 2]>(new) });
        assert_eq!(moved, [[b, a + 8], [a + 8, 5]]);
    }
}
