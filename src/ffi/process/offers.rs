//! What the executor is, and what it offers.

use std::ffi::{CString, c_char, c_void};

use farcall::limits::PAGE_BYTES;
use farcall::{ErrorKind, ExecutorAddr};

use super::buffer::{Out, required_text};
use super::error::{Error, invalid};
use super::host::Context;
use super::life::{LiveProcess, Process};
use super::object;
use super::text::{c_text, malloced};

/// Receives a name that the executor offers, and its address. The name lives until this function returns.
pub type VisitSymbol =
    Option<unsafe extern "C" fn(name: *const c_char, address: u64, context: *mut c_void)>;

/// Receives a name that the executor offers, and its number. The name lives until this function returns.
pub type VisitValue =
    Option<unsafe extern "C" fn(name: *const c_char, value: i64, context: *mut c_void)>;

/// Stores the number of the executor's process; 0 when it has ended.
///
/// # Safety
///
/// pid must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_pid(process: *mut Process, pid: *mut i32) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(pid, "pid", 0) }, || {
        Ok(object::find::<LiveProcess>(process)?.process.pid())
    })
}

/// Stores the executor's target triple, to be freed with farcall_text_free.
///
/// # Safety
///
/// triple must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_triple(
    process: *mut Process,
    triple: *mut *mut c_char,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(triple, "triple", std::ptr::null_mut()) }, || {
        Ok(malloced(object::find::<LiveProcess>(process)?.process.triple()))
    })
}

/// Stores a line that tells what the kernel enforces on the executor and what it lacks, to be freed with farcall_text_free.
///
/// # Safety
///
/// text must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_confinement(
    process: *mut Process,
    text: *mut *mut c_char,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(text, "text", std::ptr::null_mut()) }, || {
        let enforced = object::find::<LiveProcess>(process)?.process.confinement();
        Ok(malloced(&enforced.to_string()))
    })
}

/// Stores the size of a page of the executor.
///
/// # Safety
///
/// bytes must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_page_bytes(
    process: *mut Process,
    bytes: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(bytes, "bytes", 0) }, || {
        object::find::<LiveProcess>(process)?;
        // A session with another size does not start.
        Ok(PAGE_BYTES)
    })
}

/// Stores the address that the executor itself offers under a name, as its functions for LLVM's controllers. FARCALL_SYMBOLS if it
/// offers none. Sends no message. For linked code and libraries see farcall_dylib_lookup.
///
/// # Safety
///
/// The name must be a text, and address writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_symbol(
    process: *mut Process,
    name: *const c_char,
    address: *mut u64,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(address, "address", 0) }, || {
        // SAFETY: the caller vouches for the text.
        let name = unsafe { required_text(name, "name") }?;
        let found = object::find::<LiveProcess>(process)?.process.symbol(name);
        offered(name, found)
    })
}

/// The address that an executor offers under a name.
pub(crate) fn offered(name: &str, found: Option<ExecutorAddr>) -> farcall::Result<u64> {
    let missing = || format!("the executor does not offer {name}");
    let missing = || farcall::Error::new(ErrorKind::SymbolsNotFound, missing());
    Ok(found.ok_or_else(missing)?.get())
}

/// Calls visit for each name that the executor itself offers, on this thread, in the order of the names.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_process_each_symbol(
    process: *mut Process,
    visit: VisitSymbol,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveProcess>(process, |live| {
        let visit = visit.ok_or_else(|| invalid("visit is NULL"))?;
        let context = Context::new(context);
        let symbols = live.process.symbols();
        let mut found: Vec<(CString, u64)> =
            symbols.map(|(name, address)| (c_text(name), address.get())).collect();
        found.sort_unstable();
        for (name, address) in &found {
            // SAFETY: the host gave the function and its context for this.
            unsafe { visit(name.as_ptr(), *address, context.get()) };
        }
        Ok(())
    })
}

/// Calls visit for each number that the executor offers, on this thread, in the order of the names.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_process_each_value(
    process: *mut Process,
    visit: VisitValue,
    context: *mut c_void,
) -> *mut Error {
    object::with::<LiveProcess>(process, |live| {
        let visit = visit.ok_or_else(|| invalid("visit is NULL"))?;
        let context = Context::new(context);
        let values = live.process.values();
        let mut found: Vec<(CString, i64)> =
            values.map(|(name, value)| (c_text(name), value)).collect();
        found.sort_unstable();
        for (name, value) in &found {
            // SAFETY: the host gave the function and its context for this.
            unsafe { visit(name.as_ptr(), *value, context.get()) };
        }
        Ok(())
    })
}
