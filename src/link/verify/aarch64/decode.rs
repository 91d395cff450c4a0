//! The work of AArch64 instructions with an operand.
//!
//! Invariant: the scale of an operand comes from the instruction, and not from the relocation.

/// The work of an instruction with an operand.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// It goes to an address, loads from it, or makes it.
    Address(u64),
    /// It makes the address of a page.
    Page(u64),
    /// It adds a number.
    Number(u64),
    /// It sets 16 bits of a register, and the others to zeroes.
    Set { part: u32, bits: u64 },
    /// The same, and the others to ones. The bits are of the negative number.
    SetNegative { part: u32, bits: u64 },
    /// It sets 16 bits and leaves the others.
    Keep { part: u32, bits: u64 },
}

/// The bits that are an operand.
const BRANCH_26: u32 = 0x03ff_ffff;
const DISTANCE_19: u32 = 0x00ff_ffe0;
const DISTANCE_14: u32 = 0x0007_ffe0;
pub(super) const DISTANCE_21: u32 = 0x60ff_ffe0;
pub(super) const NUMBER_12: u32 = 0x003f_fc00;
const MOVE_16: u32 = 0x001f_ffe0;
const MOVE_SIGN: u32 = 1 << 30;

/// The work of the instruction `code` at an address, and which of its bits are the operand.
pub(super) fn decode(code: u32, at: u64) -> Option<(Work, u32)> {
    let bits = |from: u32, count: u32| u64::from(code >> from & ((1 << count) - 1));
    let signed = |value: u64, count: u32| {
        let free = 64 - count;
        ((value << free).cast_signed() >> free).cast_unsigned()
    };
    let far = |distance: u64| Work::Address(at.wrapping_add(distance));
    let top = code >> 24;
    Some(match top {
        0x14..=0x17 | 0x94..=0x97 => (far(signed(bits(0, 26), 26) << 2), BRANCH_26),
        0x54 | 0x34 | 0x35 | 0xb4 | 0xb5 | 0x18 | 0x1c | 0x58 | 0x5c | 0x98 | 0x9c | 0xd8 => {
            (far(signed(bits(5, 19), 19) << 2), DISTANCE_19)
        }
        0x36 | 0x37 | 0xb6 | 0xb7 => (far(signed(bits(5, 14), 14) << 2), DISTANCE_14),
        _ if top & 0x1f == 0x10 => {
            let distance = signed(bits(5, 19) << 2 | bits(29, 2), 21);
            if top & 0x80 == 0 {
                return Some((far(distance), DISTANCE_21));
            }
            let page = (at >> 12).wrapping_add(distance) << 12;
            (Work::Page(page), DISTANCE_21)
        }
        0x11 | 0x31 | 0x91 | 0xb1 if bits(23, 1) == 0 => {
            (Work::Number(bits(10, 12) << (12 * bits(22, 1))), NUMBER_12)
        }
        // A load or store: without the bits for its size, with a place that is not changed.
        _ if top & 0x3b == 0x39 => {
            let (is_vector, operation) = (top & 4 != 0, bits(22, 2));
            let scale = if is_vector && operation & 2 != 0 { 4 } else { bits(30, 2) };
            (Work::Number(bits(10, 12) << scale), NUMBER_12)
        }
        0x12 | 0x92 | 0x52 | 0xd2 | 0x72 | 0xf2 if bits(23, 1) == 1 => {
            let (part, bits_16) = (code >> 21 & 3, bits(5, 16));
            match bits(29, 2) {
                0 => (Work::SetNegative { part, bits: !bits_16 & 0xffff }, MOVE_16 | MOVE_SIGN),
                2 => (Work::Set { part, bits: bits_16 }, MOVE_16 | MOVE_SIGN),
                _ => (Work::Keep { part, bits: bits_16 }, MOVE_16),
            }
        }
        _ => return None,
    })
}
