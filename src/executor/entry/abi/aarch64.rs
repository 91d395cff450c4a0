//! The C calling convention of 64-bit Arm: which register or stack slot holds an argument.
//!
//! The first eight integers and pointers are in registers, as are the first eight floating-point numbers. The others
//! lie on the stack in the order of the arguments, eight bytes each, the first at the lowest address, which is a
//! multiple of 16.
//!
//! Invariant: only this file knows the registers of this processor; `entry::typed` decides which arguments go to
//! registers.
#![allow(unsafe_code, reason = "loads registers of arguments, so it is in assembler")]

use super::Frame;

/// The number of registers for integers and pointers.
pub(crate) const INTEGERS: usize = 8;
/// The number of registers for floating-point numbers.
pub(crate) const FLOATS: usize = 8;

// As `farcall_enter`, this function has no unwind information, so unwinders stop here.
std::arch::global_asm!(
    ".pushsection .text.farcall_enter,\"ax\",@progbits",
    ".globl farcall_call_typed",
    ".hidden farcall_call_typed",
    ".type farcall_call_typed,@function",
    ".balign 16",
    "farcall_call_typed:",
    "stp x29, x30, [sp, #-32]!",
    "mov x29, sp",
    "str x19, [sp, #16]",
    "mov x19, x0",
    "ldr x9, [x19, #{stack_words}]",
    "cbz x9, 3f",
    "add x10, x9, #1",
    "and x10, x10, #-2",
    "sub sp, sp, x10, lsl #3",
    "add x11, x19, #{stack}",
    "mov x12, sp",
    "2:",
    "ldr x13, [x11], #8",
    "str x13, [x12], #8",
    "subs x9, x9, #1",
    "b.ne 2b",
    "3:",
    "ldp d0, d1, [x19, #{floats}]",
    "ldp d2, d3, [x19, #{floats} + 16]",
    "ldp d4, d5, [x19, #{floats} + 32]",
    "ldp d6, d7, [x19, #{floats} + 48]",
    "ldr x9, [x19, #{function}]",
    "ldp x0, x1, [x19]",
    "ldp x2, x3, [x19, #16]",
    "ldp x4, x5, [x19, #32]",
    "ldp x6, x7, [x19, #48]",
    "blr x9",
    "str x0, [x19, #{integer_result}]",
    "str d0, [x19, #{float_result}]",
    "mov sp, x29",
    "ldr x19, [sp, #16]",
    "ldp x29, x30, [sp], #32",
    "ret",
    ".size farcall_call_typed, . - farcall_call_typed",
    ".popsection",
    floats = const std::mem::offset_of!(Frame, floats),
    function = const std::mem::offset_of!(Frame, function),
    stack_words = const std::mem::offset_of!(Frame, stack_words),
    integer_result = const std::mem::offset_of!(Frame, integer_result),
    float_result = const std::mem::offset_of!(Frame, float_result),
    stack = const std::mem::offset_of!(Frame, stack),
);
