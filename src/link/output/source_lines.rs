//! The source lines of an object's code, from its DWARF line tables.
//!
//! Invariant: what is damaged or missing is skipped. Work and memory are at most proportional to the file's size.

use std::collections::HashMap;

use gimli::{
    AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugInfo, DebugLine, DebugLineOffset,
    EndianSlice, FileEntry, IncompleteLineProgram, LineProgramHeader, LineRow, UnitHeader,
};
use object::read::elf::FileHeader;

use super::debug_sections::{Header, LE, content, relocated};
use super::placed_object::PlacedObject;
use crate::addr::{AddrRange, ExecutorAddr};

/// The source line of the code from one address up to the next address that has a line.
///
/// # Examples
///
/// ```
#[doc = include_str!("../compile.txt")]
/// use farcall_link::ExecutorAddr;
/// use farcall_link::LinkGraph;
///
/// let mut graph = LinkGraph::new();
/// graph.add_object(&compile("int answer(void) {\n    return 42;\n}")?)?;
/// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
/// let mut lines = Vec::new();
/// for object in graph.layout()?.objects(bases) {
///     object.lines(|line| lines.push(line.line));
/// }
/// assert!(lines.contains(&2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLine<'a> {
    /// Where the code is.
    pub address: ExecutorAddr,
    /// The path of the source, absolute if the debug information says so.
    pub file: &'a str,
    /// The line, from 1.
    pub line: u32,
    /// Distinguishes blocks of code of the same line; 0 if there is only one.
    pub discriminator: u32,
}

type Text<'a> = EndianSlice<'a, gimli::LittleEndian>;

/// The most bytes of a part of a path. No file has a longer one.
const PART_BYTES_MAX: usize = 4096;
/// How many units have their working directory looked up. Relative paths of the others stay relative.
const UNITS_MAX: usize = 1024;
/// How much of a unit's abbreviations is read. Only the first one is needed.
const ABBREVIATION_BYTES_MAX: usize = 16 << 10;
/// The paths of all lines together have at most this many times the length of the file. Compilers need a few times; a damaged
/// table could name another long path every three bytes.
const PATH_TIMES: usize = 64;

/// The sections of an object that hold its line tables, relocated for its addresses.
struct Tables<'a> {
    info: Vec<u8>,
    line: Vec<u8>,
    abbreviations: &'a [u8],
    strings: &'a [u8],
    line_strings: &'a [u8],
}

impl PlacedObject {
    /// Calls `visit` for each line of the code that is in the image. The tables come in the order of the file; inside a
    /// sequence of code lines come in the order of addresses. There are no lines if the object was compiled without them, or if its debug
    /// information is compressed or damaged. All lines that are visited, with their paths, have a size at most proportional to
    /// the file's; the lines behind that limit are left out.
    pub fn lines(&self, mut visit: impl FnMut(SourceLine<'_>)) {
        let Some(tables) = Tables::read(self) else { return };
        let mut code: Vec<AddrRange> = self.code().collect();
        code.sort_unstable_by_key(|section| section.start);
        let is_there = |address: ExecutorAddr| {
            let after = code.partition_point(|section| section.start <= address);
            after.checked_sub(1).is_some_and(|at| code[at].contains(address))
        };
        let directories = tables.directories();
        let (mut next, mut left) = (0, PATH_TIMES.saturating_mul(self.object.bytes().len()));
        while let Some((program, end)) = tables.program(next, &directories) {
            // After a damaged row, the rest of the table is skipped.
            let _ = tables.visit(program, &mut left, &mut |line| {
                if is_there(line.address) {
                    visit(line);
                }
            });
            next = end;
        }
    }
}

impl<'a> Tables<'a> {
    fn read(object: &'a PlacedObject) -> Option<Self> {
        let bytes = object.object.bytes();
        let sections = Header::parse(bytes).ok()?.sections(LE, bytes).ok()?;
        let plain = |name| content(&sections, bytes, name).map_or(&[][..], |(_, content)| content);
        Some(Self {
            line: relocated(object, &sections, ".debug_line")?,
            info: relocated(object, &sections, ".debug_info").unwrap_or_default(),
            abbreviations: plain(".debug_abbrev"),
            strings: plain(".debug_str"),
            line_strings: plain(".debug_line_str"),
        })
    }

    /// The working directories of the units, by their line tables.
    fn directories(&self) -> HashMap<usize, &[u8]> {
        let info = DebugInfo::new(&self.info, gimli::LittleEndian);
        let mut units = info.units();
        let mut directories = HashMap::new();
        for _ in 0..UNITS_MAX {
            let Ok(Some(unit)) = units.next() else { break };
            if let Some((table, directory)) = self.directory(&unit) {
                directories.entry(table).or_insert(directory);
            }
        }
        directories
    }

    fn directory<'b>(&'b self, unit: &UnitHeader<Text<'b>>) -> Option<(usize, &'b [u8])> {
        let bytes = self.abbreviations.get(unit.debug_abbrev_offset().0..)?;
        let bytes = &bytes[..bytes.len().min(ABBREVIATION_BYTES_MAX)];
        let abbreviations = DebugAbbrev::new(bytes, gimli::LittleEndian);
        let abbreviations = abbreviations.abbreviations(DebugAbbrevOffset(0)).ok()?;
        let mut entries = unit.entries(&abbreviations);
        let root = entries.next_dfs().ok()??;
        let directory = self.text(root.attr_value(gimli::DW_AT_comp_dir)?)?;
        match root.attr_value(gimli::DW_AT_stmt_list)? {
            AttributeValue::DebugLineRef(DebugLineOffset(table)) => Some((table, directory)),
            _ => None,
        }
    }

    /// The line table at an offset, and the offset of the next one.
    fn program<'b>(
        &'b self,
        at: usize,
        directories: &HashMap<usize, &'b [u8]>,
    ) -> Option<(IncompleteLineProgram<Text<'b>>, usize)> {
        let lines = DebugLine::new(&self.line, gimli::LittleEndian);
        let directory = directories.get(&at).map(|text| Text::new(text, gimli::LittleEndian));
        let program = lines.program(DebugLineOffset(at), 8, directory, None).ok()?;
        let header = program.header();
        let length_bytes = usize::from(header.format().initial_length_size());
        let end = at.checked_add(length_bytes)?.checked_add(header.unit_length())?;
        Some((program, end))
    }

    fn visit(
        &self,
        program: IncompleteLineProgram<Text<'_>>,
        left: &mut usize,
        visit: &mut impl FnMut(SourceLine<'_>),
    ) -> gimli::Result<()> {
        // The file of the last row, and its path.
        let mut last: Option<(u64, Option<String>)> = None;
        let mut rows = program.rows();
        while let Some((header, row)) = rows.next_row()? {
            let Some(line) = line_of(row) else { continue };
            let index = row.file_index();
            if last.as_ref().is_none_or(|(of, _)| *of != index) {
                last = Some((index, row.file(header).and_then(|file| self.path(file, header))));
            }
            let Some((_, Some(file))) = &last else { continue };
            let Some(rest) = left.checked_sub(file.len()) else { break };
            *left = rest;
            let discriminator = u32::try_from(row.discriminator()).unwrap_or(0);
            let address = ExecutorAddr::new(row.address());
            visit(SourceLine { address, file, line, discriminator });
        }
        Ok(())
    }

    /// The path of a file: its name, behind its directory and the working directory unless it is absolute.
    fn path<'b>(
        &'b self,
        file: &FileEntry<Text<'b>>,
        header: &LineProgramHeader<Text<'b>>,
    ) -> Option<String> {
        let mut path = String::new();
        let working = header.directory(0);
        let of_file = file.directory(header).filter(|_| file.directory_index() != 0);
        for part in [working, of_file, Some(file.path_name())].into_iter().flatten() {
            let part = std::str::from_utf8(self.text(part)?).ok()?;
            if part.starts_with('/') {
                path.clear();
            } else if !path.is_empty() && !path.ends_with('/') {
                path.push('/');
            }
            path.push_str(part);
        }
        Some(path)
    }

    /// A part of a path.
    fn text<'b>(&'b self, value: AttributeValue<Text<'b>>) -> Option<&'b [u8]> {
        let text = match value {
            AttributeValue::String(text) => text.slice(),
            AttributeValue::DebugStrRef(at) => self.strings.get(at.0..)?,
            AttributeValue::DebugLineStrRef(at) => self.line_strings.get(at.0..)?,
            _ => return None,
        };
        let end = text.iter().take(PART_BYTES_MAX).position(|byte| *byte == 0);
        let is_whole = text.len() < PART_BYTES_MAX;
        end.or(is_whole.then_some(text.len())).map(|end| &text[..end])
    }
}

/// The line of a row, unless the row ends a sequence.
fn line_of(row: &LineRow) -> Option<u32> {
    let line = row.line().filter(|_| !row.end_sequence())?;
    u32::try_from(line.get()).ok()
}
