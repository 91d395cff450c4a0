//! What every relocated field must hold, by the formulas of the processor supplement, and what the
//! instruction around it must be.
//!
//! Each field is decoded as the processor or a program would use it. A branch is followed, through a stub if
//! there is one; a load from the GOT is looked up.
//!
//! Invariant: relocations are numbers here, and no table is shared with the linker.

use super::link_map::{LinkMap, MappedExternal};
use super::memory::{CODE, Memory};
use super::names::{Names, Object};
use super::raw::Relocation;
use super::{Fault, say};

/// Everything that a field's value can depend on.
pub(super) struct Fields<'v, 'a> {
    pub(super) map: &'v LinkMap<'a>,
    pub(super) memory: &'v Memory<'v>,
    pub(super) names: &'v Names<'v, 'a>,
    pub(super) objects: &'v [Object<'a>],
}

/// A field in the image, and the bytes of its object there.
pub(super) struct Field<'v> {
    pub(super) object: usize,
    pub(super) relocation: Relocation,
    /// Its address in the image.
    pub(super) place: u64,
    /// The bytes of its section, for the instruction around it; empty in data.
    pub(super) code: &'v [u8],
    /// True in a table that may refer to dropped sections.
    pub(super) is_tolerant: bool,
}

/// The size of the field of a relocation; `None` for a relocation that objects do not have.
pub(super) fn field_bytes(kind: u32) -> Option<u64> {
    Some(match kind {
        14 | 15 => 1,
        12 | 13 => 2,
        2 | 3 | 4 | 9 | 10 | 11 | 19..=23 | 26 | 32 | 34 | 39..=42 => 4,
        1 | 17 | 18 | 24 | 25 | 27..=31 | 33 => 8,
        35 => 0,
        _ => return None,
    })
}

impl Fields<'_, '_> {
    /// Checks a field, and the instruction it belongs to.
    pub(super) fn check(&self, field: &Field<'_>) -> Result<(), Fault> {
        self.check_value(field).map_err(|what| {
            let Relocation { offset, kind, symbol, addend } = field.relocation;
            let name = self.objects[field.object].raw.symbols.get(symbol);
            let name = say(name.map(|symbol| symbol.name).unwrap_or_default());
            format!(
                "offset {offset:#x}, relocation {kind} at {:#x} against {name} (symbol {symbol}) plus \
                 {addend}: {what}",
                field.place
            )
        })
    }

    fn check_value(&self, field: &Field<'_>) -> Result<(), Fault> {
        let Relocation { kind, symbol, addend, .. } = field.relocation;
        let (place, got) = (field.place, self.map.got.start);
        let target = self.names.address(field.object, symbol)?;
        let target = match target {
            Some(target) => target,
            None if field.is_tolerant => 0,
            None => return Err("it refers to a section that was dropped".to_owned()),
        };
        let wanted = target.wrapping_add_signed(addend);
        match kind {
            1 => same(wanted, self.unsigned::<8>(place)?),
            10 => same(wanted, self.unsigned::<4>(place)?),
            11 => same(wanted, self.signed::<4>(place)?),
            12 => self.either::<2>(place, wanted),
            14 => self.either::<1>(place, wanted),
            13 => same(wanted, place.wrapping_add(self.signed::<2>(place)?)),
            15 => same(wanted, place.wrapping_add(self.signed::<1>(place)?)),
            24 => same(wanted, place.wrapping_add(self.unsigned::<8>(place)?)),
            2 | 39 if is_branch(field) => self.branch(place, target, addend),
            2 | 39 => same(wanted, place.wrapping_add(self.signed::<4>(place)?)),
            4 | 40 => self.branch(place, target, addend),
            25 | 31 => same(wanted, got.wrapping_add(self.unsigned::<8>(place)?)),
            26 | 29 => {
                let found =
                    if kind == 26 { self.signed::<4>(place)? } else { self.unsigned::<8>(place)? };
                same(got.wrapping_add_signed(addend), place.wrapping_add(found))
            }
            32 | 33 => {
                let found = if kind == 32 {
                    self.unsigned::<4>(place)?
                } else {
                    self.unsigned::<8>(place)?
                };
                let size = self.names.size(field.object, symbol);
                same(size.ok_or("it has no size")?.wrapping_add_signed(addend), found)
            }
            3 | 9 | 27 | 28 | 30 => {
                let is_wide = matches!(kind, 27 | 28 | 30);
                let found =
                    if is_wide { self.unsigned::<8>(place)? } else { self.signed::<4>(place)? };
                let base = if matches!(kind, 9 | 28) { place } else { got };
                self.entry(base.wrapping_add(found).wrapping_sub(addend.cast_unsigned()), target)
            }
            41 | 42 => self.got_load(field, target),
            17..=23 | 34 | 35 => self.check_thread(field, target),
            _ => Err("the checker does not know this relocation".to_owned()),
        }
    }

    /// Checks that a branch ends at the symbol, or at a stub that jumps there.
    fn branch(&self, place: u64, target: u64, addend: i64) -> Result<(), Fault> {
        let found = place.wrapping_add(self.signed::<4>(place)?);
        let found = found.wrapping_sub(addend.cast_unsigned());
        if found == target { Ok(()) } else { self.stub(found, target) }
    }

    /// Checks that a name from outside means the address that the linker was given or, for a function, a stub that jumps there.
    pub(super) fn check_canonical_entry(&self, external: &MappedExternal) -> Result<(), Fault> {
        let MappedExternal { found, meant } = *external;
        let told = found.address.get();
        match meant == told {
            true => Ok(()),
            false if found.callable => self.stub(meant, told),
            false => Err(format!("{meant:#x} is the PLT entry of {told:#x}, which is no function")),
        }
    }

    /// Checks that a stub at `found` jumps to `target`.
    pub(super) fn stub(&self, found: u64, target: u64) -> Result<(), Fault> {
        if !self.map.stubs.contains(&found) || self.memory.stripe(found, 8) != Some(CODE) {
            return Err(format!("it leads to {found:#x} instead of {target:#x}"));
        }
        // jmp *entry(%rip)
        if self.memory.read::<2>(found) != Some([0xff, 0x25]) {
            return Err(format!("there is no stub at {found:#x}"));
        }
        let distance = self.signed::<4>(found + 2)?;
        self.entry((found + 6).wrapping_add(distance), target)
    }

    /// Checks an instruction that loads the address from the GOT, or its replacement.
    fn got_load(&self, field: &Field<'_>, target: u64) -> Result<(), Fault> {
        let (place, addend) = (field.place, field.relocation.addend);
        let old = before(field);
        let new = if old.is_some() { self.memory.read::<2>(place.wrapping_sub(2)) } else { None };
        if old == new {
            let entry = place.wrapping_add(self.signed::<4>(place)?);
            return self.entry(entry.wrapping_sub(addend.cast_unsigned()), target);
        }
        if addend != -4 {
            return Err("an instruction was rewritten that does not end with its field".to_owned());
        }
        let end = place.wrapping_add(4);
        match (old, new) {
            // mov entry(%rip), %reg: lea symbol(%rip), %reg
            (Some([0x8b, operands]), Some([0x8d, same_operands]))
                if operands == same_operands && operands & 0b1100_0111 == 0b0000_0101 =>
            {
                same(target, end.wrapping_add(self.signed::<4>(place)?))
            }
            // call *entry(%rip): addr32 call symbol
            (Some([0xff, 0x15]), Some([0x67, 0xe8])) => {
                same(target, end.wrapping_add(self.signed::<4>(place)?))
            }
            // jmp *entry(%rip): jmp symbol; nop
            (Some([0xff, 0x25]), Some([0xe9, _])) => {
                if self.memory.read::<1>(place + 3) != Some([0x90]) {
                    return Err("no `nop` follows the jump that replaced a longer one".to_owned());
                }
                let distance = self.signed::<4>(place - 1)?;
                same(target, (place + 3).wrapping_add(distance))
            }
            _ => Err(format!("the instruction {old:02x?} became {new:02x?}")),
        }
    }

    /// Checks that a GOT entry at `entry` holds `target`.
    pub(super) fn entry(&self, entry: u64, target: u64) -> Result<(), Fault> {
        let start = self.map.got.start;
        if !self.map.got.contains(&entry) || !entry.wrapping_sub(start).is_multiple_of(8) {
            return Err(format!("{entry:#x} is no entry of the GOT"));
        }
        let found = self.memory.u64_at(entry).ok_or("the GOT is not in the image")?;
        if found != target {
            return Err(format!(
                "the GOT entry at {entry:#x} holds {found:#x} instead of {target:#x}"
            ));
        }
        Ok(())
    }

    fn either<const N: usize>(&self, place: u64, wanted: u64) -> Result<(), Fault> {
        let (unsigned, signed) = (self.unsigned::<N>(place)?, self.signed::<N>(place)?);
        same(wanted, if signed == wanted { signed } else { unsigned })
    }

    pub(super) fn unsigned<const N: usize>(&self, place: u64) -> Result<u64, Fault> {
        let bytes = self.memory.read::<N>(place);
        let bytes = bytes.ok_or_else(|| format!("its field at {place:#x} is not in the image"))?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(super) fn signed<const N: usize>(&self, place: u64) -> Result<u64, Fault> {
        let value = self.unsigned::<N>(place)?;
        let sign = 1_u64 << (8 * N - 1);
        Ok((value ^ sign).wrapping_sub(sign))
    }
}

/// The two bytes in front of a field in its object.
fn before(field: &Field<'_>) -> Option<[u8; 2]> {
    let offset = usize::try_from(field.relocation.offset).ok()?;
    field.code.get(offset.checked_sub(2)?..offset)?.first_chunk().copied()
}

/// True for the field of `call symbol` and `jmp symbol`, which some assemblers mark as a plain distance.
fn is_branch(field: &Field<'_>) -> bool {
    let offset = usize::try_from(field.relocation.offset).ok();
    let opcode = offset.and_then(|offset| field.code.get(offset.checked_sub(1)?));
    field.relocation.addend == -4 && matches!(opcode, Some(0xe8 | 0xe9))
}

fn same(wanted: u64, found: u64) -> Result<(), Fault> {
    if wanted == found {
        return Ok(());
    }
    Err(format!("it gives {found:#x} instead of {wanted:#x}"))
}
