//! A place in a table, from which numbers are read.
#![allow(unsafe_code, reason = "reads tables of linked code at their addresses")]

use crate::executor::process::loaded::pointer;

/// The address of the next byte to read.
pub(super) struct Cursor(pub(super) u64);

impl Cursor {
    pub(super) fn byte(&mut self) -> u8 {
        // SAFETY: a table is mapped with its function, and ends behind the length that its head says.
        let byte = unsafe { *pointer::<u8>(self.0) };
        self.0 += 1;
        byte
    }

    /// An unsigned number of this many bytes, at most 8.
    pub(super) fn little_endian(&mut self, bytes: u32) -> u64 {
        (0..bytes).fold(0, |value, at| value | u64::from(self.byte()) << (8 * at))
    }

    pub(super) fn uleb128(&mut self) -> u64 {
        self.leb128().0
    }

    pub(super) fn sleb128(&mut self) -> i64 {
        let (value, bits, last) = self.leb128();
        let is_negative = last & 0x40 != 0 && bits < u64::BITS;
        let value = value.cast_signed();
        if is_negative { value | -1 << bits } else { value }
    }

    /// The number without a sign, its bits, and its last byte.
    fn leb128(&mut self) -> (u64, u32, u8) {
        let (mut value, mut bits) = (0, 0);
        loop {
            let byte = self.byte();
            if bits < u64::BITS {
                value |= u64::from(byte & 0x7f) << bits;
            }
            bits += 7;
            if byte & 0x80 == 0 {
                return (value, bits, byte);
            }
        }
    }
}
