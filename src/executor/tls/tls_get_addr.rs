//! The entry points by which linked code asks for a dynamic thread-local: the function that it calls, and the
//! function in TLS descriptors.
//!
//! Both are short if the thread has its block: they load the address of the thread's DTV, which has one distance from
//! the thread pointer in all threads, and from it the address of the block. Otherwise they call `dynamic::find`.
//!
//! The descriptor's function may change one register only, so the long way saves all others, vector registers
//! included. Some compilers align the stack for neither function, so the long way aligns it.
//!
//! Invariant: neither function is called before the first TLS module is registered.
#![allow(unsafe_code, reason = "the functions are called by code only, so they are in assembler")]

use crate::ExecutorAddr;

#[cfg(target_arch = "x86_64")]
use {
    super::dynamic::{self, DTV_DISTANCE, ENTRIES_OFFSET},
    crate::call::contract::{THREAD_ADDRESS, THREAD_DESCRIPTOR},
    crate::executor::entry::abi::processor_state,
};

/// The names and addresses of the functions.
#[cfg(target_arch = "x86_64")]
pub(crate) fn functions() -> Vec<(String, ExecutorAddr)> {
    let address = |function: *const ()| ExecutorAddr::new(function as u64);
    vec![
        (THREAD_ADDRESS.to_owned(), address(farcall_thread_address as *const ())),
        (THREAD_DESCRIPTOR.to_owned(), address(farcall_thread_descriptor as *const ())),
    ]
}

/// None: the linker supports x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn functions() -> Vec<(String, ExecutorAddr)> {
    Vec::new()
}

#[cfg(target_arch = "x86_64")]
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
    processor_state::save!(),
    "call {find}",
    "mov rbx, rax",
    processor_state::restore!(),
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
    distance = sym DTV_DISTANCE,
    mask = sym processor_state::MASK,
    bytes = sym processor_state::BYTES,
    entries = const ENTRIES_OFFSET,
    find = sym dynamic::find,
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    /// `__tls_get_addr`: takes the address of a module number and an offset, and returns an address.
    safe fn farcall_thread_address();
    /// See [`THREAD_DESCRIPTOR`].
    safe fn farcall_thread_descriptor();
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::AddrRange;
    use crate::call::contract::{ThreadBlockDeregister, ThreadBlockRegister};
    use crate::executor::entry::wrapper::Serve;
    use crate::sys::process::thread;

    /// The vector registers, and the general ones except stack pointer, frame pointer and result.
    #[repr(C, align(32))]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Registers {
        vectors: [[u64; 4]; 16],
        general: [u64; 13],
    }

    /// Calls a descriptor's function with these registers and a misaligned stack; returns the result, and the
    /// registers afterwards.
    fn call(descriptor: &[u64; 3], registers: &Registers) -> (u64, Registers) {
        let mut after = Registers { vectors: [[0; 4]; 16], general: [0; 13] };
        let result: u64;
        // SAFETY: the code restores every register that it must preserve, and the function changes one register.
        unsafe {
            std::arch::asm!(
                "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
                "push {after}", "push {from}",
                "mov rbp, rsp",
                "and rsp, -16",
                "sub rsp, 8",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqa ymm\\n, [{from} + 32*\\n]",
                ".endr",
                "mov rax, {descriptor}",
                "mov r15, {from}",
                "mov rbx, [r15 + 512]", "mov rcx, [r15 + 520]", "mov rdx, [r15 + 528]", "mov rsi, [r15 + 536]",
                "mov rdi, [r15 + 544]", "mov r8, [r15 + 552]", "mov r9, [r15 + 560]", "mov r10, [r15 + 568]",
                "mov r11, [r15 + 576]", "mov r12, [r15 + 584]", "mov r13, [r15 + 592]", "mov r14, [r15 + 600]",
                "mov r15, [r15 + 608]",
                "call [rax]",
                "xchg r15, [rbp + 8]",
                "mov [r15 + 512], rbx", "mov [r15 + 520], rcx", "mov [r15 + 528], rdx", "mov [r15 + 536], rsi",
                "mov [r15 + 544], rdi", "mov [r15 + 552], r8", "mov [r15 + 560], r9", "mov [r15 + 568], r10",
                "mov [r15 + 576], r11", "mov [r15 + 584], r12", "mov [r15 + 592], r13", "mov [r15 + 600], r14",
                "mov rcx, [rbp + 8]",
                "mov [r15 + 608], rcx",
                ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
                "vmovdqa [r15 + 32*\\n], ymm\\n",
                ".endr",
                "mov rsp, rbp",
                "add rsp, 16",
                "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
                descriptor = in(reg) descriptor,
                from = in(reg) registers,
                after = in(reg) &raw mut after,
                out("rax") result,
                clobber_abi("C"),
            );
        }
        (result, after)
    }

    #[test]
    fn descriptors_leave_all_registers_but_one_alone() {
        assert!(std::is_x86_feature_detected!("avx"), "a processor of this century");
        let values = [7_u64, 8, 9];
        let start = ExecutorAddr::new(values.as_ptr() as u64);
        let initial = AddrRange::sized(start, 24).expect("short");
        ThreadBlockRegister::serve((300, initial, 5000)).expect("free");
        let word = |index: usize| 0x0101_0101_0101_0101_u64.wrapping_mul(index as u64 + 1);
        let registers = Registers {
            vectors: std::array::from_fn(|n| std::array::from_fn(|i| word(4 * n + i))),
            general: std::array::from_fn(|n| word(100 + n)),
        };
        let function = farcall_thread_descriptor as *const () as u64;
        let first = function_result(&[300, 8]);
        std::thread::spawn(move || {
            // The first time on the long way, the second time on the short one.
            for _ in 0..2 {
                let (distance, after) = call(&[function, 300, 16], &registers);
                assert_eq!(after, registers);
                assert_eq!(thread::word_at(thread::pointer().wrapping_add(distance)), Some(9));
                let (next, _) = call(&[function, 300, 8], &registers);
                assert_eq!(next, distance.wrapping_sub(8));
                let own = function_result(&[300, 8]);
                assert_eq!(own, thread::pointer().wrapping_add(next));
                assert_ne!(own, first);
            }
        })
        .join()
        .expect("no panic");
        assert_eq!((thread::word_at(first), function_result(&[300, 8])), (Some(8), first));
        ThreadBlockDeregister::serve((300,)).expect("forgotten");
    }

    /// The result of the called function for two words.
    fn function_result(words: &[u64; 2]) -> u64 {
        type Function = unsafe extern "C" fn(*const [u64; 2]) -> u64;
        // SAFETY: that is the form of the function.
        let function: Function =
            unsafe { std::mem::transmute(farcall_thread_address as *const ()) };
        // SAFETY: there are two words.
        unsafe { function(words) }
    }
}
