//! The unwind information of functions, in the form of `.eh_frame`.
//!
//! It is written here, since a library for it would bring three more crates for these few instructions.
//!
//! Invariant: an unwinder that reads a function's entry finds the rows of its frame, and nothing else.

use gimli::{
    DW_CFA_advance_loc, DW_CFA_advance_loc1, DW_CFA_advance_loc2, DW_CFA_advance_loc4,
    DW_CFA_def_cfa, DW_CFA_nop, DW_CFA_offset, DW_CFA_offset_extended, DW_CFA_restore,
    DW_CFA_restore_extended, DW_EH_PE_pcrel, DW_EH_PE_sdata4,
};

use super::frame::{REGISTERS, Row, Rows};
use crate::arch::facts::Frames;
use crate::arch::processor::Processor;

/// Saved registers lie at multiples of this below the caller's stack pointer.
const SLOT_BYTES: u32 = 8;

/// The bytes of `.eh_frame`, and the places in it that refer to functions.
pub(super) struct Records {
    bytes: Vec<u8>,
    frames: &'static Frames,
    /// The offset of a field of 4 bytes, and the number of the function whose distance it has.
    pub(super) fields: Vec<(u64, usize)>,
}

impl Records {
    /// The records of functions: their number, the rows of their frame, their size.
    pub(super) fn new(functions: &[(usize, Rows, u32)], processor: Processor) -> Records {
        let frames = &processor.facts().frames;
        let mut records = Records { bytes: Vec::new(), frames, fields: Vec::new() };
        records.record(|records| {
            records.word(0); // the mark of what functions have in common
            let version = 1;
            let code_alignment = 1;
            let data_alignment = (-SLOT_BYTES.cast_signed()).to_le_bytes()[0] & 0x7f;
            records.bytes.push(version);
            records.bytes.extend(b"zR\0");
            records.bytes.extend([code_alignment, data_alignment, frames.return_address]);
            records.bytes.extend([1, DW_EH_PE_pcrel.0 | DW_EH_PE_sdata4.0]);
            records.cfa(&Row::entry(processor.facts()));
            if frames.call_bytes > 0 {
                records.bytes.extend([DW_CFA_offset.0 | frames.return_address, 1]);
            }
        });
        for (function, rows, bytes) in functions {
            records.record(|records| records.entry(*function, rows, *bytes));
        }
        records
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a record: its length, its content, and what fills it up.
    fn record(&mut self, content: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.word(0);
        content(self);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), DW_CFA_nop.0);
        let length = word_of(self.bytes.len() - start - size_of::<u32>());
        self.bytes[start..][..size_of::<u32>()].copy_from_slice(&length.to_le_bytes());
    }

    /// The content of a function's record.
    fn entry(&mut self, function: usize, rows: &Rows, bytes: u32) {
        // How far back the common record is, which is the first.
        self.word(word_of(self.bytes.len()));
        self.fields.push((self.bytes.len() as u64, function));
        self.word(0);
        self.word(bytes);
        self.bytes.push(0); // no more to say
        let mut at = 0;
        for pair in rows.windows(2) {
            let [(_, old), (behind, new)] = pair else { continue };
            if (self.top(old), old.saved) != (self.top(new), new.saved) {
                self.advance(behind - at);
                self.change(old, new);
                at = *behind;
            }
        }
    }

    /// The next instructions hold this many bytes of code further on.
    fn advance(&mut self, distance: u32) {
        let [one, two, ..] = distance.to_le_bytes();
        match distance {
            0 => {}
            1..0x40 => self.bytes.push(DW_CFA_advance_loc.0 | one),
            0x40..0x100 => self.bytes.extend([DW_CFA_advance_loc1.0, one]),
            0x100..0x1_0000 => self.bytes.extend([DW_CFA_advance_loc2.0, one, two]),
            _ => {
                self.bytes.push(DW_CFA_advance_loc4.0);
                self.word(distance);
            }
        }
    }

    /// The instructions that make one row of another.
    fn change(&mut self, old: &Row, new: &Row) {
        if self.top(old) != self.top(new) {
            self.cfa(new);
        }
        let saved = old.saved.iter().zip(&new.saved);
        for ((_, _, number), (old, new)) in REGISTERS.into_iter().zip(saved) {
            // The short forms have six bits.
            let is_short = number < 0x40;
            match new {
                _ if old == new => {}
                Some(below) => {
                    match is_short {
                        true => self.bytes.push(DW_CFA_offset.0 | number),
                        false => self.bytes.extend([DW_CFA_offset_extended.0, number]),
                    }
                    self.number(below / SLOT_BYTES);
                }
                None if is_short => self.bytes.push(DW_CFA_restore.0 | number),
                None => self.bytes.extend([DW_CFA_restore_extended.0, number]),
            }
        }
    }

    /// Where the caller's stack pointer was.
    fn cfa(&mut self, row: &Row) {
        let (register, above) = self.top(row);
        self.bytes.extend([DW_CFA_def_cfa.0, register]);
        self.number(above);
    }

    /// The register that tells where the caller's stack pointer was, and the distance from there.
    fn top(&self, row: &Row) -> (u8, u32) {
        let Frames { stack_pointer, frame_pointer, .. } = *self.frames;
        row.pointer.map_or((stack_pointer, row.stack), |pointer| (frame_pointer, pointer))
    }

    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_le_bytes());
    }

    /// Seven bits a byte, the low ones first; all bytes but the last have the high bit.
    fn number(&mut self, mut number: u32) {
        while number >= 0x80 {
            self.bytes.push(0x80 | (number & 0x7f).to_le_bytes()[0]);
            number >>= 7;
        }
        self.bytes.push(number.to_le_bytes()[0]);
    }
}

/// The records of one object are far below 4 GiB.
fn word_of(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
