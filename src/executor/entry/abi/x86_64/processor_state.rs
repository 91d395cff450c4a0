//! The processor's extended state (vector and floating-point registers), saved around calls that the caller does not
//! know of.
//!
//! Its size differs between processors and is determined once.
//!
//! Invariant: nothing is saved before [`prepare`].

use crate::sync::{AtomicU64, Ordering};
use crate::sys::processor::native;

/// The components to save, as a mask for `xsave`; 0 for a processor without `xsave`, where `fxsave` is used.
pub(crate) static MASK: AtomicU64 = AtomicU64::new(0);
/// The size of the saved state in bytes.
pub(crate) static BYTES: AtomicU64 = AtomicU64::new(0);

/// Determines the components and their size. Further calls change nothing.
pub(crate) fn prepare() {
    if BYTES.load(Ordering::Acquire) != 0 {
        return;
    }
    let (mask, bytes) = native::extended_state();
    MASK.store(mask, Ordering::Release);
    BYTES.store(bytes, Ordering::Release);
}

/// Assembler lines that save the state below the stack pointer and move the stack pointer there. They use `rax`,
/// `rcx`, `rdx`, the labels 90 and 91, and the operands `mask` and `bytes`, which are [`MASK`] and [`BYTES`].
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
            // The state's header must be zero.
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

/// Assembler lines that restore the state that [`save`] saved at the stack pointer. They use the same registers and
/// operands, and the labels 92 and 93.
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
        let (mask, bytes) = native::extended_state();
        assert!(
            mask & 0b11 == 0b11 && (576..16 << 10).contains(&bytes),
            "{mask:#x}, {bytes} bytes"
        );
        assert!(mask & 0b100 == 0 || bytes >= 832, "{mask:#x}, {bytes} bytes");
    }
}
