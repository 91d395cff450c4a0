//! The functions of this library to which stubs of linked code jump, or which code for thread-locals calls.
//!
//! They are macros: the functions that they call are in other rooms.
#![allow(unsafe_code, reason = "defines functions in assembler")]

/// Defines `call_handler`. The stub has jumped there with the address of its constants in `x9`. The result is in `x0`, and its bits
/// in `d0`.
macro_rules! handler_entry {
    ($controller:ident, $registers:ty, $serve:ident) => {
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn call_handler<C: $controller>() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-16]!",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset w29, -16",
                ".cfi_offset w30, -8",
                "mov x29, sp",
                ".cfi_def_cfa w29, 16",
                "sub sp, sp, #{bytes}",
                "stp x0, x1, [sp]",
                "stp x2, x3, [sp, #16]",
                "stp x4, x5, [sp, #32]",
                "stp x6, x7, [sp, #48]",
                "stp d0, d1, [sp, #{floats}]",
                "stp d2, d3, [sp, #{floats} + 16]",
                "stp d4, d5, [sp, #{floats} + 32]",
                "stp d6, d7, [sp, #{floats} + 48]",
                "mov x0, x9",
                "mov x1, sp",
                // The first argument on the stack lies behind the frame record, whose last word is the return address.
                "add x2, x29, #16",
                "bl {serve}",
                "fmov d0, x0",
                "mov sp, x29",
                ".cfi_def_cfa sp, 16",
                "ldp x29, x30, [sp], #16",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore w29",
                ".cfi_restore w30",
                "ret",
                ".cfi_endproc",
                bytes = const size_of::<$registers>(),
                floats = const std::mem::offset_of!($registers, floats),
                serve = sym $serve::<C>,
            )
        }
    };
}

/// Defines `farcall_lazy_resolver`. The tag is in `x16`, and the trampoline's return address in `x17`.
macro_rules! lazy_resolver {
    ($resolve:ident) => {
        std::arch::global_asm!(
            ".pushsection .text.farcall_lazy,\"ax\",@progbits",
            ".globl farcall_lazy_resolver",
            ".hidden farcall_lazy_resolver",
            ".type farcall_lazy_resolver,@function",
            ".balign 16",
            "farcall_lazy_resolver:",
            "bti c",
            "stp x29, x30, [sp, #-16]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #-16]!",
            "stp x2, x3, [sp, #-16]!",
            "stp x4, x5, [sp, #-16]!",
            "stp x6, x7, [sp, #-16]!",
            "stp x8, x15, [sp, #-16]!",
            $crate::executor::entry::abi::native::processor_state::save!(),
            "mov x0, x16",
            "mov x1, x17",
            "bl {resolve}",
            "mov x16, x0",
            $crate::executor::entry::abi::native::processor_state::restore!(),
            "ldp x8, x15, [sp], #16",
            "ldp x6, x7, [sp], #16",
            "ldp x4, x5, [sp], #16",
            "ldp x2, x3, [sp], #16",
            "ldp x0, x1, [sp], #16",
            "ldp x29, x30, [sp], #16",
            "br x16",
            ".size farcall_lazy_resolver, . - farcall_lazy_resolver",
            ".popsection",
            resolve = sym $resolve,
        );
    };
}

/// Defines `farcall_thread_address` and `farcall_thread_descriptor`. The descriptor's address is in `x0`, as the result is.
macro_rules! thread_functions {
    ($distance:path, $entries:path, $find:path) => {
        std::arch::global_asm!(
            ".pushsection .text.farcall_thread,\"ax\",@progbits",
            ".globl farcall_thread_address",
            ".hidden farcall_thread_address",
            ".type farcall_thread_address,@function",
            ".balign 16",
            "farcall_thread_address:",
            "bti c",
            "adrp x9, {distance}",
            "ldr x9, [x9, :lo12:{distance}]",
            "mrs x10, tpidr_el0",
            "ldr x10, [x10, x9]",
            "ldp x11, x12, [x0]",
            "add x10, x10, x11, lsl #3",
            "ldr x10, [x10, #{entries}]",
            "cbz x10, 2f",
            "add x0, x10, x12",
            "ret",
            "2: stp x29, x30, [sp, #-16]!",
            "mov x29, sp",
            "bl {find}",
            "ldp x29, x30, [sp], #16",
            "ret",
            ".size farcall_thread_address, . - farcall_thread_address",
            ".globl farcall_thread_descriptor",
            ".hidden farcall_thread_descriptor",
            ".type farcall_thread_descriptor,@function",
            ".balign 16",
            "farcall_thread_descriptor:",
            "bti c",
            "stp x1, x2, [sp, #-32]!",
            "str x3, [sp, #16]",
            "adrp x1, {distance}",
            "ldr x1, [x1, :lo12:{distance}]",
            "mrs x2, tpidr_el0",
            "ldr x1, [x2, x1]",
            "ldr x3, [x0, #8]",
            "add x1, x1, x3, lsl #3",
            "ldr x1, [x1, #{entries}]",
            "cbz x1, 2f",
            "ldr x3, [x0, #16]",
            "add x1, x1, x3",
            "sub x0, x1, x2",
            "3: ldr x3, [sp, #16]",
            "ldp x1, x2, [sp], #32",
            "ret",
            "2: stp x29, x30, [sp, #-16]!",
            "mov x29, sp",
            "stp x4, x5, [sp, #-16]!",
            "stp x6, x7, [sp, #-16]!",
            "stp x8, x9, [sp, #-16]!",
            "stp x10, x11, [sp, #-16]!",
            "stp x12, x13, [sp, #-16]!",
            "stp x14, x15, [sp, #-16]!",
            "stp x16, x17, [sp, #-16]!",
            "str x18, [sp, #-16]!",
            $crate::executor::entry::abi::native::processor_state::save!(),
            "add x0, x0, #8",
            "bl {find}",
            "mrs x1, tpidr_el0",
            "sub x0, x0, x1",
            $crate::executor::entry::abi::native::processor_state::restore!(),
            "ldr x18, [sp], #16",
            "ldp x16, x17, [sp], #16",
            "ldp x14, x15, [sp], #16",
            "ldp x12, x13, [sp], #16",
            "ldp x10, x11, [sp], #16",
            "ldp x8, x9, [sp], #16",
            "ldp x6, x7, [sp], #16",
            "ldp x4, x5, [sp], #16",
            "ldp x29, x30, [sp], #16",
            "b 3b",
            ".size farcall_thread_descriptor, . - farcall_thread_descriptor",
            ".popsection",
            distance = sym $distance,
            entries = const $entries,
            find = sym $find,
        );
    };
}

pub(crate) use {handler_entry, lazy_resolver, thread_functions};
