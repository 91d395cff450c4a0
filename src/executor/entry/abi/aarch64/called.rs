//! For tests: the registers that a function leaves alone.
#![allow(unsafe_code, reason = "loads registers, so it is in assembler")]

/// The vector registers; and of the general ones `x2` to `x17`, and `x19` to `x28`.
#[repr(C, align(16))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registers {
    vectors: [[u64; 2]; 32],
    general: [u64; 26],
}

impl Registers {
    /// Every word is what the function returns for its number.
    pub(crate) fn of(word: impl Fn(usize) -> u64) -> Self {
        Self {
            vectors: std::array::from_fn(|n| std::array::from_fn(|i| word(2 * n + i))),
            general: std::array::from_fn(|n| word(100 + n)),
        }
    }

    /// Calls a descriptor's function with these registers; returns the result, and the registers afterwards.
    pub(crate) fn around(&self, descriptor: &[u64; 3]) -> (u64, Registers) {
        let mut after = Registers { vectors: [[0; 2]; 32], general: [0; 26] };
        // SAFETY: the descriptor starts with a function that takes its address.
        let result = unsafe { call(descriptor, self, &mut after) };
        (result, after)
    }
}

/// Calls the first function of a descriptor with these registers, and stores those afterwards.
#[unsafe(naked)]
unsafe extern "C" fn call(descriptor: &[u64; 3], from: &Registers, after: &mut Registers) -> u64 {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-176]!",
        "mov x29, sp",
        "stp x19, x20, [sp, #16]",
        "stp x21, x22, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x25, x26, [sp, #64]",
        "stp x27, x28, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "str x2, [sp, #160]",
        "mov x30, x1",
        "ldp q0, q1, [x30, #0]",
        "ldp q2, q3, [x30, #32]",
        "ldp q4, q5, [x30, #64]",
        "ldp q6, q7, [x30, #96]",
        "ldp q8, q9, [x30, #128]",
        "ldp q10, q11, [x30, #160]",
        "ldp q12, q13, [x30, #192]",
        "ldp q14, q15, [x30, #224]",
        "ldp q16, q17, [x30, #256]",
        "ldp q18, q19, [x30, #288]",
        "ldp q20, q21, [x30, #320]",
        "ldp q22, q23, [x30, #352]",
        "ldp q24, q25, [x30, #384]",
        "ldp q26, q27, [x30, #416]",
        "ldp q28, q29, [x30, #448]",
        "ldp q30, q31, [x30, #480]",
        "add x30, x30, #512",
        "ldp x2, x3, [x30, #0]",
        "ldp x4, x5, [x30, #16]",
        "ldp x6, x7, [x30, #32]",
        "ldp x8, x9, [x30, #48]",
        "ldp x10, x11, [x30, #64]",
        "ldp x12, x13, [x30, #80]",
        "ldp x14, x15, [x30, #96]",
        "ldp x16, x17, [x30, #112]",
        "ldp x19, x20, [x30, #128]",
        "ldp x21, x22, [x30, #144]",
        "ldp x23, x24, [x30, #160]",
        "ldp x25, x26, [x30, #176]",
        "ldp x27, x28, [x30, #192]",
        "ldr x1, [x0]",
        "blr x1",
        "ldr x30, [sp, #160]",
        "stp q0, q1, [x30, #0]",
        "stp q2, q3, [x30, #32]",
        "stp q4, q5, [x30, #64]",
        "stp q6, q7, [x30, #96]",
        "stp q8, q9, [x30, #128]",
        "stp q10, q11, [x30, #160]",
        "stp q12, q13, [x30, #192]",
        "stp q14, q15, [x30, #224]",
        "stp q16, q17, [x30, #256]",
        "stp q18, q19, [x30, #288]",
        "stp q20, q21, [x30, #320]",
        "stp q22, q23, [x30, #352]",
        "stp q24, q25, [x30, #384]",
        "stp q26, q27, [x30, #416]",
        "stp q28, q29, [x30, #448]",
        "stp q30, q31, [x30, #480]",
        "add x30, x30, #512",
        "stp x2, x3, [x30, #0]",
        "stp x4, x5, [x30, #16]",
        "stp x6, x7, [x30, #32]",
        "stp x8, x9, [x30, #48]",
        "stp x10, x11, [x30, #64]",
        "stp x12, x13, [x30, #80]",
        "stp x14, x15, [x30, #96]",
        "stp x16, x17, [x30, #112]",
        "stp x19, x20, [x30, #128]",
        "stp x21, x22, [x30, #144]",
        "stp x23, x24, [x30, #160]",
        "stp x25, x26, [x30, #176]",
        "stp x27, x28, [x30, #192]",
        "ldp x19, x20, [sp, #16]",
        "ldp x21, x22, [sp, #32]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #64]",
        "ldp x27, x28, [sp, #80]",
        "ldp d8, d9, [sp, #96]",
        "ldp d10, d11, [sp, #112]",
        "ldp d12, d13, [sp, #128]",
        "ldp d14, d15, [sp, #144]",
        "ldp x29, x30, [sp], #176",
        "ret",
    )
}
