//! For tests: the registers that a function leaves alone.
#![allow(unsafe_code, reason = "loads registers, so it is in assembler")]

/// The vector registers, and the general ones except stack pointer, frame pointer and result.
#[repr(C, align(32))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    vectors: [[u64; 4]; 16],
    general: [u64; 13],
}

impl Registers {
    /// Every word is what the function returns for its number.
    pub(crate) fn of(word: impl Fn(usize) -> u64) -> Self {
        Self {
            vectors: std::array::from_fn(|n| std::array::from_fn(|i| word(4 * n + i))),
            general: std::array::from_fn(|n| word(100 + n)),
        }
    }

    /// Calls a descriptor's function with these registers and a misaligned stack; returns the result, and the
    /// registers afterwards.
    pub(crate) fn around(&self, descriptor: &[u64; 3]) -> (u64, Registers) {
        assert!(std::is_x86_feature_detected!("avx"), "a processor of this century");
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
                from = in(reg) self,
                after = in(reg) &raw mut after,
                out("rax") result,
                clobber_abi("C"),
            );
        }
        (result, after)
    }
}
