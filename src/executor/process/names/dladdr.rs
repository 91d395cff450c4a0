//! `dladdr`, `dl_iterate_phdr` and `backtrace_symbols` for linked code, which include linked functions.
//!
//! The controller registers an ELF file with the symbols of a link's functions, and with its segments. The functions here answer
//! from these files. To code that reads the loaded files itself, each one is a shared library with a path in `/proc`.
//!
//! Invariant: no code of a program runs under the lock.
#![allow(unsafe_code, reason = "provides and calls C functions")]

use std::collections::BTreeMap;
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
use crate::executor::entry::allocator;
use crate::executor::entry::wrapper::Serve;
use crate::executor::process::program;
use crate::sync::Mutex;
use crate::sys::memory::memfd;
use crate::{AddrRange, ExecutorAddr};

/// The symbol file of one link.
struct SymbolFile {
    code: AddrRange,
    /// Where the ELF file is; its addresses are offsets from the start of the code.
    elf: AddrRange,
    /// The ELF file as a memory file, made on the first request for its path; `None` if that failed.
    opened: OnceLock<Option<Opened>>,
}

/// A memory file, and the path by which this process can open it.
struct Opened {
    _file: File,
    path: CString,
}

/// A function that contains an address: its name, which lies in the ELF file, and its start.
struct Function<'a> {
    name: &'a CStr,
    start: u64,
}

/// The bytes of an ELF file's header, behind which its segments are described, and the offset of their number in it.
const HEADER_BYTES: usize = 64;
const COUNT_AT: usize = 56;

/// The callback of `dl_iterate_phdr`. It may unwind.
type Visit = unsafe extern "C-unwind" fn(*mut dl_phdr_info, usize, *mut c_void) -> c_int;

/// The registered symbol files, by the starts of their code.
static SYMBOL_FILES: Mutex<BTreeMap<ExecutorAddr, Arc<SymbolFile>>> = Mutex::new(BTreeMap::new());

impl Serve for NamesRegister {
    fn serve((code, elf): (AddrRange, AddrRange)) -> Result<()> {
        let file = SymbolFile { code, elf, opened: OnceLock::new() };
        SYMBOL_FILES.lock().insert(code.start, Arc::new(file));
        Ok(())
    }
}

impl Serve for NamesDeregister {
    fn serve((code,): (AddrRange,)) -> Result<()> {
        SYMBOL_FILES.lock().remove(&code.start);
        Ok(())
    }
}

impl SymbolFile {
    /// The symbol file of the link whose code contains an address.
    fn at(address: *const c_void) -> Option<Arc<SymbolFile>> {
        let address = ExecutorAddr::new(address as u64);
        let files = SYMBOL_FILES.lock();
        let (_, file) = files.range(..=address).next_back()?;
        file.code.contains(address).then(|| Arc::clone(file))
    }

    /// The bytes of the ELF file.
    fn bytes(&self) -> &[u8] {
        let bytes = usize::try_from(self.elf.bytes()).unwrap_or(0);
        // SAFETY: the controller has written these constants, and frees them after they are deregistered. A program that
        // removes code must not ask for its names at the same time, as with `dlclose` and `dladdr`.
        unsafe { std::slice::from_raw_parts(pointer::<u8>(self.elf.start), bytes) }
    }

    /// The segments of the link: its code, constants and data.
    fn segments(&self) -> &[Elf64_Phdr] {
        let bytes = self.bytes();
        let Some(count) = bytes.get(COUNT_AT..).and_then(|rest| rest.first_chunk()) else {
            return &[];
        };
        let count = usize::from(u16::from_le_bytes(*count));
        if bytes.len() < HEADER_BYTES + count * size_of::<Elf64_Phdr>() {
            return &[];
        }
        let table = ExecutorAddr::new(self.elf.start.get() + HEADER_BYTES as u64);
        // SAFETY: the table lies in the file, which starts at a page, and any bytes are segments.
        unsafe { std::slice::from_raw_parts(pointer(table), count) }
    }

    fn function_at(&self, address: *const c_void) -> Option<Function<'_>> {
        let offset = (address as u64).checked_sub(self.code.start.get())?;
        let file = self.bytes();
        let elf = ElfFile64::<object::Endianness>::parse(file).ok()?;
        let holds = |start: u64, bytes: u64| start <= offset && offset - start < bytes;
        let symbol = elf.symbols().find(|symbol| holds(symbol.address(), symbol.size()))?;
        let name = symbol.name_bytes().ok()?;
        let name = file.get(name.as_ptr().addr().checked_sub(file.as_ptr().addr())?..)?;
        let name = CStr::from_bytes_until_nul(name).ok()?;
        Some(Function { name, start: self.code.start.get() + symbol.address() })
    }

    /// The path by which the file can be opened; `None` if the system has no more memory or descriptors.
    fn path(&self) -> Option<&CStr> {
        let opened = self.opened.get_or_init(|| {
            let file = memfd::create(c"farcall-names", self.elf.bytes(), false).ok()?;
            let file = File::from(file);
            file.write_all_at(self.bytes(), 0).ok()?;
            let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
            Some(Opened { _file: file, path })
        });
        opened.as_ref().map(|opened| opened.path.as_c_str())
    }
}

/// `dl_iterate_phdr` for linked code: visits the loaded files, then the symbol files.
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
    let all: Vec<Arc<SymbolFile>> = SYMBOL_FILES.lock().values().cloned().collect();
    for file in &all {
        let (Some(path), [first, ..]) = (file.path(), file.segments()) else { continue };
        // SAFETY: all-zero bytes are a valid description.
        let mut info: dl_phdr_info = unsafe { std::mem::zeroed() };
        info.dlpi_addr = file.code.start.get();
        info.dlpi_name = path.as_ptr();
        info.dlpi_phdr = std::ptr::from_ref(first);
        info.dlpi_phnum = u16::try_from(file.segments().len()).unwrap_or(0);
        // SAFETY: the caller vouches for the function; the description lives until it returns.
        let status = unsafe { visit(&raw mut info, size_of::<dl_phdr_info>(), data) };
        if status != 0 {
            return status;
        }
    }
    0
}

/// `dladdr` for linked code: finds linked functions too. It names the program as their file.
///
/// # Safety
///
/// As `dladdr`.
pub(crate) unsafe extern "C" fn dladdr(address: *const c_void, info: *mut Dl_info) -> c_int {
    let Some(file) = SymbolFile::at(address) else {
        // SAFETY: the caller vouches for `info`.
        return unsafe { libc::dladdr(address, info) };
    };
    let function = file.function_at(address);
    let answer = Dl_info {
        dli_fname: program::name(),
        dli_fbase: pointer::<c_void>(file.code.start).cast_mut(),
        // The name is valid until the code is removed.
        dli_sname: function.as_ref().map_or(std::ptr::null(), |function| function.name.as_ptr()),
        dli_saddr: function.map_or(std::ptr::null_mut(), |function| {
            pointer::<c_void>(ExecutorAddr::new(function.start)).cast_mut()
        }),
    };
    // SAFETY: the caller vouches for `info`.
    unsafe { info.write(answer) };
    1
}

/// `backtrace_symbols` for linked code: returns one piece of memory from `malloc`, which starts with the pointers.
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
    let memory = allocator::allocate(bytes.max(1)).cast::<*mut c_char>();
    if memory.is_null() {
        return memory;
    }
    let mut text = memory.cast::<u8>().wrapping_add(pointers_bytes);
    for (number, mut line) in lines.into_iter().enumerate() {
        line.push(0);
        // SAFETY: the memory starts with a pointer for each line.
        unsafe { memory.wrapping_add(number).write(text.cast()) };
        // SAFETY: behind the pointers the memory has room for all lines with their NUL bytes.
        unsafe { text.copy_from_nonoverlapping(line.as_ptr(), line.len()) };
        text = text.wrapping_add(line.len());
    }
    memory
}

/// `backtrace_symbols_fd` for linked code: writes one line per address to the descriptor.
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
/// `count` addresses must be readable at `addresses`.
unsafe fn lines(addresses: *const *const c_void, count: c_int) -> Vec<Vec<u8>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller vouches for the array.
    let addresses = (0..count).map(|number| unsafe { *addresses.wrapping_add(number) });
    addresses.map(line).collect()
}

fn line(address: *const c_void) -> Vec<u8> {
    let Some(file) = SymbolFile::at(address) else { return line_of_library(address) };
    let (name, start) = match file.function_at(address) {
        Some(function) => (function.name.to_bytes(), function.start),
        None => (&[][..], file.code.start.get()),
    };
    // SAFETY: the program's name is a C string.
    let program = unsafe { CStr::from_ptr(program::name()) };
    let offset = format!("+{:#x}) [{address:p}]", address as u64 - start);
    [program.to_bytes(), b"(", name, offset.as_bytes()].concat()
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
    // SAFETY: it comes from the C library's malloc, and is not used any more.
    unsafe { allocator::release(found.cast()) };
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
