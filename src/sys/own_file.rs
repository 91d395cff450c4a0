//! The file that this code was loaded from: the program, or a shared library in which farcall is.

use std::ffi::{c_char, c_int, c_void};

use libc::{Elf64_Phdr, dl_phdr_info};

/// The mapped file of this code.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OwnFile {
    /// The load bias: the distance from addresses in the file to addresses in memory.
    pub(crate) base: u64,
    /// The first eight bytes of the build id; `None` where the linker has made none.
    pub(crate) build_id: Option<u64>,
    /// The addresses of the first byte and behind the last one.
    mapped: (u64, u64),
    /// The address of the array of initializers, and its size in bytes.
    initializers: (u64, u64),
}

/// An initializer, as the C library calls it.
type Initializer = unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char);

const DT_NULL: u64 = 0;
const DT_INIT_ARRAY: u64 = 25;
const DT_INIT_ARRAYSZ: u64 = 27;
/// The type of a note with the build id, whose owner is "GNU".
const NT_GNU_BUILD_ID: u32 = 3;

impl OwnFile {
    /// Finds the file among the loaded ones.
    pub(crate) fn find() -> Self {
        unsafe extern "C" fn visit(info: *mut dl_phdr_info, _: usize, own: *mut c_void) -> c_int {
            // SAFETY: the dynamic linker passes its description of a file.
            let info = unsafe { &*info };
            let file = OwnFile::read(info);
            if !file.contains(OwnFile::find as *const c_void as u64) {
                return 0;
            }
            // SAFETY: the pointer is the one given to `dl_iterate_phdr` below.
            unsafe { *own.cast::<OwnFile>() = file };
            1
        }

        let mut own = Self::default();
        // SAFETY: the function is called with this pointer before this call returns.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut own).cast()) };
        own
    }

    /// True for an address in the file.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.mapped.0..self.mapped.1).contains(&address)
    }

    /// Runs the initializers behind the one at this place in the array.
    ///
    /// # Safety
    ///
    /// They must not have run, and the arguments must be the same as of the initializer that calls this.
    pub(crate) unsafe fn run_initializers_behind(
        &self,
        place: *const c_void,
        argc: c_int,
        argv: *const *const c_char,
        environment: *const *const c_char,
    ) {
        let (start, bytes) = self.initializers;
        let (words, end) = (size_of::<u64>() as u64, start + bytes);
        let mut at = place as u64 + words;
        while (start..end).contains(&at) {
            // SAFETY: the array has a word here, which the dynamic linker has relocated.
            let word = unsafe { *(at as *const usize) };
            // Linkers write either for no function.
            if word != 0 && word != usize::MAX {
                // SAFETY: the other words of the array are the addresses of initializers.
                let initializer = unsafe { std::mem::transmute::<usize, Initializer>(word) };
                // SAFETY: the caller vouches for the arguments, and that it has not run.
                unsafe { initializer(argc, argv, environment) };
            }
            at += words;
        }
    }

    fn read(info: &dl_phdr_info) -> Self {
        let mut file = Self { base: info.dlpi_addr, mapped: (u64::MAX, 0), ..Self::default() };
        if info.dlpi_phdr.is_null() {
            return file;
        }
        let count = usize::from(info.dlpi_phnum);
        // SAFETY: the program headers of a loaded file are mapped.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, count) };
        for header in headers {
            let start = file.base.wrapping_add(header.p_vaddr);
            match header.p_type {
                libc::PT_LOAD => {
                    let (first, end) = file.mapped;
                    file.mapped = (first.min(start), end.max(start + header.p_memsz));
                }
                libc::PT_DYNAMIC => file.initializers = initializers(start, file.base),
                libc::PT_NOTE => file.build_id = file.build_id.or_else(|| build_id(start, header)),
                _ => {}
            }
        }
        file
    }
}

/// The array of initializers that a dynamic section names.
fn initializers(mut at: u64, base: u64) -> (u64, u64) {
    let mut array = (0, 0);
    loop {
        // SAFETY: a dynamic section is a row of pairs that ends with the tag 0.
        let [tag, value] = unsafe { *(at as *const [u64; 2]) };
        match tag {
            DT_NULL => return array,
            DT_INIT_ARRAY => array.0 = base.wrapping_add(value),
            DT_INIT_ARRAYSZ => array.1 = value,
            _ => {}
        }
        at += size_of::<[u64; 2]>() as u64;
    }
}

/// The start of the build id in a segment of notes.
fn build_id(start: u64, header: &Elf64_Phdr) -> Option<u64> {
    let bytes = usize::try_from(header.p_filesz).ok()?;
    // SAFETY: a segment of notes in a loaded file is mapped, and nothing writes it.
    let mut notes = unsafe { std::slice::from_raw_parts(start as *const u8, bytes) };
    loop {
        let (head, rest) = notes.split_first_chunk::<12>()?;
        let word = |at: usize| Some(u32::from_ne_bytes(*head.get(at..)?.first_chunk()?));
        let padded = |bytes: u32| (bytes as usize).checked_next_multiple_of(4);
        let (owner, after) = rest.split_at_checked(padded(word(0)?)?)?;
        let (id, after) = after.split_at_checked(padded(word(4)?)?.min(after.len()))?;
        if word(8)? == NT_GNU_BUILD_ID && owner == b"GNU\0" {
            return id.first_chunk().copied().map(u64::from_le_bytes);
        }
        notes = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_this_code_has_this_code_and_a_build_id() {
        let own = OwnFile::find();
        assert!(own.contains(OwnFile::find as *const c_void as u64));
        assert!(!own.contains(libc::getpid as *const c_void as u64));
        assert_eq!(own.build_id, OwnFile::find().build_id);
        assert!(own.build_id.is_some(), "linkers of distributions make one");
    }

    #[test]
    fn initializers_behind_a_place_run_and_gaps_are_passed_over() {
        use crate::sync::{AtomicU64, Ordering};

        static SUM: AtomicU64 = AtomicU64::new(0);

        extern "C" fn add(argc: c_int, _: *const *const c_char, _: *const *const c_char) {
            SUM.fetch_add(argc.cast_unsigned().into(), Ordering::Relaxed);
        }

        let add = (add as *const c_void).addr();
        let array = [add, add, 0, usize::MAX, add, add];
        let initializers = ((&raw const array) as u64, size_of_val(&array) as u64);
        let file = OwnFile { initializers, ..OwnFile::default() };
        let null = std::ptr::null();
        // SAFETY: the array has functions of this type, which take any arguments.
        unsafe { file.run_initializers_behind((&raw const array[1]).cast(), 7, null, null) };
        assert_eq!(SUM.load(Ordering::Relaxed), 14);
    }
}
