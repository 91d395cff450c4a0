//! The throws of linked C++ code: a call that is to end leaves linked code there.
//!
//! A loop that throws is almost always in the unwinder, where no signal can make it leave. At a throw its compiler has promised cleanups.
//! So linked code throws by the function of this file.
#![allow(unsafe_code, reason = "defines a function in assembler, and calls the C++ library")]

use std::ffi::c_void;

use super::leave;
use crate::ExecutorAddr;
use crate::executor::entry::address::pointer;
use crate::sync::{AtomicU64, Ordering};

/// The C++ library's functions that throw an exception, and free it unthrown.
static THROW: AtomicU64 = AtomicU64::new(0);
static FREE: AtomicU64 = AtomicU64::new(0);

type Free = unsafe extern "C" fn(*mut c_void);

std::arch::global_asm!(
    ".pushsection .text.farcall_throw,\"ax\",@progbits",
    ".globl farcall_throw",
    ".hidden farcall_throw",
    ".type farcall_throw,@function",
    "farcall_throw:",
    ".cfi_startproc",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "mov rsi, rdx",
    "mov rdx, qword ptr [rsp + 24]",
    "lea rcx, [rsp + 32]",
    "call {leaves}",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "test al, al",
    "jnz farcall_leave",
    "jmp qword ptr [rip + {throw}]",
    ".cfi_endproc",
    ".size farcall_throw, . - farcall_throw",
    ".popsection",
    leaves = sym leaves,
    throw = sym THROW,
);

unsafe extern "C" {
    /// Takes the place of `__cxa_throw`.
    safe fn farcall_throw();
}

/// The address that linked code gets for the C++ library's function with this name, which is at `address`.
pub(crate) fn in_place_of(name: &str, address: ExecutorAddr) -> ExecutorAddr {
    if name != "__cxa_throw" {
        return address;
    }
    // SAFETY: the name is a C string.
    let free = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_free_exception".as_ptr()) };
    FREE.store(free.expose_provenance() as u64, Ordering::Relaxed);
    THROW.store(address.get(), Ordering::Relaxed);
    ExecutorAddr::new((farcall_throw as *const c_void).expose_provenance() as u64)
}

/// Whether the thread leaves linked code in place of a throw that would return to `address`, with the stack pointer `stack`. If so, the
/// exception is destroyed.
unsafe extern "C" fn leaves(
    exception: *mut c_void,
    destroy: Option<Free>,
    address: u64,
    stack: u64,
) -> bool {
    if !leave::is_due(address, stack) {
        return false;
    }
    if let Some(destroy) = destroy {
        // SAFETY: the thrower passes the exception, with the function that destroys it.
        unsafe { destroy(exception) };
    }
    let free = pointer::<c_void>(ExecutorAddr::new(FREE.load(Ordering::Relaxed)));
    // SAFETY: the word is null or the address of the function, which the C++ library declares so.
    let free = unsafe { std::mem::transmute::<*const c_void, Option<Free>>(free) };
    if let Some(free) = free {
        // SAFETY: the thrower has allocated the exception, and does not go on.
        unsafe { free(exception) };
    }
    leave::begin(None);
    true
}
