//! Thread-locals: where they are, and that the code around a relocation reaches them.
//!
//! An offset counts from the thread pointer. Code that asked a function for the address of a thread-local was
//! rewritten. The checker reads the result as the processor would execute it, instruction by instruction. A dynamic
//! thread-local is a number of a TLS module and a distance in its TLS block. Code that finds it must still call the
//! right function with these two words.
//!
//! Invariant: the sequences before and after come from the processor supplement, not taken from the linker.

use std::ops::Range;

use object::elf::{self, RelocationType};

use super::aarch64;
use super::fields::{Field, Fields};
use super::names::{Meaning, Object};
use super::raw::{NO_BITS, Relocation, Section, THREAD};
use super::{Fault, say};
use crate::output::image::TlsBlock;

impl Section<'_> {
    /// True for thread-locals.
    pub(super) fn is_thread(&self) -> bool {
        self.flags & THREAD != 0
    }
}

/// The bytes of code that a relocation of a thread-local may change, as offsets in the section.
pub(super) fn window(code: &[u8], relocation: &Relocation) -> Option<Range<u64>> {
    let Relocation { offset, kind, .. } = *relocation;
    let field = usize::try_from(offset).ok()?;
    let behind = code.get(field..)?.get(4..).unwrap_or_default();
    let end = offset + 4;
    if let Some(window) = aarch64::sequence(relocation) {
        return Some(window);
    }
    Some(match kind {
        // lea x(%rip),%rdi and a call; the first may have a prefix
        elf::R_X86_64_TLSGD | elf::R_X86_64_TLSLD => {
            let first = field.checked_sub(4).and_then(|at| code.get(at));
            let is_long = kind == elf::R_X86_64_TLSGD && first == Some(&0x66);
            let call = match behind {
                [0xe8, ..] => 5,
                [0x67, 0xe8, ..] | [0xff, 0x15, ..] => 6,
                [0x66, 0x66, 0x48, 0xe8, ..]
                | [0x66, 0x48, 0x67, 0xe8, ..]
                | [0x66, 0x48, 0xff, 0x15, ..] => 8,
                // movabs, add, call
                [0x48, 0xb8, ..] => 15,
                _ => return None,
            };
            offset.checked_sub(if is_long { 4 } else { 3 })?..end + call
        }
        // An instruction of seven bytes.
        elf::R_X86_64_GOTTPOFF | elf::R_X86_64_GOTPC32_TLSDESC => offset.checked_sub(3)?..end,
        // call *(%rax)
        elf::R_X86_64_TLSDESC_CALL => offset..offset + 2,
        _ => return None,
    })
}

/// The relocations, sorted by offset, without the relocations of calls that are rewritten with the load in front of them.
pub(super) fn without_calls(code: &[u8], relocations: Vec<Relocation>) -> Vec<Relocation> {
    let mut call = None;
    // The other two relocations of a sequence of AArch64.
    let mut others = Vec::new();
    let stays = |relocation: &Relocation| {
        let is_it = |other: &(u64, RelocationType)| *other == (relocation.offset, relocation.kind);
        if let Some(found) = others.iter().position(is_it) {
            others.remove(found);
            return false;
        }
        if aarch64::sequence(relocation).is_some() {
            let at = |distance: u64| relocation.offset.saturating_add(distance);
            others =
                vec![(at(4), elf::R_AARCH64_TLSGD_ADD_LO12_NC), (at(8), elf::R_AARCH64_CALL26)];
        }
        if call == Some(relocation.offset) {
            call = None;
            return false;
        }
        if let (elf::R_X86_64_TLSGD | elf::R_X86_64_TLSLD, Some(window)) =
            (relocation.kind, window(code, relocation))
        {
            // The call ends with its field. In the large code model two instructions follow the field.
            let is_far = window.end == relocation.offset + 4 + 15;
            call = Some(window.end - if is_far { 13 } else { 4 });
        }
        true
    };
    relocations.into_iter().filter(stays).collect()
}

impl Fields<'_, '_> {
    /// Checks that every thread-local is in the TLS block, at its alignment, and that none overlap.
    pub(super) fn check_threads(&self, block: Option<TlsBlock>) -> Result<(), Fault> {
        let told = block.map(|block| (block.initial.start.get(), block.offset.cast_unsigned()));
        if told != self.map.threads {
            return Err(format!("the thread-locals are said to be at {told:x?}"));
        }
        if block.is_some_and(|block| block.module != self.map.tls_module) {
            return Err(format!(
                "the thread-locals are not said to be TLS module {:?}",
                self.map.tls_module
            ));
        }
        let mut taken: Vec<(u64, u64, String)> = Vec::new();
        for object in self.objects {
            for (section, at) in object.raw.sections.iter().zip(&object.at) {
                let Some(at) = at.filter(|_| section.is_thread() && section.bytes > 0) else {
                    continue;
                };
                let what = format!("{}: section {}", object.name, say(section.name));
                let block = block.ok_or_else(|| format!("{what}: there is no TLS block for it"))?;
                let checked = check_place(section, at, object, block);
                checked.map_err(|fault| format!("{what}: {fault}"))?;
                taken.push((at, at.wrapping_add(section.bytes), what));
            }
        }
        taken.sort();
        for pair in taken.windows(2) {
            let [(_, end, what), (start, _, other)] = pair else { continue };
            if start < end {
                return Err(format!("{what} and {other} overlap among the thread-locals"));
            }
        }
        Ok(())
    }

    /// Checks a field of a thread-local with this offset, and the code around it.
    pub(super) fn check_thread(&self, field: &Field<'_>, offset: u64) -> Result<(), Fault> {
        let Relocation { kind, addend, .. } = field.relocation;
        let place = field.place;
        let with_addend = offset.wrapping_add_signed(addend);
        let is_code = !field.code.is_empty();
        let module =
            if kind == elf::R_X86_64_TLSLD { self.map.tls_module } else { self.tls_module(field)? };
        match (kind, module) {
            (elf::R_X86_64_DTPOFF64 | elf::R_X86_64_DTPOFF32, module)
                if module != self.map.tls_module =>
            {
                return Err("it is a distance in the TLS block of another link".to_owned());
            }
            (
                elf::R_X86_64_TPOFF64 | elf::R_X86_64_GOTTPOFF | elf::R_X86_64_TPOFF32,
                Some(module),
            ) => {
                return Err(format!(
                    "it wants a constant offset of what is in TLS module {module}"
                ));
            }
            (elf::R_X86_64_TLSGD, Some(module)) => return self.check_call(field, module, offset),
            (elf::R_X86_64_TLSLD, Some(module)) => return self.check_call(field, module, 0),
            (elf::R_X86_64_GOTPC32_TLSDESC, Some(module)) => {
                return self.check_descriptor(field, module, offset);
            }
            (elf::R_X86_64_TLSDESC_CALL, Some(_)) => {
                let found = self.memory.read::<2>(place);
                let is_call = found == Some([0xff, 0x10]);
                return is_call
                    .then_some(())
                    .ok_or_else(|| format!("the call became {found:02x?}"));
            }
            _ => {}
        }
        match kind {
            // Code adds them to the thread pointer or to the TLS block; it has no other address.
            elf::R_X86_64_DTPOFF64 | elf::R_X86_64_DTPOFF32 => {
                let start = if is_code { 0 } else { self.map.threads.unwrap_or_default().1 };
                self.check_offset(
                    place,
                    kind == elf::R_X86_64_DTPOFF64,
                    with_addend.wrapping_sub(start),
                )
            }
            elf::R_X86_64_TPOFF64 | elf::R_X86_64_TPOFF32 => {
                self.check_offset(place, kind == elf::R_X86_64_TPOFF64, with_addend)
            }
            elf::R_X86_64_TLSGD | elf::R_X86_64_TLSLD => {
                let wanted = if kind == elf::R_X86_64_TLSGD { offset } else { 0 };
                let (_, code) = self.rewritten(field)?;
                let found = executed(&code).ok_or_else(|| format!("it became {code:02x?}"))?;
                same(wanted, found)
            }
            elf::R_X86_64_GOTTPOFF | elf::R_X86_64_GOTPC32_TLSDESC => {
                let old = before(field);
                let new = old.and_then(|_| self.memory.read::<3>(place.wrapping_sub(3)));
                let found = self.signed::<4>(place)?;
                if kind == elf::R_X86_64_GOTTPOFF && old == new {
                    return self
                        .entry(place.wrapping_add_signed(-addend).wrapping_add(found), offset);
                }
                let (Some(old), Some(new)) = (old, new) else {
                    return Err("it stands in code that no compiler writes".to_owned());
                };
                if !does_the_same(old, new) {
                    return Err(format!("{old:02x?} became {new:02x?}"));
                }
                same(offset, found)
            }
            elf::R_X86_64_TLSDESC_CALL => match self.memory.read::<2>(place) {
                Some([0x66, 0x90]) => Ok(()),
                other => Err(format!("the call became {other:02x?}")),
            },
            _ => Err("the checker does not know this relocation".to_owned()),
        }
    }

    /// The number of the TLS module of a thread-local; `None` when it has a constant offset.
    pub(super) fn tls_module(&self, field: &Field<'_>) -> Result<Option<u32>, Fault> {
        let (definer, _, symbol) = self.names.definition(field.object, field.relocation.symbol)?;
        let is_outside = matches!(self.names.meaning(symbol.name), Meaning::Outside(_));
        Ok(match definer {
            Some(_) => self.map.tls_module,
            None if is_outside => {
                let name = std::str::from_utf8(symbol.name).unwrap_or_default();
                self.map.externals.get(name).and_then(|external| external.found.tls_module)
            }
            None => self.map.tls_module.filter(|_| symbol.name == b"_TLS_MODULE_BASE_"),
        })
    }

    /// Checks that the code calls the function that finds dynamic thread-locals, with these words.
    fn check_call(&self, field: &Field<'_>, module: u32, distance: u64) -> Result<(), Fault> {
        let (start, code) = self.rewritten(field)?;
        let (words, function) =
            called(&code, start).ok_or_else(|| format!("it became {code:02x?}"))?;
        let (wanted, _) =
            self.map.thread_functions.ok_or("no function for thread-locals was defined")?;
        self.stub(function, wanted)?;
        self.entry(words, module.into())?;
        self.entry(words.wrapping_add(8), distance)
    }

    /// Checks that the code loads the address of a descriptor with these words.
    fn check_descriptor(&self, field: &Field<'_>, module: u32, distance: u64) -> Result<(), Fault> {
        let old = before(field)
            .filter(|old| matches!(old, [0x48 | 0x4c, 0x8d, operands] if operands & 0xc7 == 5));
        let new = self.memory.read::<3>(field.place.wrapping_sub(3));
        if old.is_none() || old != new || field.relocation.addend != -4 {
            return Err(format!("{old:02x?} became {new:02x?}"));
        }
        let found = self.signed::<4>(field.place)?;
        let descriptor = field.place.wrapping_add(4).wrapping_add(found);
        let (_, wanted) =
            self.map.thread_functions.ok_or("no function for thread-locals was defined")?;
        self.entry(descriptor, wanted)?;
        self.entry(descriptor.wrapping_add(8), module.into())?;
        self.entry(descriptor.wrapping_add(16), distance)
    }

    fn check_offset(&self, place: u64, is_wide: bool, wanted: u64) -> Result<(), Fault> {
        let found = if is_wide { self.unsigned::<8>(place)? } else { self.signed::<4>(place)? };
        same(wanted, found)
    }

    /// The code in the image that a relocation may change, and its address.
    fn rewritten(&self, field: &Field<'_>) -> Result<(u64, Vec<u8>), Fault> {
        let window = window(field.code, &field.relocation);
        let window = window.ok_or("it stands in code that no compiler writes")?;
        let start = field.place.wrapping_sub(field.relocation.offset).wrapping_add(window.start);
        let code = self.memory.stored(start, window.end - window.start);
        Ok((start, code.ok_or("its code is not in the image")?.to_vec()))
    }
}

fn check_place(
    section: &Section<'_>,
    at: u64,
    object: &Object<'_>,
    block: TlsBlock,
) -> Result<(), Fault> {
    let start = block.initial.start.get();
    let offset = at.wrapping_add(object.thread_shift);
    if !offset.is_multiple_of(section.alignment) {
        let alignment = section.alignment;
        return Err(format!(
            "it is {offset:#x} from the thread pointer, not aligned to {alignment}"
        ));
    }
    let end = at.saturating_add(section.bytes);
    if at < start || end > start.saturating_add(block.bytes) {
        return Err(format!("it is at {at:#x}, outside of the TLS block"));
    }
    let initial_end = block.initial.end.get();
    if end > initial_end && (section.kind != NO_BITS || at < initial_end) {
        return Err(format!("its initial values reach to {end:#x}, beyond those of the TLS block"));
    }
    Ok(())
}

/// The value of `%rax` after this code, as an offset from the thread pointer.
fn executed(mut code: &[u8]) -> Option<u64> {
    let mut value = None;
    loop {
        code = match code {
            [] => return value,
            // no-operations
            [0x66, 0x0f, 0x1f, 0x44, 0, 0, rest @ ..]
            | [0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, rest @ ..] => rest,
            // a prefix without a meaning
            [0x66, rest @ ..] => rest,
            // mov %fs:0,%rax
            [0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, rest @ ..] => {
                value = Some(0);
                rest
            }
            // lea distance(%rax),%rax
            [0x48, 0x8d, 0x80, a, b, c, d, rest @ ..] => {
                let distance = i64::from(i32::from_le_bytes([*a, *b, *c, *d]));
                value = Some(value?.wrapping_add_signed(distance));
                rest
            }
            _ => return None,
        };
    }
}

/// The value of `%rdi` when code at `start` calls a function, and the address of the function.
fn called(mut code: &[u8], start: u64) -> Option<(u64, u64)> {
    let bytes = code.len();
    let (mut argument, mut function) = (None, None);
    loop {
        let from_end = |rest: &[u8], distance: [u8; 4]| {
            let end = start.wrapping_add((bytes - rest.len()) as u64);
            end.wrapping_add_signed(i32::from_le_bytes(distance).into())
        };
        code = match code {
            [] => return argument.zip(function),
            // a no-operation
            [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, rest @ ..] => rest,
            // prefixes without a meaning
            [0x66, 0x48 | 0x66, ..] | [0x48 | 0x67, 0xe8, ..] => &code[1..],
            // lea distance(%rip),%rdi
            [0x48, 0x8d, 0x3d, a, b, c, d, rest @ ..] if argument.is_none() => {
                argument = Some(from_end(rest, [*a, *b, *c, *d]));
                rest
            }
            // call distance
            [0xe8, a, b, c, d, rest @ ..] if argument.is_some() && function.is_none() => {
                function = Some(from_end(rest, [*a, *b, *c, *d]));
                rest
            }
            _ => return None,
        };
    }
}

/// The three bytes in front of a field in its object.
fn before(field: &Field<'_>) -> Option<[u8; 3]> {
    let offset = usize::try_from(field.relocation.offset).ok()?;
    field.code.get(offset.checked_sub(3)?..offset)?.first_chunk().copied()
}

/// True when two instructions do the same. `old` ends with the place from which it loads a value, or where it computes one; `new`
/// ends with the value. Both are given by their first three bytes.
fn does_the_same(old: [u8; 3], new: [u8; 3]) -> bool {
    let [prefix @ (0x48 | 0x4c), opcode, operands] = old else { return false };
    if operands & 0xc7 != 5 {
        return false;
    }
    let (upper, lower) = (prefix >> 2 & 1, operands >> 3);
    // The prefix for the register in the last operand, and for the register in both.
    let (last, both) = (0x48 | upper, 0x48 | upper | upper << 2);
    match opcode {
        0x8b | 0x8d => new == [last, 0xc7, 0xc0 | lower],
        // `lea` has no such form for two of the registers.
        0x03 if lower == 4 => new == [last, 0x81, 0xc4],
        0x03 => new == [both, 0x8d, 0x80 | lower << 3 | lower],
        _ => false,
    }
}

fn same(wanted: u64, found: u64) -> Result<(), Fault> {
    let (wanted, found) = (wanted.cast_signed(), found.cast_signed());
    if wanted == found {
        return Ok(());
    }
    Err(format!("it reaches {found} from the thread pointer instead of {wanted}"))
}
