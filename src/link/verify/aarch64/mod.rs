//! AArch64: the value that each instruction computes, decoded as the processor decodes it.
//!
//! An address takes several instructions, and each is checked against its own part of the address. Two instructions find an
//! entry of the GOT. One must find the page of an entry with the right value, and one the place of such an entry in its page.
//!
//! Invariant: outside of its operand, an instruction is the one in the file.

mod decode;

use std::collections::HashMap;
use std::ops::Range;

use object::elf::{self, RelocationType};

use super::Fault;
use super::fields::{Field, Fields, same};
use super::memory::CODE;
use super::raw::Relocation;
use decode::{DISTANCE_21, NUMBER_12, Work, decode};

/// The number of the processor in the header of a file.
pub(super) const MACHINE: u16 = 183;

/// `nop`, and `bti c`, which does nothing here.
pub(super) const NOP: u32 = 0xd503_201f;
const BTI_C: u32 = 0xd503_245f;

/// The size of the field of a relocation of AArch64; `None` for a relocation that objects do not have.
pub(super) fn field_bytes(kind: RelocationType) -> Option<u64> {
    Some(match kind {
        elf::R_AARCH64_ABS64 | elf::R_AARCH64_PREL64 | elf::R_AARCH64_GOTREL64 => 8,
        elf::R_AARCH64_ABS16 | elf::R_AARCH64_PREL16 => 2,
        RelocationType(258..=315 | 513 | 514 | 528..=538 | 541..=573) => 4,
        _ => return None,
    })
}

/// The bytes of the instructions that call `__tls_get_addr`, as offsets in the section.
pub(super) fn sequence(relocation: &Relocation) -> Option<Range<u64>> {
    let start = relocation.offset;
    let is_first = relocation.kind == elf::R_AARCH64_TLSGD_ADR_PAGE21;
    Some(start..start.checked_add(16)?).filter(|_| is_first)
}

impl Fields<'_, '_> {
    /// Checks a field of AArch64 that refers to what is at `target`, or to a thread-local with this offset.
    pub(super) fn check_aarch64(&self, field: &Field<'_>, target: u64) -> Result<(), Fault> {
        let place = field.place;
        let addend = field.relocation.addend;
        let wanted = target.wrapping_add_signed(addend);
        let got = self.map.got.start;
        match field.relocation.kind {
            elf::R_AARCH64_ABS64 => same(wanted, self.unsigned::<8>(place)?),
            elf::R_AARCH64_ABS32 => self.either::<4>(place, wanted),
            elf::R_AARCH64_ABS16 => self.either::<2>(place, wanted),
            elf::R_AARCH64_PREL64 => same(wanted, place.wrapping_add(self.unsigned::<8>(place)?)),
            elf::R_AARCH64_PREL32 => same(wanted, place.wrapping_add(self.signed::<4>(place)?)),
            elf::R_AARCH64_PREL16 => same(wanted, place.wrapping_add(self.signed::<2>(place)?)),
            elf::R_AARCH64_GOTREL64 => same(wanted, got.wrapping_add(self.unsigned::<8>(place)?)),
            elf::R_AARCH64_GOTREL32 => same(wanted, got.wrapping_add(self.signed::<4>(place)?)),
            elf::R_AARCH64_PLT32 => self.branch(place, target, addend),
            elf::R_AARCH64_GOTPCREL32 => {
                let entry = place.wrapping_add(self.signed::<4>(place)?);
                self.entry(entry.wrapping_sub(addend.cast_unsigned()), target)
            }
            RelocationType(541..=559 | 570 | 571) => {
                if let Some(module) = self.tls_module(field)? {
                    return Err(format!(
                        "it wants a constant offset of what is in TLS module {module}"
                    ));
                }
                self.check_work(field, target, wanted)
            }
            RelocationType(528..=538 | 572 | 573) => {
                if self.tls_module(field)? != self.map.tls_module {
                    return Err("it is a distance in the TLS block of another link".to_owned());
                }
                self.check_work(field, target, wanted)
            }
            elf::R_AARCH64_TLSGD_ADR_PAGE21 => self.check_tls_call(field, target),
            RelocationType(562..=564 | 569) => self.check_tls_descriptor(field, target),
            _ => self.check_work(field, target, wanted),
        }
    }

    /// Checks that an instruction does its part for `wanted`, and nothing else than before.
    fn check_work(&self, field: &Field<'_>, target: u64, wanted: u64) -> Result<(), Fault> {
        let got = self.map.got.start;
        let work = self.work(field)?;
        match (field.relocation.kind, work) {
            (
                elf::R_AARCH64_CALL26
                | elf::R_AARCH64_JUMP26
                | elf::R_AARCH64_CONDBR19
                | elf::R_AARCH64_TSTBR14,
                Work::Address(found),
            ) => {
                if found == wanted {
                    return Ok(());
                }
                let found = self.behind_far_jump(found)?;
                if found == wanted || field.relocation.addend != 0 {
                    return same(wanted, found);
                }
                self.stub(found, target)
            }
            (elf::R_AARCH64_LD_PREL_LO19 | elf::R_AARCH64_ADR_PREL_LO21, Work::Address(found)) => {
                same(wanted, found)
            }
            (elf::R_AARCH64_ADR_PREL_PG_HI21, Work::Page(found)) => same(wanted & !0xfff, found),
            (elf::R_AARCH64_ADR_PREL_PG_HI21_NC, Work::Page(found)) => {
                // The upper bits of the distance are another instruction's.
                let distance = (wanted & !0xfff).wrapping_sub(found);
                same(0, distance & 0x1_ffff_ffff)
            }
            (
                elf::R_AARCH64_ADD_ABS_LO12_NC
                | elf::R_AARCH64_LDST8_ABS_LO12_NC
                | elf::R_AARCH64_LDST16_ABS_LO12_NC
                | elf::R_AARCH64_LDST32_ABS_LO12_NC
                | elf::R_AARCH64_LDST64_ABS_LO12_NC
                | elf::R_AARCH64_LDST128_ABS_LO12_NC,
                Work::Number(found),
            ) => same(wanted & 0xfff, found),
            (
                elf::R_AARCH64_ADR_GOT_PAGE | elf::R_AARCH64_TLSIE_ADR_GOTTPREL_PAGE21,
                Work::Page(found),
            ) => self.some_entry(target, |entry| entry & !0xfff == found),
            (
                elf::R_AARCH64_LD64_GOT_LO12_NC | elf::R_AARCH64_TLSIE_LD64_GOTTPREL_LO12_NC,
                Work::Number(found),
            ) => self.some_entry(target, |entry| entry & 0xfff == found),
            (elf::R_AARCH64_LD64_GOTPAGE_LO15, Work::Number(found)) => {
                self.entry((got & !0xfff).wrapping_add(found), target)
            }
            (
                elf::R_AARCH64_GOT_LD_PREL19 | elf::R_AARCH64_TLSIE_LD_GOTTPREL_PREL19,
                Work::Address(found),
            ) => self.entry(found, target),
            // From here on, offsets of thread-locals.
            (
                elf::R_AARCH64_TLSLE_ADD_TPREL_HI12 | elf::R_AARCH64_TLSLD_ADD_DTPREL_HI12,
                Work::Number(found),
            ) => same(wanted & !0xfff, found),
            (RelocationType(529 | 531 | 533 | 535 | 537 | 572), Work::Number(found)) => {
                same(wanted, found)
            }
            (RelocationType(530 | 532 | 534 | 536 | 538 | 573), Work::Number(found)) => {
                same(wanted & 0xfff, found)
            }
            (
                elf::R_AARCH64_TLSLE_ADD_TPREL_LO12
                | elf::R_AARCH64_TLSLE_LDST8_TPREL_LO12
                | elf::R_AARCH64_TLSLE_LDST16_TPREL_LO12
                | elf::R_AARCH64_TLSLE_LDST32_TPREL_LO12
                | elf::R_AARCH64_TLSLE_LDST64_TPREL_LO12
                | elf::R_AARCH64_TLSLE_LDST128_TPREL_LO12,
                Work::Number(found),
            ) => same(wanted, found),
            (RelocationType(551..=559 | 571), Work::Number(found)) => same(wanted & 0xfff, found),
            (kind, work) => check_move(kind, field.place, wanted, work),
        }
    }

    /// The work of the instruction in the image. Outside of its operand it is the instruction of the file.
    fn work(&self, field: &Field<'_>) -> Result<Work, Fault> {
        let new = self.instruction(field.place)?;
        let decoded = decode(new, field.place);
        let (work, operand) = decoded.ok_or_else(|| format!("it is in {new:08x}"))?;
        match original(field) {
            Some(old) if (old ^ new) & !operand != 0 => {
                Err(format!("the instruction {old:08x} became {new:08x}"))
            }
            _ => Ok(work),
        }
    }

    fn instruction(&self, at: u64) -> Result<u32, Fault> {
        let bytes = self.memory.read::<4>(at);
        bytes.map(u32::from_le_bytes).ok_or_else(|| format!("no instruction is at {at:#x}"))
    }

    /// Checks that an entry of the GOT holds `value` and has this property.
    fn some_entry(&self, value: u64, is_right: impl Fn(&u64) -> bool) -> Result<(), Fault> {
        let entries = self.got_entries.get(&value).map(Vec::as_slice).unwrap_or_default();
        match entries.iter().any(is_right) {
            true => Ok(()),
            false => Err(format!("it finds none of the entries {entries:x?} that hold {value:#x}")),
        }
    }

    /// Checks an instruction that takes part in a call through a descriptor, or that makes the offset instead.
    fn check_tls_descriptor(&self, field: &Field<'_>, offset: u64) -> Result<(), Fault> {
        let (kind, place) = (field.relocation.kind, field.place);
        let new = self.instruction(place)?;
        let old = original(field).ok_or("it stands in data")?;
        let Some(module) = self.tls_module(field)? else {
            let expected = match kind {
                // movz x0, #upper, lsl #16
                elf::R_AARCH64_TLSDESC_ADR_PAGE21 => 0xd2a0_0000 | offset >> 16 << 5,
                // movk x0, #lower
                elf::R_AARCH64_TLSDESC_LD64_LO12 => 0xf280_0000 | (offset & 0xffff) << 5,
                _ => NOP.into(),
            };
            if offset >> 32 != 0 {
                return Err(format!("32 bits were made of the offset {offset:#x}"));
            }
            return same(expected, new.into());
        };
        if kind == elf::R_AARCH64_TLSDESC_CALL {
            return same(old.into(), new.into());
        }
        let (_, function) =
            self.map.thread_functions.ok_or("no function for thread-locals was defined")?;
        let holds = |at: u64, wanted: u64| self.entry(at, wanted).is_ok();
        let work = self.work(field)?;
        self.some_entry(function, |entry| {
            let is_found = match work {
                Work::Page(page) => entry & !0xfff == page,
                Work::Number(number) => entry & 0xfff == number,
                _ => false,
            };
            is_found && holds(entry + 8, module.into()) && holds(entry + 16, offset)
        })
    }

    /// Checks the four instructions that called `__tls_get_addr`: they make the address, or call the executor's function.
    fn check_tls_call(&self, field: &Field<'_>, offset: u64) -> Result<(), Fault> {
        let place = field.place;
        let code = |number: u64| self.instruction(place.wrapping_add(4 * number));
        let new = [code(0)?, code(1)?, code(2)?, code(3)?];
        let Some(module) = self.tls_module(field)? else {
            let offset = u32::try_from(offset);
            let offset = offset.map_err(|_| "more than 32 bits were made of the offset")?;
            // movz x0, #upper, lsl #16; movk x0, #lower; mrs x1, tpidr_el0; add x0, x1, x0
            let (upper, lower) = (0xd2a0_0000 | offset >> 16 << 5, offset & 0xffff);
            let wanted = [upper, 0xf280_0000 | lower << 5, 0xd53b_d041, 0x8b00_0020];
            return if new == wanted { Ok(()) } else { Err(format!("it became {new:08x?}")) };
        };
        // adrp x0, words; add x0, x0, words; bl function; nop
        let is_call = new[0] & !DISTANCE_21 == 0x9000_0000
            && new[1] & !NUMBER_12 == 0x9100_0000
            && new[2] >> 26 == 0x25
            && new[3] == NOP;
        let work = |number: u64, code: u32| {
            decode(code, place.wrapping_add(4 * number)).map(|(work, _)| work)
        };
        let decoded = [work(0, new[0]), work(1, new[1]), work(2, new[2])];
        let [Some(Work::Page(page)), Some(Work::Number(number)), Some(Work::Address(to))] = decoded
        else {
            return Err(format!("it became {new:08x?}"));
        };
        if !is_call || field.relocation.addend != 0 {
            return Err(format!("it became {new:08x?}"));
        }
        let (function, _) =
            self.map.thread_functions.ok_or("no function for thread-locals was defined")?;
        self.stub(self.behind_far_jump(to)?, function)?;
        let words = page.wrapping_add(number);
        self.entry(words, module.into())?;
        self.entry(words.wrapping_add(8), offset)
    }

    /// Where a call ends that leads to an address, which may be a stub among the code.
    fn behind_far_jump(&self, found: u64) -> Result<u64, Fault> {
        let is_in = |island: &Range<u64>| island.contains(&found);
        if !self.map.islands.iter().any(is_in) {
            return Ok(found);
        }
        let code = |number: u64| self.instruction(found.wrapping_add(4 * number));
        let (page, add) = (code(1)?, code(2)?);
        // bti c; adrp x16, to; add x16, x16, to; br x16
        let is_jump = code(0)? == BTI_C
            && page & !DISTANCE_21 == 0x9000_0010
            && add & !NUMBER_12 == 0x9100_0210
            && code(3)? == 0xd61f_0200
            && self.memory.stripe(found, 16) == Some(CODE);
        match (decode(page, found + 4), decode(add, found + 8)) {
            (Some((Work::Page(page), _)), Some((Work::Number(number), _))) if is_jump => {
                Ok(page.wrapping_add(number))
            }
            _ => Err(format!("there is no stub at {found:#x}")),
        }
    }

    /// The word that the stub at an address jumps through.
    pub(super) fn stub_word_aarch64(&self, stub: u64) -> Result<u64, Fault> {
        let none = || format!("there is no stub at {stub:#x}");
        let code = |number: u64| self.instruction(stub.wrapping_add(4 * number));
        let (page, load) = (code(1)?, code(2)?);
        // bti c; adrp x16, word; ldr x17, [x16, word]; br x17
        let is_stub = code(0)? == BTI_C
            && page & !DISTANCE_21 == 0x9000_0010
            && load & !NUMBER_12 == 0xf940_0211
            && code(3)? == 0xd61f_0220;
        match (decode(page, stub + 4), decode(load, stub + 8)) {
            (Some((Work::Page(page), _)), Some((Work::Number(number), _))) if is_stub => {
                Ok(page.wrapping_add(number))
            }
            _ => Err(none()),
        }
    }

    /// The entries of the GOT by their values.
    pub(super) fn entries_by_value(
        range: Range<u64>,
        value: impl Fn(u64) -> Option<u64>,
    ) -> HashMap<u64, Vec<u64>> {
        let mut entries: HashMap<u64, Vec<u64>> = HashMap::new();
        for entry in range.step_by(8) {
            if let Some(value) = value(entry) {
                entries.entry(value).or_default().push(entry);
            }
        }
        entries
    }
}

/// Checks an instruction that sets 16 bits of a register.
fn check_move(kind: RelocationType, place: u64, wanted: u64, work: Work) -> Result<(), Fault> {
    let RelocationType(number) = kind;
    // The first relocation of the family, of which each 16 bits have two; the last has one.
    let (first, is_signed, wanted) = match number {
        263..=269 => (263, false, wanted),
        270..=272 => (270, true, wanted),
        287..=293 => (287, true, wanted.wrapping_sub(place)),
        544..=548 => (544, true, wanted),
        _ => return Err("the checker does not know this relocation".to_owned()),
    };
    let (part, is_whole) = match number {
        270..=272 => (number - first, true),
        544 => (2, true),
        545 | 546 => (1, number == 545),
        547 | 548 => (0, number == 547),
        269 | 293 => (3, false),
        _ => ((number - first) / 2, (number - first) % 2 == 0),
    };
    let shift = 16 * part;
    let own = wanted >> shift & 0xffff;
    // Whether the register can hold the number in this and the lower parts.
    let rest = wanted.cast_signed() >> (shift + 15) >> 1;
    let (found_part, bits, is_negative) = match work {
        Work::Set { part, bits } | Work::Keep { part, bits } => (part, bits, false),
        Work::SetNegative { part, bits } => (part, bits, true),
        _ => return Err("it is in an instruction that sets no part of a register".to_owned()),
    };
    if found_part != part {
        return Err(format!("it sets part {found_part} of a register instead of part {part}"));
    }
    let is_right = match (is_whole, is_signed) {
        (false, _) => !is_negative,
        (true, false) => rest == 0 && !is_negative,
        (true, true) => rest == if is_negative { -1 } else { 0 },
    };
    if !is_right {
        return Err(format!("an instruction of 16 bits does not make {wanted:#x}"));
    }
    same(own, bits)
}

/// The instruction of a field in its object; `None` in data.
fn original(field: &Field<'_>) -> Option<u32> {
    let offset = usize::try_from(field.relocation.offset).ok()?;
    let bytes = field.code.get(offset..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
