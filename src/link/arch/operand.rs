//! Operands of AArch64 instructions, which hold a part of a value.
//!
//! An instruction has 4 bytes, and some bits of them are an operand. The others say what the instruction does. A full address
//! takes two instructions (`adrp` and `add`) or four (`movz` and three `movk`), each with its part.
//!
//! Invariant: only the bits of the operand change, and the bit by which `movn` and `movz` differ.

/// The part of a value that an instruction holds, and the values that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) class: Class,
    pub(crate) limit: Limit,
}

/// The instructions with one kind of operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// `b`, `bl`: bits 2 to 27.
    Branch26,
    /// `b.cond`, `cbz`, `cbnz`: bits 2 to 20.
    Branch19,
    /// `tbz`, `tbnz`: bits 2 to 15.
    Branch14,
    /// `ldr` from a place relative to the instruction: bits 2 to 20.
    Literal19,
    /// `adr`: bits 0 to 20.
    Adr,
    /// `adrp`: bits 12 to 32 of the distance of two pages.
    Adrp,
    /// `add`: bits 0 to 11.
    Add,
    /// `add` with `lsl #12`: bits 12 to 23.
    AddHigh,
    /// Loads and stores of 2 to the power of this many bytes: the bits up to 11.
    Load(u8),
    /// A load of 8 bytes: bits 3 to 14.
    LoadFar,
    /// `movz`, `movk`: the 16 bits with this number.
    Move(u8),
    /// `movz`, or `movn` for a negative value: the 16 bits with this number.
    MoveSigned(u8),
}

/// The values that an operand may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Every value; other instructions hold the rest.
    None,
    /// The values that this many bits hold when the processor extends their sign.
    Signed(u8),
    /// The values that this many bits hold when the processor extends them with zeroes.
    Unsigned(u8),
}

/// The size of an instruction.
const BYTES: usize = 4;

/// The pages that `adrp` counts.
const PAGE_BYTES: u64 = 4096;

/// The bit that makes `movz` of `movn`.
const MOVE_ZEROES: u32 = 1 << 30;

impl Operand {
    /// The distance from `place` to `to`, as the instruction adds it.
    pub(crate) fn distance(self, to: u64, place: u64) -> u64 {
        match self.class {
            Class::Adrp => page(to).wrapping_sub(page(place)),
            _ => to.wrapping_sub(place),
        }
    }

    /// True when the instruction can do its part for this value.
    pub(crate) fn holds(self, value: u64) -> bool {
        let is_in_range = match self.limit {
            Limit::None => true,
            Limit::Signed(bits) => {
                let free = 64 - u32::from(bits);
                (value.cast_signed() << free) >> free == value.cast_signed()
            }
            Limit::Unsigned(bits) => value.checked_shr(bits.into()).unwrap_or(0) == 0,
        };
        is_in_range && value.is_multiple_of(self.alignment())
    }

    /// The number of which a value must be a multiple.
    pub(crate) fn alignment(self) -> u64 {
        match self.class {
            Class::Branch26 | Class::Branch19 | Class::Branch14 | Class::Literal19 => 4,
            Class::Load(scale) => 1 << scale,
            Class::LoadFar => 8,
            _ => 1,
        }
    }

    /// True for a call or a jump to any function. Conditional branches stay in a function.
    pub(crate) fn is_call(self) -> bool {
        self.class == Class::Branch26
    }

    /// How many bits of a value count.
    pub(crate) fn bits(self) -> u32 {
        match self.limit {
            Limit::None => 64,
            Limit::Signed(bits) | Limit::Unsigned(bits) => bits.into(),
        }
    }

    /// True when `code` starts with an instruction of this class.
    pub(crate) fn is_of(self, code: &[u8]) -> bool {
        let Some(code) = code.first_chunk::<BYTES>() else { return false };
        let code = u32::from_le_bytes(*code);
        let is = |mask: u32, wanted: u32| code & mask == wanted;
        match self.class {
            Class::Branch26 => is(0x7c00_0000, 0x1400_0000),
            Class::Branch19 => is(0xff00_0000, 0x5400_0000) || is(0x7e00_0000, 0x3400_0000),
            Class::Branch14 => is(0x7e00_0000, 0x3600_0000),
            Class::Literal19 => is(0x3b00_0000, 0x1800_0000),
            Class::Adr => is(0x9f00_0000, 0x1000_0000),
            Class::Adrp => is(0x9f00_0000, 0x9000_0000),
            Class::Add => is(0x5fc0_0000, 0x1100_0000),
            Class::AddHigh => is(0x5fc0_0000, 0x1140_0000),
            Class::Load(scale) => load_scale(code) == Some(scale),
            Class::LoadFar => load_scale(code) == Some(3),
            // Neither `movn` nor what is not defined.
            Class::Move(part) => is(0x1fe0_0000, move_of(part)) && is(0x4000_0000, 0x4000_0000),
            // Not `movk`.
            Class::MoveSigned(part) => is(0x1fe0_0000, move_of(part)) && is(0x2000_0000, 0),
        }
    }

    /// Stores the part of `value` in the instruction that `code` starts with. The instruction [is of](Self::is_of) the class.
    pub(crate) fn store(self, code: &mut [u8], value: u64) {
        let Some(bytes) = code.first_chunk_mut::<BYTES>() else { return };
        let mut code = u32::from_le_bytes(*bytes);
        let mut put = |low: u8, bits: u8, at: u8, value: u64| {
            let mask = (1_u32 << bits) - 1;
            let part = u32::try_from(value >> low & u64::from(mask)).unwrap_or(0);
            code = code & !(mask << at) | part << at;
        };
        match self.class {
            Class::Branch26 => put(2, 26, 0, value),
            Class::Branch19 | Class::Literal19 => put(2, 19, 5, value),
            Class::Branch14 => put(2, 14, 5, value),
            Class::Adr => {
                put(0, 2, 29, value);
                put(2, 19, 5, value);
            }
            Class::Adrp => {
                put(12, 2, 29, value);
                put(14, 19, 5, value);
            }
            Class::Add => put(0, 12, 10, value),
            Class::AddHigh => put(12, 12, 10, value),
            Class::Load(scale) => put(scale, 12, 10, value & 0xfff),
            Class::LoadFar => put(3, 12, 10, value & 0x7fff),
            Class::Move(part) => put(16 * part, 16, 5, value),
            Class::MoveSigned(part) => {
                let is_negative = value.cast_signed() < 0;
                put(16 * part, 16, 5, if is_negative { !value } else { value });
                code = code & !MOVE_ZEROES | if is_negative { 0 } else { MOVE_ZEROES };
            }
        }
        *bytes = code.to_le_bytes();
    }
}

/// The start of the page of an address.
pub(crate) fn page(address: u64) -> u64 {
    address & !(PAGE_BYTES - 1)
}

/// The power of two that a load or store with an unsigned offset moves; `None` for other instructions.
fn load_scale(code: u32) -> Option<u8> {
    if code & 0x3b00_0000 != 0x3900_0000 {
        return None;
    }
    let size = u8::try_from(code >> 30).unwrap_or(0);
    // The upper bit of the operation makes 16 bytes of 1 in the vector registers.
    let is_whole_vector = code & 0x0480_0000 == 0x0480_0000;
    match (is_whole_vector, size) {
        (false, size) => Some(size),
        (true, 0) => Some(4),
        (true, _) => None,
    }
}

/// The bits that all moves of the 16 bits with this number have in common.
fn move_of(part: u8) -> u32 {
    0x1280_0000 | u32::from(part) << 21
}
