//! The value that every relocated field must hold, by the formulas of the processor supplement, and the
//! instruction that must be around it.
//!
//! Each field is decoded as the processor or a program would use it. A branch is followed, through a stub if
//! there is one; a load from the GOT is looked up.
//!
//! Invariant: no table is shared with the linker.

use std::collections::HashMap;

use object::elf::{self, RelocationType};

use super::aarch64;
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
    /// The number of the processor.
    pub(super) machine: u16,
    /// The entries of the GOT by their values; empty where every field names its entry.
    pub(super) got_entries: HashMap<u64, Vec<u64>>,
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

/// The numbers by which some assemblers marked branches with a `bnd` prefix. The processor supplement has taken them back.
const R_X86_64_PC32_BND: RelocationType = RelocationType(39);
const R_X86_64_PLT32_BND: RelocationType = RelocationType(40);

/// The size of the field of a relocation; `None` for a relocation that objects do not have.
pub(super) fn field_bytes(kind: RelocationType) -> Option<u64> {
    Some(match kind {
        elf::R_X86_64_8 | elf::R_X86_64_PC8 => 1,
        elf::R_X86_64_16 | elf::R_X86_64_PC16 => 2,
        elf::R_X86_64_PC32
        | elf::R_X86_64_GOT32
        | elf::R_X86_64_PLT32
        | elf::R_X86_64_GOTPCREL
        | elf::R_X86_64_32
        | elf::R_X86_64_32S
        | elf::R_X86_64_TLSGD
        | elf::R_X86_64_TLSLD
        | elf::R_X86_64_DTPOFF32
        | elf::R_X86_64_GOTTPOFF
        | elf::R_X86_64_TPOFF32
        | elf::R_X86_64_GOTPC32
        | elf::R_X86_64_SIZE32
        | elf::R_X86_64_GOTPC32_TLSDESC
        | R_X86_64_PC32_BND
        | R_X86_64_PLT32_BND => 4,
        _ if is_got_load(kind) => 4,
        elf::R_X86_64_64
        | elf::R_X86_64_DTPOFF64
        | elf::R_X86_64_TPOFF64
        | elf::R_X86_64_PC64
        | elf::R_X86_64_GOTOFF64
        | elf::R_X86_64_GOT64
        | elf::R_X86_64_GOTPCREL64
        | elf::R_X86_64_GOTPC64
        | elf::R_X86_64_GOTPLT64
        | elf::R_X86_64_PLTOFF64
        | elf::R_X86_64_SIZE64 => 8,
        elf::R_X86_64_TLSDESC_CALL => 0,
        _ => return aarch64::field_bytes(kind),
    })
}

/// True for the field of an instruction that loads an address from the GOT, and that the linker may rewrite.
pub(super) fn is_got_load(kind: RelocationType) -> bool {
    matches!(
        kind,
        elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX | elf::R_X86_64_CODE_4_GOTPCRELX
    )
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
            elf::R_X86_64_64 => same(wanted, self.unsigned::<8>(place)?),
            elf::R_X86_64_32 => same(wanted, self.unsigned::<4>(place)?),
            elf::R_X86_64_32S => same(wanted, self.signed::<4>(place)?),
            elf::R_X86_64_16 => self.either::<2>(place, wanted),
            elf::R_X86_64_8 => self.either::<1>(place, wanted),
            elf::R_X86_64_PC16 => same(wanted, place.wrapping_add(self.signed::<2>(place)?)),
            elf::R_X86_64_PC8 => same(wanted, place.wrapping_add(self.signed::<1>(place)?)),
            elf::R_X86_64_PC64 => same(wanted, place.wrapping_add(self.unsigned::<8>(place)?)),
            elf::R_X86_64_PC32 | R_X86_64_PC32_BND if is_branch(field) => {
                self.branch(place, target, addend)
            }
            elf::R_X86_64_PC32 | R_X86_64_PC32_BND => {
                same(wanted, place.wrapping_add(self.signed::<4>(place)?))
            }
            elf::R_X86_64_PLT32 | R_X86_64_PLT32_BND => self.branch(place, target, addend),
            elf::R_X86_64_GOTOFF64 | elf::R_X86_64_PLTOFF64 => {
                same(wanted, got.wrapping_add(self.unsigned::<8>(place)?))
            }
            elf::R_X86_64_GOTPC32 | elf::R_X86_64_GOTPC64 => {
                let found = if kind == elf::R_X86_64_GOTPC32 {
                    self.signed::<4>(place)?
                } else {
                    self.unsigned::<8>(place)?
                };
                same(got.wrapping_add_signed(addend), place.wrapping_add(found))
            }
            elf::R_X86_64_SIZE32 | elf::R_X86_64_SIZE64 => {
                let found = if kind == elf::R_X86_64_SIZE32 {
                    self.unsigned::<4>(place)?
                } else {
                    self.unsigned::<8>(place)?
                };
                let size = self.names.size(field.object, symbol);
                same(size.ok_or("it has no size")?.wrapping_add_signed(addend), found)
            }
            elf::R_X86_64_GOT32
            | elf::R_X86_64_GOTPCREL
            | elf::R_X86_64_GOT64
            | elf::R_X86_64_GOTPCREL64
            | elf::R_X86_64_GOTPLT64 => {
                let is_wide = matches!(
                    kind,
                    elf::R_X86_64_GOT64 | elf::R_X86_64_GOTPCREL64 | elf::R_X86_64_GOTPLT64
                );
                let found =
                    if is_wide { self.unsigned::<8>(place)? } else { self.signed::<4>(place)? };
                let base = if matches!(kind, elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCREL64) {
                    place
                } else {
                    got
                };
                self.entry(base.wrapping_add(found).wrapping_sub(addend.cast_unsigned()), target)
            }
            _ if is_got_load(kind) => self.got_load(field, target),
            elf::R_X86_64_DTPOFF64
            | elf::R_X86_64_TPOFF64
            | elf::R_X86_64_TLSGD
            | elf::R_X86_64_TLSLD
            | elf::R_X86_64_DTPOFF32
            | elf::R_X86_64_GOTTPOFF
            | elf::R_X86_64_TPOFF32
            | elf::R_X86_64_GOTPC32_TLSDESC
            | elf::R_X86_64_TLSDESC_CALL => self.check_thread(field, target),
            _ if self.machine == aarch64::MACHINE => self.check_aarch64(field, target),
            _ => Err("the checker does not know this relocation".to_owned()),
        }
    }

    /// Checks that a branch ends at the symbol, or at a stub that jumps there.
    pub(super) fn branch(&self, place: u64, target: u64, addend: i64) -> Result<(), Fault> {
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
        self.entry(self.stub_word(found)?, target)
    }

    /// The word that the stub at an address jumps through.
    pub(super) fn stub_word(&self, stub: u64) -> Result<u64, Fault> {
        if self.machine == aarch64::MACHINE {
            return self.stub_word_aarch64(stub);
        }
        // jmp *word(%rip)
        if self.memory.read::<2>(stub) != Some([0xff, 0x25]) {
            return Err(format!("there is no stub at {stub:#x}"));
        }
        Ok((stub + 6).wrapping_add(self.signed::<4>(stub + 2)?))
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

    pub(super) fn either<const N: usize>(&self, place: u64, wanted: u64) -> Result<(), Fault> {
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

pub(super) fn same(wanted: u64, found: u64) -> Result<(), Fault> {
    if wanted == found {
        return Ok(());
    }
    Err(format!("it gives {found:#x} instead of {wanted:#x}"))
}
