//! The processor's state beyond the general registers, saved around code that its caller knows nothing of.
//!
//! Vectors, and what else arguments may be in: how much of it there is differs between processors, and is found out once.
//!
//! Invariant: nothing is saved before [`prepare`].

use crate::sync::{AtomicU64, Ordering};
use crate::sys::cpu;

/// What of the state is saved: none for a processor that has one form of it only.
pub(crate) static MASK: AtomicU64 = AtomicU64::new(0);
/// How many bytes that takes.
pub(crate) static BYTES: AtomicU64 = AtomicU64::new(0);

/// Finds out what is to be saved. The second time nothing changes.
pub(crate) fn prepare() {
    let (mask, bytes) = cpu::extended_state();
    MASK.store(mask, Ordering::Release);
    BYTES.store(bytes, Ordering::Release);
}

/// Lines of assembler that save the state below the stack pointer, which is moved there. They use `rax`, `rcx` and `rdx`, the
/// labels 90 and 91, and the operands `mask` and `bytes`, which are [`MASK`] and [`BYTES`].
macro_rules! save {
    () => {
        concat!(
            "sub rsp, qword ptr [rip + {bytes}]\n",
            "and rsp, -64\n",
            "mov eax, dword ptr [rip + {mask}]\n",
            "mov edx, dword ptr [rip + {mask} + 4]\n",
            "mov rcx, rax\n",
            "or rcx, rdx\n",
            "jz 90f\n",
            // The header of the area has to be zero.
            "xor ecx, ecx\n",
            "mov qword ptr [rsp + 512], rcx\n",
            "mov qword ptr [rsp + 520], rcx\n",
            "mov qword ptr [rsp + 528], rcx\n",
            "mov qword ptr [rsp + 536], rcx\n",
            "mov qword ptr [rsp + 544], rcx\n",
            "mov qword ptr [rsp + 552], rcx\n",
            "mov qword ptr [rsp + 560], rcx\n",
            "mov qword ptr [rsp + 568], rcx\n",
            "xsave64 [rsp]\n",
            "jmp 91f\n",
            "90:\n",
            "fxsave64 [rsp]\n",
            "91:",
        )
    };
}

/// Lines of assembler that restore what [`save`] has saved at the stack pointer. They use the same, and the labels 92 and 93.
macro_rules! restore {
    () => {
        concat!(
            "mov eax, dword ptr [rip + {mask}]\n",
            "mov edx, dword ptr [rip + {mask} + 4]\n",
            "mov rcx, rax\n",
            "or rcx, rdx\n",
            "jz 92f\n",
            "xrstor64 [rsp]\n",
            "jmp 93f\n",
            "92:\n",
            "fxrstor64 [rsp]\n",
            "93:",
        )
    };
}

pub(crate) use {restore, save};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_the_processor_fits_what_is_reserved_for_it() {
        let (mask, bytes) = cpu::extended_state();
        assert!(
            mask & 0b11 == 0b11 && (576..16 << 10).contains(&bytes),
            "{mask:#x}, {bytes} bytes"
        );
        assert!(mask & 0b100 == 0 || bytes >= 832, "{mask:#x}, {bytes} bytes");
    }
}
