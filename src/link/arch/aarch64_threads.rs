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
//! With `-mtls-dialect=trad` gcc emits a call of `__tls_get_addr` instead, always as these four instructions in a row. They are
//! rewritten as a whole, and the first of their three relocations stands for all:
//!
//! | code | becomes |
//! |---|---|
//! | `adrp x0, :tlsgd:v` | `movz x0, #:hi16:x, lsl #16` |
//! | `add x0, x0, #:tlsgd_lo12:v` | `movk x0, #:lo16:x` |
//! | `bl __tls_get_addr` | `mrs x1, tpidr_el0`, since a call may change `x1` |
//! | `nop` | `add x0, x1, x0` |
//!
//! For a dynamic thread-local the code stays, and gets the address of a descriptor in the GOT (see `place::got_plt`). The call
//! is one of the executor's function, with the address of the descriptor's last two words.
//!
//! Invariant: an instruction is rewritten alone or with its sequence, and its registers were checked when the object was read.

use super::aarch64::{self, NOP};
use super::edge::{Edge, Formula, ThreadModel};
use super::facts::GOT_ENTRY_BYTES;
use super::operand::{Class, Limit, Operand};

/// `movz x0, #0, lsl #16` and `movk x0, #0`.
const UPPER: u32 = 0xd2a0_0000;
const LOWER: u32 = 0xf280_0000;

/// `mrs x1, tpidr_el0` and `add x0, x1, x0`.
const THREAD_POINTER: u32 = 0xd53b_d041;
const SUM: u32 = 0x8b00_0020;

/// The size of an instruction, and of a sequence.
const CODE_BYTES: u32 = 4;
const SEQUENCE_BYTES: usize = 16;

const UNKNOWN_CODE: &str = "the instruction is not the one that the processor supplement prescribes, with x0 \
     and no addend, so that it cannot be rewritten; compile with -ftls-model=initial-exec";
const UNKNOWN_SEQUENCE: &str = "the instructions around it are not `adrp`, `add`, a call of `__tls_get_addr` and `nop`, \
     so that they cannot be rewritten; compile with -mtls-dialect=desc";

/// Checks the relocations of one section that refer to thread-locals. `code` is empty for a section that is not executable.
/// Returns them without those that belong to the relocation before them.
///
/// # Errors
/// The instruction of a relocation is not what the processor supplement prescribes for it.
pub(super) fn accept(
    code: &[u8],
    edges: Vec<Edge>,
    is_tls_get_addr: impl Fn(&Edge) -> bool,
) -> Result<Vec<Edge>, (Edge, &'static str)> {
    let mut accepted = Vec::with_capacity(edges.len());
    let mut edges = edges.into_iter();
    while let Some(edge) = edges.next() {
        match edge.kind.formula {
            Formula::Thread(ThreadModel::Descriptor | ThreadModel::DescriptorCall)
                if !is_prescribed(code, &edge) =>
            {
                return Err((edge, UNKNOWN_CODE));
            }
            Formula::Thread(ThreadModel::General) => {
                let (add, call) = (edges.next(), edges.next().filter(&is_tls_get_addr));
                let is_sequence = add
                    .zip(call)
                    .is_some_and(|(add, call)| is_sequence(code, [&edge, &add, &call]));
                if !is_sequence {
                    return Err((edge, UNKNOWN_SEQUENCE));
                }
            }
            _ => {}
        }
        accepted.push(edge);
    }
    Ok(accepted)
}

fn is_prescribed(code: &[u8], edge: &Edge) -> bool {
    let bytes = code.get(edge.offset as usize..).and_then(|code| code.first_chunk());
    let wanted = |(mask, wanted): (u32, u32)| {
        bytes.is_some_and(|bytes| u32::from_le_bytes(*bytes) & mask == wanted)
    };
    edge.addend == 0 && prescribed(edge.kind.number).is_some_and(wanted)
}

/// True for the three relocations of one sequence.
fn is_sequence(code: &[u8], [page, add, call]: [&Edge; 3]) -> bool {
    let numbers = [page, add, call].map(|edge| edge.kind.number);
    let next = |distance: u32| page.offset.checked_add(distance);
    numbers == [aarch64::TLSGD_ADR_PAGE21, aarch64::TLSGD_ADD_LO12_NC, aarch64::CALL26]
        && [page, add, call].iter().all(|edge| is_prescribed(code, edge))
        && page.target == add.target
        && next(CODE_BYTES) == Some(add.offset)
        && next(2 * CODE_BYTES) == Some(call.offset)
        && code[call.offset as usize..].get(4..).is_some_and(|rest| rest.starts_with(&NOP))
}

/// The bits of the instruction of a relocation without its operand: which are fixed, and how.
fn prescribed(number: u32) -> Option<(u32, u32)> {
    Some(match number {
        aarch64::TLSDESC_ADR_PAGE21 => (0x9f00_001f, 0x9000_0000),
        // Any register may get the function that is called.
        aarch64::TLSDESC_LD64_LO12 => (0xffc0_03e0, 0xf940_0000),
        aarch64::TLSDESC_ADD_LO12 => (0xffc0_03ff, 0x9100_0000),
        aarch64::TLSDESC_CALL => (0xffff_fc1f, 0xd63f_0000),
        aarch64::TLSGD_ADR_PAGE21 => (0x9f00_001f, 0x9000_0000),
        aarch64::TLSGD_ADD_LO12_NC => (0xffc0_03ff, 0x9100_0000),
        aarch64::CALL26 => (0xfc00_0000, 0x9400_0000),
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

/// Rewrites a sequence, which `code` starts with, to make the address of the thread-local. Returns whether the offset fits.
pub(crate) fn rewrite_call(code: &mut [u8], offset: u64) -> bool {
    let Ok(offset) = u32::try_from(offset) else { return false };
    let new = [UPPER | offset >> 16 << 5, LOWER | (offset & 0xffff) << 5, THREAD_POINTER, SUM];
    for (code, new) in code[..SEQUENCE_BYTES].chunks_exact_mut(4).zip(new) {
        code.copy_from_slice(&new.to_le_bytes());
    }
    true
}

/// Makes a sequence at `place`, which `code` starts with, call the function at `function` with the last words of the descriptor
/// at `descriptor`. Returns whether all distances fit.
pub(crate) fn call(code: &mut [u8], place: u64, descriptor: u64, function: u64) -> bool {
    let words = descriptor.wrapping_add(GOT_ENTRY_BYTES);
    let page = Operand { class: Class::Adrp, limit: Limit::Signed(33) };
    let add = Operand { class: Class::Add, limit: Limit::None };
    let branch = Operand { class: Class::Branch26, limit: Limit::Signed(28) };
    let pages = page.distance(words, place);
    let distance = branch.distance(function, place.wrapping_add(aarch64::CALL_OFFSET));
    page.store(code, pages);
    add.store(&mut code[4..], words);
    branch.store(&mut code[8..], distance);
    page.holds(pages) && branch.holds(distance)
}
