//! The vector registers, saved around calls that the caller does not know of.
//!
//! 128 bits of each are saved, which every processor has. Callers of thread-locals' descriptors expect no more. A lazy function cannot take
//! vectors of SVE.

/// There is nothing to ask: every processor has the registers that are saved.
pub(crate) fn prepare() {}

/// Assembler lines that save the registers below the stack pointer and move the stack pointer there.
macro_rules! save {
    () => {
        concat!(
            "sub sp, sp, #512\n",
            "stp q0, q1, [sp, #0]\n",
            "stp q2, q3, [sp, #32]\n",
            "stp q4, q5, [sp, #64]\n",
            "stp q6, q7, [sp, #96]\n",
            "stp q8, q9, [sp, #128]\n",
            "stp q10, q11, [sp, #160]\n",
            "stp q12, q13, [sp, #192]\n",
            "stp q14, q15, [sp, #224]\n",
            "stp q16, q17, [sp, #256]\n",
            "stp q18, q19, [sp, #288]\n",
            "stp q20, q21, [sp, #320]\n",
            "stp q22, q23, [sp, #352]\n",
            "stp q24, q25, [sp, #384]\n",
            "stp q26, q27, [sp, #416]\n",
            "stp q28, q29, [sp, #448]\n",
            "stp q30, q31, [sp, #480]",
        )
    };
}

/// Assembler lines that restore the registers that [`save`] saved at the stack pointer, and move the stack pointer back.
macro_rules! restore {
    () => {
        concat!(
            "ldp q0, q1, [sp, #0]\n",
            "ldp q2, q3, [sp, #32]\n",
            "ldp q4, q5, [sp, #64]\n",
            "ldp q6, q7, [sp, #96]\n",
            "ldp q8, q9, [sp, #128]\n",
            "ldp q10, q11, [sp, #160]\n",
            "ldp q12, q13, [sp, #192]\n",
            "ldp q14, q15, [sp, #224]\n",
            "ldp q16, q17, [sp, #256]\n",
            "ldp q18, q19, [sp, #288]\n",
            "ldp q20, q21, [sp, #320]\n",
            "ldp q22, q23, [sp, #352]\n",
            "ldp q24, q25, [sp, #384]\n",
            "ldp q26, q27, [sp, #416]\n",
            "ldp q28, q29, [sp, #448]\n",
            "ldp q30, q31, [sp, #480]\n",
            "add sp, sp, #512",
        )
    };
}

pub(crate) use {restore, save};
