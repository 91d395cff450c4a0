//! The names of linked functions, for code that asks for them: its own view of what is loaded in this process.
//!
//! Each link that asks brings an ELF file with the symbols of its functions. The C library's functions that find names
//! are answered from it, and to those who read such files themselves it is a shared library, by a name in `/proc`.
//!
//! Invariant: nothing of a program runs under the lock.
#![allow(unsafe_code, reason = "provides and calls C functions")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use libc::{Dl_info, Elf64_Phdr, dl_phdr_info};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol};

use crate::call::contract::{NamesDeregister, NamesRegister};
use crate::error::Result;
use crate::executor::entry::address::pointer;
use crate::executor::entry::wrapper::Serve;
use crate::executor::process::program;
use crate::sps::Bytes;
use crate::sync::Mutex;
use crate::sys::memfd;
use crate::{AddrRange, ExecutorAddr};

/// The functions of one link.
struct Names {
    code: AddrRange,
    /// The ELF file; its addresses count from the start of the code.
    file: Vec<u8>,
    /// The same as a file that can be opened, once somebody wants that.
    opened: OnceLock<Option<Opened>>,
}

/// A memory file, and the path by which this process can open it.
struct Opened {
    _file: File,
    path: CString,
}

/// A function that an address lies in: its name, in the file, and its start.
struct Function<'a> {
    name: &'a CStr,
    start: u64,
}

/// What `dl_iterate_phdr` calls. It may unwind.
type Visit = unsafe extern "C-unwind" fn(*mut dl_phdr_info, usize, *mut c_void) -> c_int;

/// The names of all links that asked, by registration.
static NAMES: Mutex<Vec<Arc<Names>>> = Mutex::new(Vec::new());

impl Serve for NamesRegister {
    fn serve((code, Bytes(file)): (AddrRange, Bytes)) -> Result<()> {
        NAMES.lock().push(Arc::new(Names { code, file, opened: OnceLock::new() }));
        Ok(())
    }
}

impl Serve for NamesDeregister {
    fn serve((code,): (AddrRange,)) -> Result<()> {
        NAMES.lock().retain(|names| names.code != code);
        Ok(())
    }
}

impl Names {
    /// Those of the link that an address lies in.
    fn at(address: *const c_void) -> Option<Arc<Names>> {
        let address = ExecutorAddr::new(address as u64);
        NAMES.lock().iter().find(|names| names.code.contains(address)).cloned()
    }

    fn function_at(&self, address: *const c_void) -> Option<Function<'_>> {
        let offset = (address as u64).checked_sub(self.code.start.get())?;
        let elf = ElfFile64::<object::Endianness>::parse(&*self.file).ok()?;
        let holds = |start: u64, bytes: u64| start <= offset && offset - start < bytes;
        let symbol = elf.symbols().find(|symbol| holds(symbol.address(), symbol.size()))?;
        let name = symbol.name_bytes().ok()?;
        let name = self.file.get(name.as_ptr().addr().checked_sub(self.file.as_ptr().addr())?..)?;
        let name = CStr::from_bytes_until_nul(name).ok()?;
        Some(Function { name, start: self.code.start.get() + symbol.address() })
    }

    /// The path by which the file can be opened; `None` when the system has no more memory or descriptors.
    fn path(&self) -> Option<&CStr> {
        let opened = self.opened.get_or_init(|| {
            let file = memfd::create(c"farcall-names", self.file.len() as u64, false).ok()?;
            let file = File::from(file);
            file.write_all_at(&self.file, 0).ok()?;
            let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
            Some(Opened { _file: file, path })
        });
        opened.as_ref().map(|opened| opened.path.as_c_str())
    }
}

/// `dl_iterate_phdr` for linked code: what is loaded, then the links that asked for names.
///
/// # Safety
///
/// As `dl_iterate_phdr`.
pub(crate) unsafe extern "C-unwind" fn dl_iterate_phdr(visit: Visit, data: *mut c_void) -> c_int {
    // SAFETY: the caller vouches for the function and its argument.
    let status = unsafe { libc_dl_iterate_phdr(visit, data) };
    if status != 0 {
        return status;
    }
    let all: Vec<Arc<Names>> = NAMES.lock().clone();
    for names in &all {
        let Some(path) = names.path() else { continue };
        // SAFETY: all-zero bytes are a valid segment.
        let mut segment: Elf64_Phdr = unsafe { std::mem::zeroed() };
        segment.p_type = libc::PT_LOAD;
        segment.p_flags = libc::PF_R | libc::PF_X;
        segment.p_memsz = names.code.bytes();
        // SAFETY: all-zero bytes are a valid description.
        let mut info: dl_phdr_info = unsafe { std::mem::zeroed() };
        info.dlpi_addr = names.code.start.get();
        info.dlpi_name = path.as_ptr();
        info.dlpi_phdr = &raw const segment;
        info.dlpi_phnum = 1;
        // SAFETY: the caller vouches for the function; what it is shown lives until it returns.
        let status = unsafe { visit(&raw mut info, size_of::<dl_phdr_info>(), data) };
        if status != 0 {
            return status;
        }
    }
    0
}

/// `dladdr` for linked code: knows linked functions too. Their file is the program.
///
/// # Safety
///
/// As `dladdr`.
pub(crate) unsafe extern "C" fn dladdr(address: *const c_void, info: *mut Dl_info) -> c_int {
    let Some(names) = Names::at(address) else {
        // SAFETY: the caller vouches for the place of the answer.
        return unsafe { libc::dladdr(address, info) };
    };
    let function = names.function_at(address);
    let answer = Dl_info {
        dli_fname: program::name(),
        dli_fbase: pointer::<c_void>(names.code.start).cast_mut(),
        // The name stays until the code is removed.
        dli_sname: function.as_ref().map_or(std::ptr::null(), |function| function.name.as_ptr()),
        dli_saddr: function.map_or(std::ptr::null_mut(), |function| {
            pointer::<c_void>(ExecutorAddr::new(function.start)).cast_mut()
        }),
    };
    // SAFETY: the caller vouches for the place of the answer.
    unsafe { info.write(answer) };
    1
}

/// `backtrace_symbols` for linked code: one piece of memory from `malloc`, pointers first.
///
/// # Safety
///
/// As `backtrace_symbols`.
pub(crate) unsafe extern "C" fn backtrace_symbols(
    addresses: *const *const c_void,
    count: c_int,
) -> *mut *mut c_char {
    // SAFETY: the caller vouches for the array.
    let lines = unsafe { lines(addresses, count) };
    let pointers_bytes = lines.len() * size_of::<*mut c_char>();
    let bytes = lines.iter().fold(pointers_bytes, |sum, line| sum + line.len() + 1);
    // SAFETY: malloc has no preconditions.
    let memory = unsafe { libc::malloc(bytes.max(1)) }.cast::<*mut c_char>();
    if memory.is_null() {
        return memory;
    }
    let mut text = memory.cast::<u8>().wrapping_add(pointers_bytes);
    for (number, mut line) in lines.into_iter().enumerate() {
        line.push(0);
        // SAFETY: the memory starts with a pointer for each line.
        unsafe { memory.wrapping_add(number).write(text.cast()) };
        // SAFETY: behind the pointers it has room for all lines with their ends.
        unsafe { text.copy_from_nonoverlapping(line.as_ptr(), line.len()) };
        text = text.wrapping_add(line.len());
    }
    memory
}

/// `backtrace_symbols_fd` for linked code: writes the same as lines.
///
/// # Safety
///
/// As `backtrace_symbols_fd`.
pub(crate) unsafe extern "C" fn backtrace_symbols_fd(
    addresses: *const *const c_void,
    count: c_int,
    descriptor: c_int,
) {
    // SAFETY: the caller vouches for the array.
    for mut line in unsafe { lines(addresses, count) } {
        line.push(b'\n');
        let mut rest = &line[..];
        while !rest.is_empty() {
            // SAFETY: the bytes are alive; a wrong descriptor is refused.
            let written = unsafe { libc::write(descriptor, rest.as_ptr().cast(), rest.len()) };
            let Ok(written @ 1..) = usize::try_from(written) else { return };
            rest = &rest[written..];
        }
    }
}

/// Describes addresses as the C library does: `program(function+0x12) [0x1234]`.
///
/// # Safety
///
/// There must be `count` addresses.
unsafe fn lines(addresses: *const *const c_void, count: c_int) -> Vec<Vec<u8>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller vouches for the array.
    let addresses = (0..count).map(|number| unsafe { *addresses.wrapping_add(number) });
    addresses.map(line).collect()
}

fn line(address: *const c_void) -> Vec<u8> {
    let Some(names) = Names::at(address) else { return line_of_library(address) };
    let (name, start) = match names.function_at(address) {
        Some(function) => (function.name.to_bytes(), function.start),
        None => (&[][..], names.code.start.get()),
    };
    // SAFETY: the program's name is a C string.
    let program = unsafe { CStr::from_ptr(program::name()) };
    let place = format!("+{:#x}) [{address:p}]", address as u64 - start);
    [program.to_bytes(), b"(", name, place.as_bytes()].concat()
}

fn line_of_library(address: *const c_void) -> Vec<u8> {
    // SAFETY: there is one address.
    let found = unsafe { libc_backtrace_symbols(&raw const address, 1) };
    if found.is_null() {
        return format!("[{address:p}]").into_bytes();
    }
    // SAFETY: not null, so there is one pointer.
    let text = unsafe { *found };
    // SAFETY: it points to a C string.
    let line = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
    // SAFETY: it comes from malloc, and is not used any more.
    unsafe { libc::free(found.cast()) };
    line
}

unsafe extern "C" {
    #[link_name = "backtrace_symbols"]
    fn libc_backtrace_symbols(addresses: *const *const c_void, count: c_int) -> *mut *const c_char;
}

unsafe extern "C-unwind" {
    #[link_name = "dl_iterate_phdr"]
    fn libc_dl_iterate_phdr(visit: Visit, data: *mut c_void) -> c_int;
}
