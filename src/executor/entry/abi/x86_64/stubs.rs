//! The functions of this library to which stubs of linked code jump, or which code for thread-locals calls.
//!
//! They are macros: the functions that they call are in other rooms.
#![allow(unsafe_code, reason = "defines functions in assembler")]

/// Defines `call_handler`. The stub has jumped there with the address of its constants in `%r11`. The result is in `%rax`, and its
/// bits in `%xmm0`.
macro_rules! handler_entry {
    ($controller:ident, $registers:ty, $serve:ident) => {
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn call_handler<C: $controller>() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, {bytes}",
                "mov qword ptr [rsp], rdi",
                "mov qword ptr [rsp + 8], rsi",
                "mov qword ptr [rsp + 16], rdx",
                "mov qword ptr [rsp + 24], rcx",
                "mov qword ptr [rsp + 32], r8",
                "mov qword ptr [rsp + 40], r9",
                "movsd qword ptr [rsp + {floats}], xmm0",
                "movsd qword ptr [rsp + {floats} + 8], xmm1",
                "movsd qword ptr [rsp + {floats} + 16], xmm2",
                "movsd qword ptr [rsp + {floats} + 24], xmm3",
                "movsd qword ptr [rsp + {floats} + 32], xmm4",
                "movsd qword ptr [rsp + {floats} + 40], xmm5",
                "movsd qword ptr [rsp + {floats} + 48], xmm6",
                "movsd qword ptr [rsp + {floats} + 56], xmm7",
                "mov rdi, r11",
                "mov rsi, rsp",
                // The first argument on the stack lies behind the saved register and the return address.
                "lea rdx, [rbp + 16]",
                "call {serve}",
                "movq xmm0, rax",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "test rdx, rdx",
                // `interrupt` defines it.
                "jnz farcall_leave",
                "ret",
                ".cfi_endproc",
                bytes = const size_of::<$registers>(),
                floats = const std::mem::offset_of!($registers, floats),
                serve = sym $serve::<C>,
            )
        }
    };
}

/// Defines `farcall_lazy_resolver`. The tag and the trampoline's return address are on the stack.
macro_rules! lazy_resolver {
    ($resolve:ident) => {
        std::arch::global_asm!(
            ".pushsection .text.farcall_lazy,\"ax\",@progbits",
            ".globl farcall_lazy_resolver",
            ".hidden farcall_lazy_resolver",
            ".type farcall_lazy_resolver,@function",
            ".balign 16",
            "farcall_lazy_resolver:",
            "push rbp",
            "mov rbp, rsp",
            "push rax",
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            $crate::executor::entry::abi::native::processor_state::save!(),
            "mov rdi, qword ptr [rbp + 8]",
            "mov rsi, qword ptr [rbp + 16]",
            "call {resolve}",
            // Replaces the trampoline's address, so that `ret` jumps to the function.
            "mov qword ptr [rbp + 16], rax",
            $crate::executor::entry::abi::native::processor_state::restore!(),
            "lea rsp, [rbp - 72]",
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "pop rax",
            "pop rbp",
            "lea rsp, [rsp + 8]",
            "ret",
            ".size farcall_lazy_resolver, . - farcall_lazy_resolver",
            ".popsection",
            mask = sym $crate::executor::entry::abi::native::processor_state::MASK,
            bytes = sym $crate::executor::entry::abi::native::processor_state::BYTES,
            resolve = sym $resolve,
        );
    };
}

/// Defines `farcall_thread_address` and `farcall_thread_descriptor`. The descriptor's address is in `%rax`, as the result is. Some
/// compilers align the stack for neither function, so the long way aligns it.
macro_rules! thread_functions {
    ($distance:path, $entries:path, $find:path) => {
        std::arch::global_asm!(
            ".pushsection .text.farcall_thread,\"ax\",@progbits",
            ".globl farcall_thread_address",
            ".hidden farcall_thread_address",
            ".type farcall_thread_address,@function",
            ".balign 16",
            "farcall_thread_address:",
            "mov rax, qword ptr [rip + {distance}]",
            "mov rcx, qword ptr [rdi]",
            "mov rax, qword ptr fs:[rax]",
            "mov rax, qword ptr [rax + 8*rcx + {entries}]",
            "test rax, rax",
            "jz 2f",
            "add rax, qword ptr [rdi + 8]",
            "ret",
            "2:",
            "push rbp",
            "mov rbp, rsp",
            "and rsp, -16",
            "call {find}",
            "mov rsp, rbp",
            "pop rbp",
            "ret",
            ".size farcall_thread_address, . - farcall_thread_address",
            ".globl farcall_thread_descriptor",
            ".hidden farcall_thread_descriptor",
            ".type farcall_thread_descriptor,@function",
            ".balign 16",
            "farcall_thread_descriptor:",
            "push rcx",
            "push rdx",
            "mov rdx, qword ptr [rip + {distance}]",
            "mov rcx, qword ptr [rax + 8]",
            "mov rdx, qword ptr fs:[rdx]",
            "mov rdx, qword ptr [rdx + 8*rcx + {entries}]",
            "test rdx, rdx",
            "jz 2f",
            "add rdx, qword ptr [rax + 16]",
            "sub rdx, qword ptr fs:[0]",
            "mov rax, rdx",
            "pop rdx",
            "pop rcx",
            "ret",
            "2:",
            "push rbp",
            "mov rbp, rsp",
            "push rbx",
            "push rsi",
            "push rdi",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            "lea rdi, [rax + 8]",
            $crate::executor::entry::abi::native::processor_state::save!(),
            "call {find}",
            "mov rbx, rax",
            $crate::executor::entry::abi::native::processor_state::restore!(),
            "sub rbx, qword ptr fs:[0]",
            "mov rax, rbx",
            "lea rsp, [rbp - 56]",
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rdi",
            "pop rsi",
            "pop rbx",
            "pop rbp",
            "pop rdx",
            "pop rcx",
            "ret",
            ".size farcall_thread_descriptor, . - farcall_thread_descriptor",
            ".popsection",
            distance = sym $distance,
            mask = sym $crate::executor::entry::abi::native::processor_state::MASK,
            bytes = sym $crate::executor::entry::abi::native::processor_state::BYTES,
            entries = const $entries,
            find = sym $find,
        );
    };
}

pub(crate) use {handler_entry, lazy_resolver, thread_functions};
