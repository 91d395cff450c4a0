//! The unwind records of the image, walked as an unwinder walks them, and compared with the records of the objects.
//!
//! Invariant: the image has the records of the functions that it contains, each once, and no others.

use super::fields::{Field, Fields};
use super::names::plain_address;
use super::raw::{Relocation, u32_at};
use super::windows::Windows;
use super::{Fault, Verified, say};

/// A record of an object's `.eh_frame`.
struct Record {
    start: u64,
    end: u64,
    /// The record of its CIE, for an FDE.
    cie: Option<usize>,
    is_kept: bool,
}

impl Fields<'_, '_> {
    /// Checks the records from `start` to `end`, and the zero word that ends them.
    pub(super) fn check_frames(
        &self,
        range: Option<(u64, u64)>,
        verified: &mut Verified,
    ) -> Result<(), Fault> {
        let mut at = range.map(|(start, _)| start);
        for (number, object) in self.objects.iter().enumerate() {
            for (index, section) in object.raw.sections.iter().enumerate() {
                if section.is_loaded() && section.is_eh_frame() && object.at[index].is_some() {
                    self.check_list(number, index, &mut at, verified).map_err(|what| {
                        format!("{}: section {}: {what}", object.name, say(section.name))
                    })?;
                }
            }
        }
        match (at, range) {
            (Some(at), Some((_, end))) => {
                if self.memory.read(at) == Some([0; 4]) && at.wrapping_add(4) == end {
                    return Ok(());
                }
                Err(format!(
                    "the unwind records end at {at:#x}, without a zero word or not at {end:#x}"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the needed records of one section lie at `at`, and moves `at` behind them.
    fn check_list(
        &self,
        number: usize,
        index: usize,
        at: &mut Option<u64>,
        verified: &mut Verified,
    ) -> Result<(), Fault> {
        let raw = &self.objects[number].raw;
        let content = raw.sections[index].content;
        let relocations = raw.relocations(index);
        let records = self.records(number, content, &relocations)?;
        let mut places = vec![0; records.len()];
        for (id, record) in records.iter().enumerate().filter(|(_, record)| record.is_kept) {
            let place = at.ok_or("the image has no unwind records")?;
            places[id] = place;
            *at = Some(place + (record.end - record.start));
            let first = relocations.partition_point(|one| one.offset < record.start);
            let last = relocations.partition_point(|one| one.offset < record.end);
            let own = &relocations[first..last];
            self.check_record(number, content, record, own, place, verified)?;
            if let Some(cie) = record.cie {
                let distance = self.memory.i32_at(place + 4).map(i64::from);
                let found = distance.map(|distance| (place + 4).wrapping_add_signed(-distance));
                if found != Some(places[cie]) {
                    return Err(format!("the record at {place:#x} is not of its CIE"));
                }
            }
            verified.records += 1;
        }
        Ok(())
    }

    /// Checks the bytes of one record and the fields in them.
    fn check_record(
        &self,
        number: usize,
        content: &[u8],
        record: &Record,
        relocations: &[Relocation],
        place: u64,
        verified: &mut Verified,
    ) -> Result<(), Fault> {
        let Record { start, end, cie, .. } = *record;
        let found = self.memory.stored(place, end - start).unwrap_or_default();
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let wanted = range.and_then(|(start, end)| content.get(start..end)).unwrap_or_default();
        if found.len() != wanted.len() {
            return Err(format!("the record at {place:#x} is not stored"));
        }
        let windows = Windows::new(relocations, &[], start, found.len())?;
        for (id, relocation) in relocations.iter().enumerate() {
            if windows.is_entangled(id) {
                verified.entangled += 1;
                continue;
            }
            let (relocation, place) = (*relocation, place + (relocation.offset - start));
            let field = Field { object: number, relocation, place, code: &[], is_tolerant: false };
            self.check(&field)?;
            verified.fields += 1;
        }
        // `check_list` checks the distance to the CIE.
        let mut wanted = wanted.to_vec();
        if cie.is_some() {
            wanted[4..8].copy_from_slice(&found[4..8]);
        }
        match windows.difference(&wanted, found) {
            Some(offset) => {
                Err(format!("byte {offset} of the record at {place:#x} is not that of the file"))
            }
            None => Ok(()),
        }
    }

    /// The records of a section. A record is needed if its function is in the image and is the definition of its name.
    fn records(
        &self,
        number: usize,
        content: &[u8],
        relocations: &[Relocation],
    ) -> Result<Vec<Record>, Fault> {
        let mut records: Vec<Record> = Vec::new();
        let mut start = 0;
        while let Some(length) = u32_at(content, start) {
            let end = start + 4 + u64::from(length);
            if length == 0 {
                start = end;
                continue;
            }
            let distance = u32_at(content, start + 4).map(u64::from);
            let distance = distance.filter(|_| end <= content.len() as u64);
            let distance =
                distance.ok_or_else(|| format!("the record at {start:#x} is cut off"))?;
            let mut record = Record { start, end, cie: None, is_kept: false };
            if distance != 0 {
                let cie = (start + 4).checked_sub(distance);
                let cie = cie.and_then(|cie| records.binary_search_by_key(&cie, |r| r.start).ok());
                let cie = cie.ok_or_else(|| format!("the record at {start:#x} has no CIE"))?;
                let function = relocations.partition_point(|one| one.offset < start + 8);
                let function = relocations.get(function).filter(|one| one.offset == start + 8);
                record.is_kept = function.is_some_and(|one| self.is_function(number, one.symbol));
                record.cie = Some(cie);
                records[cie].is_kept |= record.is_kept;
            }
            records.push(record);
            start = end;
        }
        Ok(records)
    }

    /// True for the symbol of a function that the object itself contributes.
    fn is_function(&self, number: usize, index: usize) -> bool {
        let object = &self.objects[number];
        let symbol = object.raw.symbols.get(index);
        let is_there = symbol.is_some_and(|symbol| plain_address(object, symbol).is_some());
        is_there && self.names.is_meant_by_name(number, index)
    }
}
