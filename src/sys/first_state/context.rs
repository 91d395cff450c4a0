//! The registers of the main thread, and the change of its stack.

use super::book::{Book, Handle};
use super::ranges::Range;
#[cfg(target_arch = "x86_64")]
use super::system::{self, call};
use crate::error::{Error, Result};

/// `arch_prctl`: the base of the segment GS.
#[cfg(target_arch = "x86_64")]
const SET_GS: usize = 0x1001;
#[cfg(target_arch = "x86_64")]
const GET_GS: usize = 0x1004;

/// Whether states are kept on this processor.
pub(super) fn check() -> Result<()> {
    if cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    Err(Error::invalid("a copy is reset on x86-64 only, so make a new copy"))
}

/// Notes what this thread has beside its registers of the calling convention.
pub(super) fn keep(book: &mut Book) {
    book.segment = segment();
    book.live = live().map_or([Range { start: 0, end: 0 }; 2], |start| {
        // `rseq`: numbers of processors, the section that runs, numbers of the node and others. The section is of the state.
        [Range { start, end: start + 8 }, Range { start: start + 16, end: start + 32 }]
    });
}

pub(super) fn put_back(book: &Book) {
    if segment() != book.segment {
        set_segment(book.segment);
    }
}

/// The base of the segment GS.
#[cfg(target_arch = "x86_64")]
fn segment() -> u64 {
    let mut base = 0_u64;
    // SAFETY: the kernel writes one word.
    let _ = unsafe { call(libc::SYS_arch_prctl, [GET_GS, (&raw mut base).addr(), 0, 0, 0]) };
    base
}

#[cfg(target_arch = "x86_64")]
fn set_segment(base: u64) {
    // SAFETY: the base was this in the first state.
    let _ = unsafe { call(libc::SYS_arch_prctl, [SET_GS, system::size(base), 0, 0, 0]) };
}

/// There is no such segment.
#[cfg(not(target_arch = "x86_64"))]
fn segment() -> u64 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn set_segment(_base: u64) {}

/// The address of this thread's `rseq` area, if glibc has one (2.35).
#[cfg(target_arch = "x86_64")]
fn live() -> Option<u64> {
    // SAFETY: the name is a string.
    let offset = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()) };
    let offset = offset.cast::<isize>();
    if offset.is_null() {
        return None;
    }
    // SAFETY: glibc defines this as a constant of this type.
    let offset = unsafe { offset.read() };
    let thread: u64;
    // SAFETY: the first word of the thread's block is its address.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) thread, options(nostack, readonly)) };
    Some(thread.wrapping_add_signed(offset as i64))
}

#[cfg(not(target_arch = "x86_64"))]
fn live() -> Option<u64> {
    None
}

/// Runs `function` on the book's stack. Returns its result on the stack that the book's `now_stack` names then. That is the stack of this
/// call, or of an earlier one whose stack has the same contents again.
pub(super) fn on_own_stack(book: Handle, function: extern "C" fn(Handle) -> u64) -> u64 {
    let now_stack = book.edit(|book| &raw mut book.now_stack);
    // SAFETY: the stack is mapped, and no other code runs on it.
    unsafe { switch(now_stack, book.stack_top(), function, book) }
}

/// Stores the registers that a function keeps on the stack, and the stack pointer in `saved`. Calls the function on the other stack, and
/// loads the stack pointer and the registers.
///
/// # Safety
///
/// `top` is the top of a stack. When the function returns, `saved` has a stack pointer that this function has stored there, and the stack
/// has the contents of then.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn switch(
    saved: *mut u64,
    top: u64,
    function: extern "C" fn(Handle) -> u64,
    book: Handle,
) -> u64 {
    std::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "push rdi",
        "push rdi",
        "mov rdi, rcx",
        "call rdx",
        "pop rdi",
        "mov rsp, [rdi]",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// There is none for this processor, which [`check`] says.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn switch(
    _saved: *mut u64,
    _top: u64,
    _function: extern "C" fn(Handle) -> u64,
    _book: Handle,
) -> u64 {
    super::book::REFUSED
}
