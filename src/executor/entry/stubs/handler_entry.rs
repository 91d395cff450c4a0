//! The function to which the stub of a handler jumps. It stores the registers of arguments, sends the call to the controller, and
//! returns the answer as if the stub were a C function.
//!
//! Strings and slices are read through the kernel, so an address that cannot be read is an error of the call and not a fault.
#![allow(unsafe_code, reason = "is jumped to by code, and reads the arguments of a C call")]

use std::ffi::{CStr, c_void};

use crate::call::contract::handler_call::{HEAD_BYTES, Head, Kind, WORD_BYTES};
use crate::error::{Error, Result};
use crate::executor::entry::controller_call::CallController;
use crate::executor::entry::{abi, unwind_boundary};
use crate::limits::{HANDLER_BYTES_MAX, PAGE_BYTES, TYPED_ARGUMENTS_MAX};
use crate::sys::memory::access;

/// The registers of arguments.
#[repr(C)]
struct Registers {
    integers: [u64; abi::INTEGERS],
    floats: [u64; abi::FLOATS],
}

/// The address of the function.
pub(crate) fn address<C: CallController>() -> *const c_void {
    call_handler::<C> as *const c_void
}

abi::handler_entry!(CallController, Registers, serve);

/// The answer of a handler, in the two registers of results.
#[repr(C)]
struct Answer {
    word: u64,
    /// Not 0 if the call was interrupted meanwhile, and ends here.
    ends: u64,
}

const _: () = assert!(size_of::<Registers>().is_multiple_of(16), "the stack stays aligned");

/// Calls the handler that the constants of a stub describe. A call that fails returns the status, or is unwound.
///
/// # Safety
///
/// The pointers must be those that `call_handler` passes.
unsafe extern "C-unwind" fn serve<C: CallController>(
    constants: *const u8,
    registers: *const Registers,
    stack: *const u64,
) -> Answer {
    // SAFETY: the stub is linked with its constants, which start with a head.
    let head = Head::read(unsafe { &*constants.cast::<[u8; HEAD_BYTES]>() });
    // SAFETY: `call_handler` has stored them in its frame.
    let registers = unsafe { &*registers };
    let mut source = Source { registers, integers: 0, floats: 0, stack };
    let answer = source.bytes(&head).and_then(|call| answer::<C>(head.tag, call.as_ref()));
    let error = match (answer, head.status) {
        // SAFETY: `call_handler` has passed the stack.
        (Ok(word), _) | (Err(_), Some(word)) => return unsafe { Answer::of::<C>(word, stack) },
        (Err(error), None) => error,
    };
    // SAFETY: the constants have the name behind the head, and it ends with NUL.
    let name = unsafe { constants.add(HEAD_BYTES) };
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(name.cast()) };
    let why = format!("{}: {error}", name.to_string_lossy());
    drop(error);
    unwind_boundary::unwind(why)
}

impl Answer {
    /// # Safety
    ///
    /// The pointer must come from `call_handler`, as its third argument.
    unsafe fn of<C: CallController>(word: u64, stack: *const u64) -> Self {
        // SAFETY: the return address lies in front of what the caller has on its stack.
        let address = unsafe { *stack.wrapping_sub(1) };
        let ends = C::is_interrupted(address, stack.expose_provenance() as u64);
        Self { word, ends: u64::from(ends) }
    }
}

fn answer<C: CallController>(tag: u64, call: &[u8]) -> Result<u64> {
    let result = C::call(tag, call)?.into_result().map_err(Error::remote)?;
    match result.as_bytes().try_into() {
        Ok(word) => Ok(u64::from_le_bytes(word)),
        Err(_) => Err(Error::violation(format!("{} bytes for a number", result.len()))),
    }
}

/// The arguments of a C call, which are taken in order.
struct Source<'a> {
    registers: &'a Registers,
    integers: usize,
    floats: usize,
    stack: *const u64,
}

/// The bytes of a call: in place, or in memory if it has strings or slices.
enum Call {
    Words([[u8; WORD_BYTES]; TYPED_ARGUMENTS_MAX], usize),
    Bytes(Vec<u8>),
}

impl AsRef<[u8]> for Call {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Call::Words(words, count) => words[..*count].as_flattened(),
            Call::Bytes(bytes) => bytes,
        }
    }
}

impl Source<'_> {
    /// The bytes of the call, as the controller takes them.
    fn bytes(&mut self, head: &Head) -> Result<Call> {
        let mut words = [[0; WORD_BYTES]; TYPED_ARGUMENTS_MAX];
        let mut tail = Vec::new();
        let mut count = 0;
        for kind in head.kinds() {
            let before = tail.len();
            let read = match kind {
                Kind::Integer => Ok(self.integer()),
                Kind::Float => Ok(self.float()),
                Kind::Text => read_text(self.integer(), &mut tail).map(|()| added(&tail, before)),
                Kind::Slice { element_bytes } => {
                    let (address, elements) = (self.integer(), self.integer());
                    let size = elements.checked_mul(element_bytes.into());
                    read_slice(address, size, &mut tail).map(|()| added(&tail, before))
                }
            };
            let word =
                read.map_err(|error| error.during(format_args!("argument {}", count + 1)))?;
            words[count] = word.to_le_bytes();
            count += 1;
        }
        match tail.is_empty() {
            true => Ok(Call::Words(words, count)),
            false => Ok(Call::Bytes([words[..count].as_flattened(), &tail].concat())),
        }
    }

    #[inline]
    fn integer(&mut self) -> u64 {
        let register = self.registers.integers.get(self.integers).copied();
        self.integers += 1;
        register.unwrap_or_else(|| self.stack_word())
    }

    #[inline]
    fn float(&mut self) -> u64 {
        let register = self.registers.floats.get(self.floats).copied();
        self.floats += 1;
        register.unwrap_or_else(|| self.stack_word())
    }

    fn stack_word(&mut self) -> u64 {
        // SAFETY: the caller of the stub has put the arguments that registers have no room for there, a word each.
        let word = unsafe { self.stack.read() };
        // SAFETY: the stack of the caller goes on behind its arguments.
        self.stack = unsafe { self.stack.add(1) };
        word
    }
}

fn added(tail: &[u8], before: usize) -> u64 {
    (tail.len() - before) as u64
}

/// Appends the string at this address, with its NUL. It is read page by page: the page behind its NUL may not be there.
fn read_text(address: u64, tail: &mut Vec<u8>) -> Result<()> {
    if address == 0 {
        return Err(Error::invalid("a null pointer where a string was due"));
    }
    let (start, mut from) = (tail.len(), address);
    while tail.len() < HANDLER_BYTES_MAX {
        let in_page = (PAGE_BYTES - from % PAGE_BYTES).min((HANDLER_BYTES_MAX - tail.len()) as u64);
        let end = tail.len();
        read(from, in_page, tail)?;
        if let Some(nul) = tail[end..].iter().position(|byte| *byte == 0) {
            tail.truncate(end + nul + 1);
            return Ok(());
        }
        from = from.wrapping_add(in_page);
    }
    tail.truncate(start);
    Err(too_long())
}

/// Appends the bytes at this address; `size` is `None` if their number is more than a number can be.
fn read_slice(address: u64, size: Option<u64>, tail: &mut Vec<u8>) -> Result<()> {
    let left = (HANDLER_BYTES_MAX - tail.len()) as u64;
    let size = size.filter(|size| *size <= left).ok_or_else(too_long)?;
    read(address, size, tail)
}

fn read(address: u64, size: u64, tail: &mut Vec<u8>) -> Result<()> {
    let size = usize::try_from(size).map_err(|_| too_long())?;
    let end = tail.len();
    tail.resize(end + size, 0);
    access::read(&[(address, size)], &mut tail[end..])
}

fn too_long() -> Error {
    Error::exhausted(format!(
        "the strings and slices of one call have at most {HANDLER_BYTES_MAX} bytes; pass the address of more in a buffer"
    ))
}
