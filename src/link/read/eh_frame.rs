//! `.eh_frame`: a list of records, some of which go away with the functions they describe.
//!
//! A record is a 4-byte length and that many bytes. The first four of those are 0 in a CIE; in an FDE they
//! are the distance back to its CIE. A length of 0 ends the list for every unwinder. So the records of all
//! objects lie back to back: an alignment gap of four zero bytes would hide all records behind it. One
//! terminator follows the last record.
//!
//! Invariant: [`pack`] changes no byte of a record except the distance to its CIE.

use std::ops::Range;

use crate::arch::edge::Edge;

/// One CIE or FDE.
#[derive(Debug)]
pub(crate) struct Record {
    /// Where it lies in its section, with its length.
    bytes: Range<u32>,
    /// Which of the section's edges lie in it.
    edges: Range<u32>,
    kind: RecordKind,
}

#[derive(Debug)]
enum RecordKind {
    Cie,
    /// The CIE, as an index into the records, and the symbol that marks the start of the function.
    Fde {
        cie: u32,
        function: Option<u32>,
    },
}

/// The length of a record, and the distance to its CIE.
const HEAD_BYTES: u32 = 8;

/// The size of the terminator.
pub(crate) const END_BYTES: u64 = 4;

/// Finds the records of a section. `edges` are sorted by offset.
///
/// # Errors
/// Says what is wrong with the section's bytes.
pub(crate) fn split(content: &[u8], edges: &[Edge]) -> Result<Vec<Record>, String> {
    let mut records: Vec<Record> = Vec::new();
    let mut edge = 0;
    let mut at = 0;
    while let Some(length) = word(content, at) {
        if length == 0 {
            at += 4;
            continue;
        }
        if length == u32::MAX {
            return Err(format!("record at offset {at:#x} is in the 64-bit format"));
        }
        let end = at.checked_add(4).and_then(|start| start.checked_add(length));
        let end = end.filter(|end| *end as usize <= content.len() && length >= 4);
        let Some(end) = end else {
            return Err(format!(
                "record at offset {at:#x} has length {length:#x}, and the section {:#x} bytes",
                content.len()
            ));
        };
        let count = |from: usize| edges[from..].iter().take_while(|e| e.offset < end).count();
        let first = edge + edges[edge..].iter().take_while(|e| e.offset < at).count();
        edge = first + count(first);
        let own = &edges[first..edge];
        if let Some(across) = own.iter().find(|e| e.offset + u32::from(e.kind.field_bytes) > end) {
            return Err(format!(
                "{} at offset {:#x} crosses the end of its record",
                across.kind.name, across.offset
            ));
        }
        if let Some(head) = own.first().filter(|edge| edge.offset < at + HEAD_BYTES) {
            return Err(format!(
                "{} at offset {:#x} changes the length of its record or the distance to its CIE",
                head.kind.name, head.offset
            ));
        }
        let kind = match word(content, at + 4) {
            Some(0) => RecordKind::Cie,
            distance => {
                let start = (at + 4).checked_sub(distance.unwrap_or(u32::MAX));
                let cie = start.and_then(|start| find_cie(&records, start)).ok_or_else(|| {
                    format!("record at offset {at:#x} is of no CIE in front of it")
                })?;
                let function = own.iter().find(|edge| edge.offset == at + 8).map(|e| e.target);
                RecordKind::Fde { cie, function }
            }
        };
        let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(edge)) else {
            return Err(format!("{} relocations are too many", edges.len()));
        };
        records.push(Record { bytes: at..end, edges: first..last, kind });
        at = end;
    }
    if (at as usize) < content.len() {
        return Err(format!("record at offset {at:#x} is cut off by the end of the section"));
    }
    Ok(records)
}

/// Which records are needed: the FDEs of functions that are live, and the CIEs of those FDEs. `is_live` says of a symbol
/// whether it marks a function that its object contributes.
pub(crate) fn kept(records: &[Record], mut is_live: impl FnMut(u32) -> bool) -> Vec<bool> {
    let mut kept = vec![false; records.len()];
    for (index, record) in records.iter().enumerate() {
        if let RecordKind::Fde { cie, function: Some(function) } = record.kind
            && is_live(function)
        {
            kept[index] = true;
            kept[cie as usize] = true;
        }
    }
    kept
}

/// The edges of the records that are kept.
pub(crate) fn kept_edges<'a>(
    records: &[Record],
    kept: &[bool],
    edges: &'a [Edge],
) -> impl Iterator<Item = &'a Edge> {
    let kept = records.iter().zip(kept).filter(|(_, kept)| **kept);
    kept.flat_map(|(record, _)| &edges[record.edges.start as usize..record.edges.end as usize])
}

/// The kept records, back to back, and their edges at the new offsets.
pub(crate) fn pack(
    content: &[u8],
    records: &[Record],
    kept: &[bool],
    edges: &[Edge],
) -> (Vec<u8>, Vec<Edge>) {
    let mut packed = Vec::with_capacity(content.len());
    let mut moved = Vec::with_capacity(edges.len());
    let mut starts = vec![0; records.len()];
    for (index, record) in records.iter().enumerate().filter(|(index, _)| kept[*index]) {
        // Both positions are below 4 GiB: the section is smaller than that, and packing only shrinks it.
        let start = u32::try_from(packed.len()).unwrap_or(u32::MAX);
        starts[index] = start;
        packed.extend_from_slice(&content[record.bytes.start as usize..record.bytes.end as usize]);
        if let RecordKind::Fde { cie, .. } = record.kind {
            let distance = start + 4 - starts[cie as usize];
            packed[start as usize + 4..][..4].copy_from_slice(&distance.to_le_bytes());
        }
        for edge in &edges[record.edges.start as usize..record.edges.end as usize] {
            moved.push(Edge { offset: edge.offset - record.bytes.start + start, ..*edge });
        }
    }
    (packed, moved)
}

fn word(content: &[u8], at: u32) -> Option<u32> {
    let bytes = content.get(at as usize..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*bytes))
}

fn find_cie(records: &[Record], start: u32) -> Option<u32> {
    let index = records.binary_search_by_key(&start, |record| record.bytes.start).ok()?;
    let is_cie = matches!(records[index].kind, RecordKind::Cie);
    u32::try_from(index).ok().filter(|_| is_cie)
}
