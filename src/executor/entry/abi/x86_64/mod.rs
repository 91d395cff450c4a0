//! Loads the registers and the stack of x86-64 for a call, by the System V calling convention.
//!
//! The stack words lie behind each other, the first at the lowest address, which is a multiple of 16. `%al` holds the number of
//! vector registers used, for variadic functions. `types::abi` decides what goes where.
#![allow(unsafe_code, reason = "loads registers of arguments, so it is in assembler")]

#[cfg(test)]
pub(crate) mod called;
pub(crate) mod processor_state;
pub(crate) mod stubs;

use super::Frame;

impl Frame {
    /// Tells the function where to store a result that registers cannot hold: by its first argument.
    pub(crate) fn set_result_memory(&mut self, memory: *mut u128) {
        self.integers[0] = memory.expose_provenance() as u64;
    }
}

/// Asks the processor what it has, once: in a virtual machine the answer takes long.
pub(crate) fn prepare() {
    processor_state::prepare();
}

// As `farcall_enter`, these functions have no unwind information, so unwinders stop here.
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
    "mov rsi, qword ptr [rbx + {stack}]",
    "mov rdi, rsp",
    "cld",
    "rep movsq",
    "2:",
    "mov rax, qword ptr [rbx + {floats_used}]",
    "test eax, eax",
    "jz 3f",
    "movups xmm0, xmmword ptr [rbx + {floats}]",
    "movups xmm1, xmmword ptr [rbx + {floats} + 16]",
    "movups xmm2, xmmword ptr [rbx + {floats} + 32]",
    "movups xmm3, xmmword ptr [rbx + {floats} + 48]",
    "movups xmm4, xmmword ptr [rbx + {floats} + 64]",
    "movups xmm5, xmmword ptr [rbx + {floats} + 80]",
    "movups xmm6, xmmword ptr [rbx + {floats} + 96]",
    "movups xmm7, xmmword ptr [rbx + {floats} + 112]",
    "3:",
    "mov rdi, qword ptr [rbx]",
    "mov rsi, qword ptr [rbx + 8]",
    "mov rdx, qword ptr [rbx + 16]",
    "mov rcx, qword ptr [rbx + 24]",
    "mov r8, qword ptr [rbx + 32]",
    "mov r9, qword ptr [rbx + 40]",
    "call qword ptr [rbx + {function}]",
    "mov qword ptr [rbx + {results}], rax",
    "mov qword ptr [rbx + {results} + 8], rdx",
    "movups xmmword ptr [rbx + {results} + 16], xmm0",
    "movups xmmword ptr [rbx + {results} + 32], xmm1",
    "lea rsp, [rbp - 8]",
    "pop rbx",
    "pop rbp",
    "ret",
    ".size farcall_call_typed, . - farcall_call_typed",
    ".globl farcall_call_registers",
    ".hidden farcall_call_registers",
    ".type farcall_call_registers,@function",
    ".balign 16",
    "farcall_call_registers:",
    "sub rsp, 8",
    "mov r11, rdi",
    "mov r10, rsi",
    "movzx eax, dl",
    "movzx ecx, dh",
    "mov dword ptr [rsp], ecx",
    "test ecx, ecx",
    "jz 2f",
    "lea r8, [r10 + 8*rax]",
    "movq xmm0, qword ptr [r8]",
    "cmp ecx, 2",
    "jb 2f",
    "movq xmm1, qword ptr [r8 + 8]",
    "je 2f",
    "movq xmm2, qword ptr [r8 + 16]",
    "cmp ecx, 4",
    "jb 2f",
    "movq xmm3, qword ptr [r8 + 24]",
    "je 2f",
    "movq xmm4, qword ptr [r8 + 32]",
    "cmp ecx, 6",
    "jb 2f",
    "movq xmm5, qword ptr [r8 + 40]",
    "je 2f",
    "movq xmm6, qword ptr [r8 + 48]",
    "cmp ecx, 8",
    "jb 2f",
    "movq xmm7, qword ptr [r8 + 56]",
    "2:",
    "test eax, eax",
    "jz 3f",
    "mov rdi, qword ptr [r10]",
    "cmp eax, 2",
    "jb 3f",
    "mov rsi, qword ptr [r10 + 8]",
    "je 3f",
    "mov rdx, qword ptr [r10 + 16]",
    "cmp eax, 4",
    "jb 3f",
    "mov rcx, qword ptr [r10 + 24]",
    "je 3f",
    "mov r8, qword ptr [r10 + 32]",
    "cmp eax, 6",
    "jb 3f",
    "mov r9, qword ptr [r10 + 40]",
    "3:",
    "mov eax, dword ptr [rsp]",
    "call r11",
    "movq rdx, xmm0",
    "add rsp, 8",
    "ret",
    ".size farcall_call_registers, . - farcall_call_registers",
    ".popsection",
    floats = const std::mem::offset_of!(Frame, floats),
    function = const std::mem::offset_of!(Frame, function),
    floats_used = const std::mem::offset_of!(Frame, floats_used),
    stack_words = const std::mem::offset_of!(Frame, stack_words),
    results = const std::mem::offset_of!(Frame, results),
    stack = const std::mem::offset_of!(Frame, stack),
);
