//! Starting a program at its own `_start`, as the kernel starts one.
//!
//! Invariant: nothing returns to the frames above.
#![allow(unsafe_code, reason = "moves the stack pointer, and jumps into a program")]

use std::ffi::{c_char, c_void};

use crate::ExecutorAddr;
use crate::executor::entry::address::pointer;

// The stack pointer is at the number of arguments and aligned to 16. No function is given to run at exit (rdx), and there
// is no frame above (rbp).
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.farcall_start,\"ax\",@progbits",
    ".globl farcall_start",
    ".hidden farcall_start",
    ".type farcall_start,@function",
    "farcall_start:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "shl rdx, 3",
    "sub rsp, rdx",
    "and rsp, -16",
    "mov rdi, rsp",
    "cld",
    "rep movsq",
    "xor edx, edx",
    "xor ebp, ebp",
    "jmp rax",
    ".size farcall_start, . - farcall_start",
    ".popsection",
);

// As above: the function to run at exit is in x0, the frame above in x29, the return address in x30.
#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".pushsection .text.farcall_start,\"ax\",@progbits",
    ".globl farcall_start",
    ".hidden farcall_start",
    ".type farcall_start,@function",
    "farcall_start:",
    "mov x9, x0",
    "sub x10, sp, x2, lsl #3",
    "and x10, x10, #-16",
    "mov sp, x10",
    "2: cbz x2, 3f",
    "ldr x11, [x1], #8",
    "str x11, [x10], #8",
    "sub x2, x2, #1",
    "b 2b",
    "3: mov x0, xzr",
    "mov x29, xzr",
    "mov x30, xzr",
    "br x9",
    ".size farcall_start, . - farcall_start",
    ".popsection",
);

unsafe extern "C" {
    /// Copies `count` words to a stack below this frame, and jumps to `function`.
    fn farcall_start(function: *const c_void, words: *const *const c_char, count: usize) -> !;
}

/// Starts a program with `words` on its stack: the number of arguments first.
///
/// # Safety
///
/// `function` must be code that a kernel could start.
pub(super) unsafe fn start(function: ExecutorAddr, words: &[*const c_char]) -> ! {
    // SAFETY: the caller vouches for the function, and there are this many words.
    unsafe { farcall_start(pointer(function), words.as_ptr(), words.len()) }
}
