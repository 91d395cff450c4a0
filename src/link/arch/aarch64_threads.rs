//! The code by which AArch64 compilers reach thread-locals, and what it becomes.
//!
//! The thread pointer is `tpidr_el0`. A thread's copy of a link's TLS block is at a constant *offset* from it, in static space.
//! Compilers emit *descriptors* with `-fPIC`. Otherwise they emit *initial exec*, which loads the offset from the GOT, or *local exec*,
//! the offset itself. Code with descriptors is rewritten where the offset `x` is constant:
//!
//! | code | becomes |
//! |---|---|
//! | `adrp x0, :tlsdesc:v` | `movz x0, #:hi16:x, lsl #16` |
//! | `ldr x1, [x0, #:tlsdesc_lo12:v]` | `movk x0, #:lo16:x` |
//! | `add x0, x0, #:tlsdesc_lo12:v` | `nop` |
//! | `blr x1` | `nop` |
//!
//! For a dynamic thread-local the code stays, and gets the address of a descriptor in the GOT (see `place::got_plt`).
//!
//! Invariant: each instruction is rewritten alone, and its registers were checked when the object was read.

use super::aarch64::{self, NOP};
use super::edge::{Edge, Formula, ThreadModel};

/// `movz x0, #0, lsl #16` and `movk x0, #0`.
const UPPER: u32 = 0xd2a0_0000;
const LOWER: u32 = 0xf280_0000;

const UNKNOWN_CODE: &str = "the instruction is not the one that the processor supplement prescribes, with x0 \
     and no addend, so that it cannot be rewritten; compile with -ftls-model=initial-exec";

/// Checks the relocations of one section that refer to thread-locals. `code` is empty for a section that is not executable.
///
/// # Errors
/// The instruction of a relocation is not what the processor supplement prescribes for it.
pub(super) fn accept(code: &[u8], edges: Vec<Edge>) -> Result<Vec<Edge>, (Edge, &'static str)> {
    let is_descriptor = |edge: &&Edge| {
        let Formula::Thread(model) = edge.kind.formula else { return false };
        matches!(model, ThreadModel::Descriptor | ThreadModel::DescriptorCall)
    };
    let is_known = |edge: &Edge| {
        let bytes = code.get(edge.offset as usize..).and_then(|code| code.first_chunk());
        let wanted = |(mask, wanted): (u32, u32)| {
            bytes.is_some_and(|bytes| u32::from_le_bytes(*bytes) & mask == wanted)
        };
        edge.addend == 0 && prescribed(edge.kind.number).is_some_and(wanted)
    };
    match edges.iter().filter(is_descriptor).find(|edge| !is_known(edge)) {
        Some(edge) => Err((*edge, UNKNOWN_CODE)),
        None => Ok(edges),
    }
}

/// The bits of the instruction of a relocation without its operand: which are fixed, and how.
fn prescribed(number: u32) -> Option<(u32, u32)> {
    Some(match number {
        aarch64::TLSDESC_ADR_PAGE21 => (0x9f00_001f, 0x9000_0000),
        // Any register may get the function that is called.
        aarch64::TLSDESC_LD64_LO12 => (0xffc0_03e0, 0xf940_0000),
        aarch64::TLSDESC_ADD_LO12 => (0xffc0_03ff, 0x9100_0000),
        aarch64::TLSDESC_CALL => (0xffff_fc1f, 0xd63f_0000),
        _ => return None,
    })
}

/// Rewrites the instruction of a relocation of a descriptor, which `code` starts with, to make its part of the offset. Returns
/// whether the offset fits: 32 bits, and not negative.
pub(crate) fn rewrite(code: &mut [u8], number: u32, offset: u64) -> bool {
    let Ok(offset) = u32::try_from(offset) else { return false };
    let new = match number {
        aarch64::TLSDESC_ADR_PAGE21 => (UPPER | offset >> 16 << 5).to_le_bytes(),
        aarch64::TLSDESC_LD64_LO12 => (LOWER | (offset & 0xffff) << 5).to_le_bytes(),
        _ => NOP,
    };
    code[..new.len()].copy_from_slice(&new);
    true
}
