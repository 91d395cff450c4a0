//! Calls of wrapper functions, and the executor's memory by address.

use std::cell::Cell;
use std::ffi::c_void;

use farcall::controller::calls::Bytes;
use farcall::{AddrRange, ErrorKind, ExecutorAddr};

use super::buffer::{Buffer, Out, message};
use super::call_options::CallOptions;
use super::error::{Error, invalid};
use super::life::{LiveProcess, Process};
use super::object;

/// Calls the wrapper function at an address of the executor with a copy of the arguments, and waits for its result, which the
/// caller owns. Any number of threads may call at the same time; each has a thread of its own in the executor.
///
/// Handlers that linked code calls meanwhile run on this thread. FARCALL_REMOTE is the function's own error. May be NULL: args.
///
/// # Safety
///
/// The arguments must be readable, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_call(
    process: *mut Process,
    function: u64,
    args: *const c_void,
    size: usize,
    result: *mut Buffer,
) -> *mut Error {
    thread_local! {
        static RESULT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    Error::of(|| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(result, "result", Buffer::of(&[])) }?;
        // SAFETY: the caller vouches for the arguments.
        let args = unsafe { message(args, size, "arguments") }?;
        let live = object::find::<LiveProcess>(process)?;
        // The thread keeps the memory of small results.
        let mut kept = RESULT.try_with(Cell::take).unwrap_or_default();
        kept.clear();
        let called = live.process.call_into(ExecutorAddr::new(function), args, &mut kept);
        if called.is_ok() {
            place.write(Buffer::of(&kept));
        }
        if kept.capacity() <= KEPT_BYTES_MAX {
            let _ = RESULT.try_with(|place| place.set(kept));
        }
        called
    })
}

/// A thread keeps no more memory for results.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// As farcall_process_call, up to a time, or watched. May be NULL: options, args.
///
/// # Safety
///
/// The options and the arguments must be readable, and result writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_call_with(
    process: *mut Process,
    function: u64,
    options: *const CallOptions,
    args: *const c_void,
    size: usize,
    result: *mut Buffer,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(result, "result", Buffer::of(&[])) }, || {
        // SAFETY: the caller vouches for the arguments.
        let args = unsafe { message(args, size, "arguments") }?;
        let live = object::find::<LiveProcess>(process)?;
        let function = live.process.function::<Bytes>(ExecutorAddr::new(function));
        let call =
            |options: &farcall::controller::CallOptions<'_>| function.call_with(options, args);
        // SAFETY: the caller vouches for the options.
        Ok(Buffer::of(&unsafe { CallOptions::with(options, call) }?))
    })
}

/// Copies size bytes of the executor's memory. FARCALL_REMOTE if they cannot be read; the executor continues. Sends one message.
///
/// # Safety
///
/// data must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_read(
    process: *mut Process,
    address: u64,
    data: *mut c_void,
    size: usize,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the bytes are only counted.
        unsafe { message(data, size, "memory") }?;
        let live = object::find::<LiveProcess>(process)?;
        let start = ExecutorAddr::new(address);
        let range = AddrRange::sized(start, size as u64);
        let range = range.ok_or_else(|| invalid(format!("{size} bytes at {address:#x}")))?;
        let read = live.process.memory_access().read_buffers(&[range])?;
        let read = read.into_iter().next().unwrap_or_default();
        if read.len() != size {
            return Err(farcall::Error::new(
                ErrorKind::Violation,
                "other bytes than were asked for",
            ));
        }
        // SAFETY: the caller vouches that this many bytes are writable.
        unsafe { std::ptr::copy_nonoverlapping(read.as_ptr(), data.cast(), size) };
        Ok(())
    })
}

/// Writes a copy of size bytes into the executor's memory. FARCALL_REMOTE if that cannot be written; the executor continues. Sends
/// one message.
///
/// # Safety
///
/// data must be readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_write(
    process: *mut Process,
    address: u64,
    data: *const c_void,
    size: usize,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches for the bytes.
        let bytes = unsafe { message(data, size, "memory") }?;
        let live = object::find::<LiveProcess>(process)?;
        live.process.memory_access().write_buffers([(ExecutorAddr::new(address), bytes)])
    })
}

/// Stores where this program reads and writes the executor's memory from an address on, and how many bytes both processes map
/// there. FARCALL_INVALID if it is no memory for linked code: read and write that with messages. Sends no message.
///
/// The bytes stay mapped until the executor is closed. Linked code may write them at any moment. May be NULL: bytes.
///
/// # Safety
///
/// working and bytes must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_shared_memory(
    process: *mut Process,
    address: u64,
    working: *mut *mut c_void,
    bytes: *mut u64,
) -> *mut Error {
    Error::of(|| {
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(working, "working", std::ptr::null_mut()) }?;
        // SAFETY: as above.
        let count = unsafe { Out::optional(bytes, "bytes", 0) }?;
        let live = object::find::<LiveProcess>(process)?;
        let shared = live.process.shared_memory(ExecutorAddr::new(address));
        let missing = || invalid(format!("{address:#x} is no address of memory for linked code"));
        let shared = shared.ok_or_else(missing)?;
        place.write(shared.as_ptr().cast());
        if let Some(count) = count {
            count.write(shared.len() as u64);
        }
        Ok(())
    })
}
