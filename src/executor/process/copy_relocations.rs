//! Copy relocations at run time: variables of shared libraries, copied below 2 GiB.
//!
//! Code compiled with `-fno-pic` reaches every variable by 32 bits, also `stdout`, `environ` or `std::cout` of the C and C++
//! libraries. For such a variable a native linker reserves room in the program. The dynamic linker copies the value there
//! (`R_X86_64_COPY`) and binds the libraries to the copy.
//!
//! The executor does the same later. It copies the variable to private memory below 2 GiB and changes the words by
//! which libraries find it. From then on the copy *is* the variable. It stays for the rest of the process's life, so
//! every program that is linked later shares it.
//!
//! Three kinds of references keep the old address:
//!
//! - pointers to the variable that were computed before and stored elsewhere than in a copied variable,
//! - near code that was linked before,
//! - what `dlsym` returns to programs.
//!
//! Invariant: copied variables do not overlap; no pointer inside a copied variable leads to the old address of one.
#![allow(unsafe_code, reason = "copies variables of other libraries")]

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::executor::process::loaded::{LoadedFile, pointer};
use crate::limits::{LOW_ADDRESS_END, PAGE_BYTES};
use crate::sync::{Mutex, MutexGuard};
use crate::sys::memory::map::Reservation;
use crate::{AddrRange, ExecutorAddr};

/// The copied variables of the process.
#[derive(Debug)]
pub(crate) struct CopyRelocations {
    /// By the old address of each variable: its size, and the address of its copy.
    copies: BTreeMap<u64, (u64, u64)>,
    /// The memory of the copies. Never unmapped.
    reservations: Vec<Reservation>,
    /// The free rest of the last reservation.
    free: AddrRange,
    /// How many files the dynamic linker had loaded at the last [`CopyRelocations::bind`].
    bound: u64,
}

/// The minimum size of a reservation.
const RESERVATION_BYTES: u64 = 64 << 10;
/// The maximum alignment of a copy; a variable that is aligned more gets this.
const ALIGNMENT_MAX: u64 = 64;

/// Locks the table. There is one for the process, as libraries belong to the process and not to a session.
pub(crate) fn lock() -> MutexGuard<'static, CopyRelocations> {
    static TABLE: Mutex<CopyRelocations> = Mutex::new(CopyRelocations {
        copies: BTreeMap::new(),
        reservations: Vec::new(),
        free: AddrRange { start: ExecutorAddr::NULL, end: ExecutorAddr::NULL },
        bound: 0,
    });
    TABLE.lock()
}

impl CopyRelocations {
    /// True when no variable was copied.
    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    /// The address of the copy, if the variable at `address` was copied; otherwise `address`.
    pub(crate) fn current(&self, address: u64) -> u64 {
        self.copy_of(address).unwrap_or(address)
    }

    /// Copies a variable of a library below 2 GiB and returns true; returns false if it is there already. Libraries
    /// use the old variable until [`CopyRelocations::bind`].
    ///
    /// # Errors
    ///
    /// If address space or memory runs out, or if a part of the variable was copied as a smaller one.
    pub(crate) fn copy_low(&mut self, name: &str, address: u64, bytes: u64) -> Result<bool> {
        let end = address.saturating_add(bytes);
        if end <= LOW_ADDRESS_END {
            return Ok(false);
        }
        let below = self.copies.range(..end).next_back();
        if let Some((start, (size, _))) = below
            && start + size > address
        {
            if *start <= address && end <= start + size {
                return Ok(false);
            }
            return Err(Error::invalid(format!(
                "{name}, {bytes} bytes at {address:#x}, overlaps a variable of {size} bytes at {start:#x} \
                 that was copied below 2 GiB; compile with -fPIC"
            )));
        }
        let new = self.allocate(bytes, address)?;
        // SAFETY: the dynamic linker found the variable, and no code has the new memory yet.
        unsafe {
            std::ptr::copy_nonoverlapping(
                pointer::<u8>(address),
                pointer::<u8>(new).cast_mut(),
                usize::try_from(bytes).unwrap_or(usize::MAX),
            );
        }
        self.copies.insert(address, (bytes, new));
        Ok(true)
    }

    /// Binds all libraries to the copies, including those loaded since the last call. `files` and `loaded` are the
    /// results of [`files`](super::loaded::files).
    ///
    /// # Errors
    ///
    /// If the kernel refuses to make words of a library writable.
    pub(crate) fn bind(&mut self, files: &[LoadedFile], loaded: u64) -> Result<()> {
        self.update_inner_pointers();
        for file in files {
            file.rebind(|address| self.copy_of(address))?;
        }
        self.bound = loaded;
        Ok(())
    }

    /// True when libraries may have been loaded that are bound to old variables.
    pub(crate) fn needs_bind(&self, loaded: u64) -> bool {
        !self.copies.is_empty() && self.bound != loaded
    }

    fn copy_of(&self, address: u64) -> Option<u64> {
        let (start, (bytes, new)) = self.copies.range(..=address).next_back()?;
        (address - start < *bytes).then(|| new + (address - start))
    }

    /// Changes pointers inside copied variables that lead to old variables.
    fn update_inner_pointers(&self) {
        for (bytes, new) in self.copies.values() {
            for at in (new.next_multiple_of(8)..new + bytes / 8 * 8).step_by(8) {
                let word = pointer::<u64>(at).cast_mut();
                // SAFETY: the word is part of a copy, which is never unmapped.
                let value = unsafe { word.read() };
                if let Some(value) = self.copy_of(value) {
                    // SAFETY: as above.
                    unsafe { word.write(value) };
                }
            }
        }
    }

    /// Allocates memory for a variable, with the alignment of the address `like`.
    fn allocate(&mut self, bytes: u64, like: u64) -> Result<u64> {
        let alignment = (1 << like.trailing_zeros().min(63)).min(ALIGNMENT_MAX);
        let start = self.free.start.get().next_multiple_of(alignment);
        if let Some(end) = start.checked_add(bytes).filter(|end| *end <= self.free.end.get()) {
            self.free.start = ExecutorAddr::new(end);
            return Ok(start);
        }
        let size = bytes.max(RESERVATION_BYTES).checked_next_multiple_of(PAGE_BYTES);
        let reservation = Reservation::low(size.unwrap_or(u64::MAX))?;
        reservation.make_private()?;
        let (start, size) = (reservation.start(), size.unwrap_or(0));
        self.reservations.push(reservation);
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

    /// Where this program finds the variable.
    fn bound() -> u64 {
        &raw const optind as u64
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
    fn a_library_uses_the_copy_of_its_variable() {
        let old = address(c"optind");
        // SAFETY: no other test touches it.
        unsafe { optind = 7 };
        let (files, loaded) = files();
        let mut relocations = lock();
        relocations.copy_low("optind", old, 4).expect("room");
        relocations.bind(&files, loaded).expect("bound");
        relocations.copy_low("optind", old, 4).expect("it is there already");
        assert!(relocations.copy_low("optind", old, 5).is_err(), "now it is larger");
        let new = relocations.current(old);
        assert!(new < LOW_ADDRESS_END && new.is_multiple_of(4), "{new:#x}");
        assert_eq!(
            (relocations.current(old + 3), relocations.current(old + 4)),
            (new + 3, old + 4)
        );
        // Not inline: a compiler may keep the address that it has read above.
        let bound = std::hint::black_box(bound as fn() -> u64);
        assert_eq!(bound(), new, "this program is bound to it");
        assert!(!relocations.needs_bind(loaded) && relocations.needs_bind(loaded + 1));
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
    fn pointers_between_copied_variables_lead_to_copies() {
        // Two variables that point to each other and to themselves.
        let variables: &'static mut [[u64; 2]; 2] = Box::leak(Box::default());
        let [a, b] = [0, 1].map(|at| &raw const variables[at] as u64);
        *variables = [[b, a + 8], [a + 8, 5]];
        let mut relocations = lock();
        for (name, old) in [("a", a), ("b", b)] {
            relocations.copy_low(name, old, 16).expect("room");
        }
        relocations.bind(&[], 0).expect("nothing to bind");
        let [a, b] = [a, b].map(|old| relocations.current(old));
        // SAFETY: the variables are there.
        let moved = [a, b].map(|new| unsafe { *pointer::<[u64; 2]>(new) });
        assert_eq!(moved, [[b, a + 8], [a + 8, 5]]);
    }
}
