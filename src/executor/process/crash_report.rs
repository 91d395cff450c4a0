//! Names a crash on standard error: signal, fault address, function.
//!
//! For executors whose controller gets no crash record: one at the other end of a connection, as LLVM's. Such a controller only
//! learns that the connection has ended.
//!
//! The line comes in two parts, so that the first one is out if the search for the second one faults:
//!
//! | part | content |
//! |---|---|
//! | 1 | the signal, the fault address, a stack overflow |
//! | 2 | the function, or the innermost caller that has a name; the program counter if none has |
//!
//! Names come from objects that are registered with debuggers, as LLVM's controllers do, and from shared libraries.
//!
//! Invariant: nothing here allocates.
#![allow(unsafe_code, reason = "asks the dynamic linker for names, and writes in a signal handler")]

use std::ffi::CStr;
use std::io::{Cursor, Write};
use std::mem::MaybeUninit;

use crate::error::Result;
use crate::executor::memory::debugger;
use crate::sync::AtomicU64;
use crate::sys::process::trap::{self, Crash, RECORD_WORDS, Reporter};

/// The longest part of the line; names of C++ functions may be long.
const PART_BYTES_MAX: usize = 1024;

/// Installs the crash handlers of this process, which write that line.
///
/// # Errors
///
/// If the system refuses.
pub(crate) fn install() -> Result<()> {
    static RECORD: [AtomicU64; RECORD_WORDS] = [const { AtomicU64::new(0) }; RECORD_WORDS];
    static HOLDER: AtomicU64 = AtomicU64::new(0);
    trap::install(&RECORD, &HOLDER, Some(Reporter { begin, end }))
}

/// Writes the first part of the line.
fn begin(Crash { mut death, .. }: Crash) {
    // The second part names the function at this address, or the address.
    death.program_counter = None;
    write_error(format_args!("farcall: {death}"));
}

/// Writes the second part of the line.
fn end(program_counter: u64, callers: &[u64]) {
    let linked =
        |address, relation| debugger::function_at(address, |name, at| say(relation, name, at));
    // A return address may already be in the next function; the call before it is not.
    let mut calls = callers.iter().map(|caller| caller.saturating_sub(1));
    if linked(program_counter, "") || calls.any(|call| linked(call, "a function called from ")) {
        return;
    }
    // Shared libraries have names for the functions that they export only.
    let mut calls = callers.iter().map(|caller| caller.saturating_sub(1));
    match (library_function(program_counter), calls.find_map(library_function)) {
        (Some((name, offset)), _) => say("", name.to_bytes(), offset),
        (None, Some((name, offset))) => say("a function called from ", name.to_bytes(), offset),
        (None, None) => write_error(format_args!(", at pc {program_counter:#x}\n")),
    }
}

fn say(relation: &str, name: &[u8], offset: u64) {
    let name = std::str::from_utf8(name).unwrap_or("a function with a damaged name");
    write_error(format_args!(", in {relation}{name}+{offset:#x}\n"));
}

/// The function of a shared library, or of this program, that contains an address.
fn library_function(address: u64) -> Option<(&'static CStr, u64)> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let address = usize::try_from(address).ok()?;
    // SAFETY: `info` has room for the answer; `dladdr` accepts any address.
    let found = unsafe { libc::dladdr(std::ptr::without_provenance(address), info.as_mut_ptr()) };
    // SAFETY: all-zero bytes are a valid answer, as is what the function wrote.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_sname.is_null() {
        return None;
    }
    // SAFETY: the name is a C string of a file that stays loaded, since this process is about to end.
    let name = unsafe { CStr::from_ptr(info.dli_sname) };
    Some((name, (address - info.dli_saddr.addr()) as u64))
}

/// Writes to standard error, without the lock and the buffer of the standard library.
fn write_error(text: std::fmt::Arguments<'_>) {
    let mut buffer = [0; PART_BYTES_MAX];
    let mut cursor = Cursor::new(&mut buffer[..]);
    // Text that does not fit is cut off.
    let is_whole = cursor.write_fmt(text).is_ok();
    let size = usize::try_from(cursor.position()).unwrap_or(0);
    if !is_whole && let Some(last) = buffer[..size].last_mut() {
        *last = b'\n';
    }
    // SAFETY: the bytes are there.
    unsafe { libc::write(libc::STDERR_FILENO, buffer.as_ptr().cast(), size) };
}
