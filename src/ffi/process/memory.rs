//! Memory in the executor for code that other linkers make: reserved, written in place, finalized, deallocated.

use std::ffi::{c_char, c_void};
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};

use farcall::controller::memory::{AllocAction, AllocActionPair, FinalizedAlloc, InFlightAlloc};
use farcall::{AddrRange, ExecutorAddr, Prot};

use super::buffer::{Out, array, message, required_text};
use super::error::{Error, invalid};
use super::life::{LiveProcess, Process, Sizes};
use super::object::{self, Number, Object};

/// Memory in the executor that no code uses yet. A number, as farcall_executor is one.
#[derive(Debug)]
pub struct Memory {
    /// No value of this type exists: its address is a number.
    _nobody: std::convert::Infallible,
}

/// A protection of memory in the executor.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// It can be executed and read.
    Code = 0,
    /// It can be read.
    Constants = 1,
    /// It can be read and written.
    Data = 2,
}

/// A part of memory: whole pages of one protection.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// The executor's address of the first byte; 0 if no byte was reserved.
    pub address: u64,
    /// Where this program writes the same bytes; NULL if no byte was reserved. It stays mapped until the executor is closed.
    pub working: *mut c_void,
    /// The number of bytes.
    pub bytes: u64,
    /// How many of the first bytes may hold bytes of earlier memory; those behind them are zero.
    pub used: u64,
}

/// A function of code that another linker has made.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FunctionName {
    /// The executor's address of its first byte.
    pub address: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// Its name.
    pub name: *const c_char,
}

/// A pair of calls of wrapper functions in the executor, with the bytes of their arguments. An address of 0 is no call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Action {
    /// Runs ahead of the next call, in the order of the actions.
    pub finalize: u64,
    /// The arguments of finalize; NULL for none.
    pub finalize_args: *const c_void,
    /// Their size.
    pub finalize_size: usize,
    /// Runs when the memory is deallocated, in reverse order.
    pub dealloc: u64,
    /// The arguments of dealloc; NULL for none.
    pub dealloc_args: *const c_void,
    /// Their size.
    pub dealloc_size: usize,
}

struct LiveMemory {
    /// Borrows from the session of `live`. Taken when it is finalized, else dropped before `live`.
    alloc: Mutex<ManuallyDrop<Option<InFlightAlloc<'static>>>>,
    /// Keeps the session.
    _live: Arc<LiveProcess>,
}

impl Drop for LiveMemory {
    fn drop(&mut self) {
        // While the session lives, which is dropped after this.
        drop(self.take());
    }
}

impl LiveMemory {
    fn take(&self) -> Option<InFlightAlloc<'static>> {
        self.alloc.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Object for LiveMemory {
    type Handle = Memory;
    const WHAT: &'static str = "memory";
}

/// Reserves memory in the executor, at least this many bytes of each protection, rounded up to pages. The last zero_fill bytes of the
/// data are zero; if they are many, they take memory when they are touched. Sends no message, unless all memory for linked code is
/// used up. FARCALL_LIMIT if there is no more.
///
/// # Safety
///
/// memory must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_memory_reserve(
    process: *mut Process,
    sizes: Sizes,
    zero_fill: u64,
    memory: *mut *mut Memory,
) -> *mut Error {
    // SAFETY: the caller vouches that the pointer is writable.
    Out::stored(unsafe { Out::new(memory, "memory", std::ptr::null_mut()) }, || {
        let live = object::find::<LiveProcess>(process)?;
        if sizes == Sizes::default() {
            return Err(invalid("memory without bytes"));
        }
        let alloc = live.process.allocate_with_zero_fill(sizes.into(), zero_fill)?;
        // SAFETY: it borrows from the session, which lives at a fixed address as long as `live`; that is kept with it.
        let alloc =
            unsafe { std::mem::transmute::<InFlightAlloc<'_>, InFlightAlloc<'static>>(alloc) };
        let alloc = Mutex::new(ManuallyDrop::new(Some(alloc)));
        let number = live.number;
        let object = LiveMemory { alloc, _live: live };
        Number::new().name(Some(number), Arc::new(object))
    })
}

/// Stores where the part with a protection (a farcall_protection) is. Its bytes are zero, or those of earlier memory: write all of the
/// used bytes that code will read.
///
/// # Safety
///
/// part must be writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_memory_part(
    memory: *mut Memory,
    protection: u32,
    part: *mut Part,
) -> *mut Error {
    Error::of(|| {
        let empty = Part { address: 0, working: std::ptr::null_mut(), bytes: 0, used: 0 };
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(part, "part", empty) }?;
        let memory = object::find::<LiveMemory>(memory)?;
        let prot = usize::try_from(protection).ok().and_then(|at| Prot::ALL.get(at).copied());
        let prot = prot.ok_or_else(|| invalid(format!("a protection {protection}")))?;
        let alloc = memory.alloc.lock().unwrap_or_else(PoisonError::into_inner);
        let alloc = alloc.as_ref().ok_or_else(|| invalid("the memory was finalized"))?;
        let range = alloc.range(prot);
        place.write(Part {
            address: range.start.get(),
            working: alloc.as_ptr(prot).cast(),
            bytes: range.bytes(),
            used: alloc.used_bytes(prot),
        });
        Ok(())
    })
}

/// Names functions in memory: messages about crashes say them, with the name of an object. The names go with the memory. A second
/// list takes the place of the first one. Sends no message. May be NULL: functions.
///
/// # Safety
///
/// The names must be texts, and the functions readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_memory_name_functions(
    memory: *mut Memory,
    object: *const c_char,
    functions: *const FunctionName,
    count: usize,
) -> *mut Error {
    object::with::<LiveMemory>(memory, |memory| {
        // SAFETY: the caller vouches for the text.
        let object = unsafe { required_text(object, "object") }?;
        // SAFETY: the caller vouches for the functions.
        let functions = unsafe { array(functions, count) }?;
        let named = functions.iter().map(|FunctionName { address, bytes, name }| {
            // SAFETY: the caller vouches for the text.
            let name = unsafe { required_text(*name, "a name") }?;
            let range = AddrRange::sized(ExecutorAddr::new(*address), *bytes);
            Ok((range.ok_or_else(|| invalid(format!("{bytes} bytes at {address:#x}")))?, name))
        });
        let named = named.collect::<farcall::Result<Vec<_>>>()?;
        let alloc = memory.alloc.lock().unwrap_or_else(PoisonError::into_inner);
        let alloc = alloc.as_ref().ok_or_else(|| invalid("the memory was finalized"))?;
        alloc.name_functions(object, named);
        Ok(())
    })
}

/// Makes memory usable: the next call may run its code. Stores its base, which farcall_process_deallocate takes. Frees the handle,
/// also if this fails. The actions are posted ahead of the next call, which fails if a finalize action fails. Memory that only
/// finalize actions use can be deallocated when that call has returned. May be NULL: actions.
///
/// # Safety
///
/// The actions and their arguments must be readable, and base writable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_memory_finalize(
    memory: *mut Memory,
    actions: *const Action,
    count: usize,
    base: *mut u64,
) -> *mut Error {
    Error::of(|| {
        let memory = object::remove::<LiveMemory>(memory)?;
        // SAFETY: the caller vouches that the pointer is writable.
        let place = unsafe { Out::new(base, "base", 0) }?;
        // SAFETY: the caller vouches for the actions.
        let actions = unsafe { array(actions, count) }?;
        let pairs = actions.iter().map(|action| {
            let Action { finalize, finalize_args, finalize_size, .. } = *action;
            let Action { dealloc, dealloc_args, dealloc_size, .. } = *action;
            Ok(AllocActionPair {
                // SAFETY: the caller vouches for the arguments.
                finalize: unsafe { call(finalize, finalize_args, finalize_size) }?,
                // SAFETY: as above.
                dealloc: unsafe { call(dealloc, dealloc_args, dealloc_size) }?,
            })
        });
        let pairs = pairs.collect::<farcall::Result<Vec<_>>>()?;
        let alloc = memory.take().ok_or_else(|| invalid("the memory was finalized"))?;
        place.write(alloc.finalize_with_actions(pairs)?.release().get());
        Ok(())
    })
}

/// # Safety
///
/// The arguments must be readable.
unsafe fn call(function: u64, args: *const c_void, size: usize) -> farcall::Result<AllocAction> {
    if function == 0 {
        return Ok(AllocAction::default());
    }
    // SAFETY: the caller vouches for the arguments.
    let args = unsafe { message(args, size, "arguments of an action") }?;
    Ok(AllocAction::with_bytes(ExecutorAddr::new(function), args))
}

/// Frees memory that was not finalized. May be NULL: memory.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn farcall_memory_abandon(memory: *mut Memory) -> *mut Error {
    object::dispose::<LiveMemory>(memory)
}

/// Runs the dealloc actions of finalized memory, by the bases that farcall_memory_finalize has stored, and frees it. None of its code
/// may be running. Sends one message for all if any has actions, else none. If one fails, the rest is still freed. May be
/// NULL: bases.
///
/// # Safety
///
/// The bases must be readable.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn farcall_process_deallocate(
    process: *mut Process,
    bases: *const u64,
    count: usize,
) -> *mut Error {
    object::with::<LiveProcess>(process, |live| {
        // SAFETY: the caller vouches for the bases.
        let bases = unsafe { array(bases, count) }?;
        let memory =
            bases.iter().map(|base| FinalizedAlloc::from_address(ExecutorAddr::new(*base)));
        live.process.deallocate(memory)
    })
}
