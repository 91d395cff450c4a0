//! The System V calling convention of x86-64: which register or stack slot holds an argument.
//!
//! The first six integers and pointers are in registers, as are the first eight floating-point numbers. The others
//! lie on the stack in the order of the arguments, eight bytes each, the first at the lowest address, which is a
//! multiple of 16. `%al` holds the number of vector registers used, for variadic functions.
//!
//! Invariant: only this file knows the registers of this processor; `entry::typed` decides which arguments go to
//! registers.
#![allow(unsafe_code, reason = "loads registers of arguments, so it is in assembler")]

use super::Frame;

/// The number of registers for integers and pointers.
pub(crate) const INTEGERS: usize = 6;
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
    "push rbp",
    "mov rbp, rsp",
    "push rbx",
    "sub rsp, 8",
    "mov rbx, rdi",
    "mov rcx, qword ptr [rbx + {stack_words}]",
    "test rcx, rcx",
    "jz 2f",
    "lea rax, [8*rcx + 8]",
    "and rax, -16",
    "sub rsp, rax",
    "lea rsi, [rbx + {stack}]",
    "mov rdi, rsp",
    "cld",
    "rep movsq",
    "2:",
    "mov rax, qword ptr [rbx + {floats_used}]",
    "test eax, eax",
    "jz 3f",
    "movsd xmm0, qword ptr [rbx + {floats}]",
    "movsd xmm1, qword ptr [rbx + {floats} + 8]",
    "movsd xmm2, qword ptr [rbx + {floats} + 16]",
    "movsd xmm3, qword ptr [rbx + {floats} + 24]",
    "movsd xmm4, qword ptr [rbx + {floats} + 32]",
    "movsd xmm5, qword ptr [rbx + {floats} + 40]",
    "movsd xmm6, qword ptr [rbx + {floats} + 48]",
    "movsd xmm7, qword ptr [rbx + {floats} + 56]",
    "3:",
    "mov rdi, qword ptr [rbx]",
    "mov rsi, qword ptr [rbx + 8]",
    "mov rdx, qword ptr [rbx + 16]",
    "mov rcx, qword ptr [rbx + 24]",
    "mov r8, qword ptr [rbx + 32]",
    "mov r9, qword ptr [rbx + 40]",
    "call qword ptr [rbx + {function}]",
    "mov qword ptr [rbx + {integer_result}], rax",
    "movsd qword ptr [rbx + {float_result}], xmm0",
    "lea rsp, [rbp - 8]",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size farcall_call_typed, . - farcall_call_typed",
    ".popsection",
    floats = const std::mem::offset_of!(Frame, floats),
    function = const std::mem::offset_of!(Frame, function),
    floats_used = const std::mem::offset_of!(Frame, floats_used),
    stack_words = const std::mem::offset_of!(Frame, stack_words),
    integer_result = const std::mem::offset_of!(Frame, integer_result),
    float_result = const std::mem::offset_of!(Frame, float_result),
    stack = const std::mem::offset_of!(Frame, stack),
);
