//! The registers of the main thread, and the change of its stack.

use super::book::{Book, Handle};
use super::ranges::Range;
use super::system;
use crate::error::{Error, Result};
use crate::sys::processor;

/// Whether states are kept on this processor.
pub(super) fn check() -> Result<()> {
    if processor::KEEPS_STATE {
        return Ok(());
    }
    Err(Error::invalid("a copy is reset on x86-64 only, so make a new copy"))
}

/// Notes what this thread has beside its registers of the calling convention.
pub(super) fn keep(book: &mut Book) {
    book.segment = processor::segment();
    book.live = live().map_or([Range { start: 0, end: 0 }; 2], |start| {
        // `rseq`: numbers of processors, the section that runs, numbers of the node and others. The section is of the state.
        [Range { start, end: start + 8 }, Range { start: start + 16, end: start + 32 }]
    });
}

pub(super) fn put_back(book: &Book) {
    if processor::segment() != book.segment {
        // SAFETY: the base was this in the first state.
        unsafe { processor::set_segment(book.segment) };
    }
}

/// The address of this thread's `rseq` area, if glibc has one (2.35).
fn live() -> Option<u64> {
    // SAFETY: the name is a string.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    let offset = offset.cast::<isize>();
    if offset.is_null() {
        return None;
    }
    // SAFETY: glibc defines this as a constant of this type.
    let offset = unsafe { offset.read() };
    Some(processor::thread_pointer().wrapping_add_signed(offset as i64))
}

/// Runs `function` on the book's stack. Returns its result on the stack that the book's `now_stack` names then. That is the stack of this
/// call, or of an earlier one whose stack has the same contents again.
pub(super) fn on_own_stack(book: Handle, function: extern "C" fn(Handle) -> u64) -> u64 {
    let now_stack = book.edit(|book| &raw mut book.now_stack);
    // A handle is passed as the pointer in it.
    let argument = std::ptr::with_exposed_provenance_mut(system::size(book.address()));
    let function = function as *const std::ffi::c_void;
    // SAFETY: the stack is mapped, and no other code runs on it.
    unsafe { processor::call_on_stack(now_stack, book.stack_top(), function, argument) }
}
