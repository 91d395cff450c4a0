//! Sections: each lies where it may, and holds the bytes of its file and the right fields.
//!
//! Invariant: every byte of every section is compared. `frames` and `arrays` do so for `.eh_frame` and the arrays.

use super::fields::{Field, Fields};
use super::memory::{CODE, DATA};
use super::names::{Meaning, Names, Object};
use super::raw::{Home, NO_BITS, Section, WRITE};
use super::windows::Windows;
use super::{Fault, Verified, say, threads};

impl Fields<'_, '_> {
    /// Checks all sections of an object.
    pub(super) fn check_sections(
        &self,
        number: usize,
        verified: &mut Verified,
    ) -> Result<(), Fault> {
        let object = &self.objects[number];
        for (index, section) in object.raw.sections.iter().enumerate() {
            let fault = |what: Fault| format!("section {}: {what}", say(section.name));
            if !section.is_loaded() {
                continue;
            }
            match object.at[index] {
                None => self.check_missing(number, index).map_err(fault)?,
                Some(_) if object.duplicate[index] => {
                    return Err(fault("it is a duplicate, and was not dropped".to_owned()));
                }
                Some(_) if object.elsewhere[index] => {}
                Some(at) => {
                    self.check_place(section, at).map_err(fault)?;
                    if !section.is_eh_frame() && section.array_kind().is_none() {
                        self.check_content(number, index, at, verified).map_err(fault)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that a section may be missing: it is a duplicate, or each name that it defines has another definition.
    fn check_missing(&self, number: usize, index: usize) -> Result<(), Fault> {
        let object = &self.objects[number];
        if object.duplicate[index] {
            return Ok(());
        }
        let section = &object.raw.sections[index];
        if may_have_bounds(section.name) || section.is_eh_frame() || section.array_kind().is_some()
        {
            return Err("it was dropped, and is used whether its names are or not".to_owned());
        }
        let mut names = 0;
        for (id, symbol) in object.raw.symbols.iter().enumerate() {
            if symbol.is_local() || symbol.home != Home::Section(index) {
                continue;
            }
            names += 1;
            if self.names.is_meant(number, id) {
                return Err(format!("it was dropped, and defines {}", say(symbol.name)));
            }
        }
        if names == 0 { Err("it was dropped".to_owned()) } else { Ok(()) }
    }

    fn check_place(&self, section: &Section<'_>, at: u64) -> Result<(), Fault> {
        if section.is_thread() && section.kind == NO_BITS {
            // It needs no bytes of a stripe; see `check_threads`.
            return Ok(());
        }
        let bytes = if section.is_eh_frame() { 0 } else { section.bytes };
        let stripe = self.memory.stripe(at, bytes);
        let stripe = stripe.ok_or_else(|| format!("{bytes} bytes at {at:#x} are in no stripe"))?;
        if section.is_executable() != (stripe == CODE) && bytes > 0 {
            return Err(format!("it is at {at:#x}, in stripe {stripe}"));
        }
        let is_data = section.flags & WRITE != 0 && !may_be_constant(section);
        if is_data && stripe != DATA && bytes > 0 {
            return Err(format!("it is at {at:#x}, in stripe {stripe}, and written to"));
        }
        let is_packed = section.is_eh_frame() || section.array_kind().is_some();
        if !is_packed && !at.is_multiple_of(section.alignment) {
            return Err(format!("it is at {at:#x} and wants alignment {}", section.alignment));
        }
        Ok(())
    }

    fn check_content(
        &self,
        number: usize,
        index: usize,
        at: u64,
        verified: &mut Verified,
    ) -> Result<(), Fault> {
        let raw = &self.objects[number].raw;
        let section = &raw.sections[index];
        let code = if section.is_executable() { section.content } else { &[] };
        let relocations = threads::without_calls(code, raw.relocations(index));
        let stored = self.memory.stored(at, section.bytes).unwrap_or_default();
        if section.is_thread() && section.kind == NO_BITS && relocations.is_empty() {
            return Ok(());
        }
        if section.kind != NO_BITS && stored.len() != section.content.len() {
            return Err(format!("{} of its {} bytes are stored", stored.len(), section.bytes));
        }
        let windows = Windows::new(&relocations, code, 0, stored.len())?;
        for (id, relocation) in relocations.into_iter().enumerate() {
            if windows.is_entangled(id) {
                verified.entangled += 1;
                continue;
            }
            let place = at.wrapping_add(relocation.offset);
            let is_tolerant = section.name.starts_with(b".gcc_except_table");
            self.check(&Field { object: number, relocation, place, code, is_tolerant })?;
            verified.fields += 1;
        }
        match windows.difference(section.content, stored) {
            Some(offset) => Err(format!("offset {offset:#x}: the byte is not that of the file")),
            None => Ok(()),
        }
    }
}

/// True for names from which `__start_X` can be made.
fn may_have_bounds(name: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    name.first().is_some_and(is_letter)
        && name.iter().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

/// True for sections that only relocations write, which may be in the stripe of constants.
fn may_be_constant(section: &Section<'_>) -> bool {
    let name = section.name;
    section.is_eh_frame()
        || section.is_thread()
        || section.array_kind().is_some()
        || name.starts_with(b".got")
        || [&b".data.rel.ro"[..], b".ldata.rel.ro", b".bss.rel.ro"]
            .iter()
            .any(|family| name.starts_with(family))
}

/// Checks that nothing overlaps, and that everything lies in a stripe. Memory that the linker allocated must be zeroes of the right
/// size and alignment.
pub(super) fn check_room(
    fields: &Fields<'_, '_>,
    eh_frame: Option<(u64, u64)>,
) -> Result<(), Fault> {
    let mut taken: Vec<(u64, u64, String)> = Vec::new();
    let mut take = |start: u64, bytes: u64, what: String| {
        if bytes > 0 {
            taken.push((start, start.saturating_add(bytes), what));
        }
    };
    for object in fields.objects {
        take_sections(object, &mut take);
    }
    take_rooms(fields, fields.names, &mut take)?;
    let (got, stubs) = (&fields.map.got, &fields.map.stubs);
    take(got.start, got.end - got.start, "the GOT".to_owned());
    take(stubs.start, stubs.end - stubs.start, "the stubs".to_owned());
    for island in &fields.map.islands {
        take(island.start, island.end - island.start, "stubs".to_owned());
    }
    for table in &fields.map.ifuncs {
        take(table.start, table.end - table.start, "a table of ifuncs".to_owned());
    }
    if let Some((start, end)) = eh_frame {
        take(start, end - start, "the unwind records".to_owned());
    }
    taken.sort();
    for pair in taken.windows(2) {
        let [(first, end, what), (second, _, other)] = pair else { continue };
        if second < end {
            return Err(format!("{what} at {first:#x} and {other} at {second:#x} overlap"));
        }
    }
    for (start, end, what) in &taken {
        if fields.memory.stripe(*start, end - start).is_none() {
            return Err(format!("{what} at {start:#x} is in no stripe"));
        }
    }
    Ok(())
}

fn take_sections(object: &Object<'_>, take: &mut impl FnMut(u64, u64, String)) {
    let places = object.at.iter().zip(&object.elsewhere).map(|(at, elsewhere)| match elsewhere {
        true => &None,
        false => at,
    });
    for (section, at) in object.raw.sections.iter().zip(places) {
        let is_stored_thread = section.is_thread() && section.kind != NO_BITS;
        if let (Some(at), false) = (at, section.is_eh_frame())
            && (is_stored_thread || !section.is_thread())
        {
            take(*at, section.bytes, format!("{}: section {}", object.name, say(section.name)));
        }
    }
}

fn take_rooms(
    fields: &Fields<'_, '_>,
    names: &Names<'_, '_>,
    take: &mut impl FnMut(u64, u64, String),
) -> Result<(), Fault> {
    for (name, meaning) in &names.meanings {
        let (bytes, alignment) = match *meaning {
            Meaning::Common { bytes, alignment } => (bytes, alignment),
            Meaning::None if names.room(name).is_some() => (8, 8),
            _ => continue,
        };
        let at = names.room(name).ok_or_else(|| format!("{} has no room", say(name)))?;
        if fields.memory.stripe(at, bytes) != Some(DATA) || !at.is_multiple_of(alignment.max(1)) {
            return Err(format!(
                "the {bytes} bytes of {} at {at:#x} are not data aligned to {alignment}",
                say(name)
            ));
        }
        let stored = fields.memory.stored(at, bytes).unwrap_or_default();
        if stored.iter().any(|byte| *byte != 0) {
            return Err(format!("{} at {at:#x} is not zero", say(name)));
        }
        take(at, bytes, say(name));
    }
    Ok(())
}
