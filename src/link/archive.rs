//! A static library: objects, of which a link takes those it needs.
//!
//! Invariant: a member is read when it is first needed and at most once for all links.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use object::read::archive::{
    ArchiveFile, ArchiveKind, ArchiveMember, ArchiveOffset, ArchiveSymbolIterator,
};

use super::ObjectFile;
use crate::error::{Error, Result};

/// An archive whose table of contents was read.
///
/// Immutable but for its cache of members, and cheap to clone; any number of threads may link it at the
/// same time. It keeps the bytes of the file alive.
#[derive(Clone)]
pub struct Archive(Arc<Contents>);

struct Contents {
    name: String,
    bytes: Arc<[u8]>,
    /// Which member, by the offset of its header, defines a name.
    definitions: HashMap<Box<str>, u64>,
    members: HashMap<u64, OnceLock<ObjectFile>>,
}

impl Archive {
    /// Reads the table of contents. `name` is how messages call the archive.
    ///
    /// An archive without a symbol table costs a look at all its members here; with one, members are read
    /// when a link needs them.
    ///
    /// # Errors
    /// The file is not an archive, is thin (holds only the names of its members), or is damaged.
    pub fn parse(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Result<Archive> {
        let (name, bytes) = (name.into(), bytes.into());
        let bad = |what: &str| Error::link(format!("{name}: {what}"));
        if bytes.starts_with(b"!<thin>\n") {
            return Err(bad("a thin archive, which holds only the names of its members; load \
                 those, or make a regular archive with `ar rcs`"));
        }
        if !bytes.starts_with(b"!<arch>\n") {
            return Err(bad("not an archive (does not start with `!<arch>`)"));
        }
        let damaged = |error: object::read::Error| {
            Error::link(format!("{name}: {error} (the archive has {} bytes)", bytes.len()))
        };
        let file = ArchiveFile::parse(&*bytes).map_err(damaged)?;
        if file.kind() == ArchiveKind::Coff {
            return Err(bad("an archive of Windows objects, not of ELF objects"));
        }
        let definitions = match file.symbols().map_err(damaged)? {
            Some(symbols) => index(&name, &file, symbols, &bytes)?,
            None => scan(&name, &file, &bytes)?,
        };
        let members = definitions.values().map(|offset| (*offset, OnceLock::new())).collect();
        Ok(Archive(Arc::new(Contents { name, bytes, definitions, members })))
    }

    /// The name given when it was read.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The names its members define, in no particular order.
    #[cfg(any(test, feature = "internals"))]
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.definitions.keys().map(|name| &**name)
    }

    /// The member that defines `name`, as the offset of its header.
    pub(super) fn find(&self, name: &str) -> Option<u64> {
        self.0.definitions.get(name).copied()
    }

    /// Reads the member at an offset that [`find`](Self::find) gave.
    ///
    /// # Errors
    /// There is no sound object at that offset.
    pub(super) fn member(&self, offset: u64) -> Result<ObjectFile> {
        let cell = self.0.members.get(&offset);
        if let Some(object) = cell.and_then(OnceLock::get) {
            return Ok(object.clone());
        }
        let damaged = |error: object::read::Error| {
            let Contents { name, bytes, .. } = &*self.0;
            let size = bytes.len();
            Error::link(format!("{name}: member at offset {offset}: {error} ({size} bytes in all)"))
        };
        let file = ArchiveFile::parse(&*self.0.bytes).map_err(damaged)?;
        let member = file.member(ArchiveOffset(offset)).map_err(damaged)?;
        let content = member.data(&*self.0.bytes).map_err(damaged)?;
        let object = ObjectFile::parse(member_name(&self.0.name, &member), content)?;
        if let Some(cell) = cell {
            // Another thread may have been first; its copy is as good.
            let _ = cell.set(object.clone());
        }
        Ok(object)
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Archive")
            .field("name", &self.0.name)
            .field("definitions", &self.0.definitions.len())
            .finish_non_exhaustive()
    }
}

/// Reads the symbol table. Every member it names has to be one that a walk over the archive meets, so that
/// members do not overlap.
fn index(
    archive: &str,
    file: &ArchiveFile<'_>,
    symbols: ArchiveSymbolIterator<'_>,
    bytes: &[u8],
) -> Result<HashMap<Box<str>, u64>> {
    let damaged = |what: &dyn fmt::Display| {
        Error::link(format!("{archive}: {what} (the archive has {} bytes)", bytes.len()))
    };
    let mut starts = HashSet::new();
    for member in file.members() {
        let member = member.map_err(|error| damaged(&error))?;
        // An archive that was cut short is found out here, not when a link happens to want what is missing.
        member.data(bytes).map_err(|error| damaged(&error))?;
        starts.extend(header_offset(&member, bytes));
    }
    let mut definitions = HashMap::new();
    let mut bytes_left = bytes.len();
    for symbol in symbols {
        let symbol = symbol.map_err(|error| damaged(&error))?;
        let (name, offset) = (symbol.name(), symbol.offset().0);
        bytes_left = bytes_left
            .checked_sub(name.len())
            .ok_or_else(|| damaged(&"the names in its symbol table overlap"))?;
        if !starts.contains(&offset) {
            return Err(damaged(&format!(
                "its symbol table names a member at offset {offset}, where none starts; run ranlib"
            )));
        }
        if let Ok(name) = std::str::from_utf8(name) {
            definitions.entry(name.into()).or_insert(offset);
        }
    }
    Ok(definitions)
}

/// Reads all members to learn what they define. Members that are not objects are passed over, as an archive
/// may hold anything.
fn scan(archive: &str, file: &ArchiveFile<'_>, bytes: &[u8]) -> Result<HashMap<Box<str>, u64>> {
    let mut definitions = HashMap::new();
    for member in file.members() {
        let damaged = |error| {
            Error::link(format!("{archive}: {error} (the archive has {} bytes)", bytes.len()))
        };
        let member = member.map_err(damaged)?;
        let content = member.data(bytes).map_err(damaged)?;
        if !content.starts_with(b"\x7fELF") {
            continue;
        }
        let object = ObjectFile::parse(member_name(archive, &member), content)?;
        let Some(offset) = header_offset(&member, bytes) else { continue };
        for name in object.definitions() {
            definitions.entry(name.into()).or_insert(offset);
        }
    }
    Ok(definitions)
}

fn member_name(archive: &str, member: &ArchiveMember<'_>) -> String {
    let name = member.name();
    let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
    format!("{archive}({})", name.replace(char::is_control, "?"))
}

/// What is shown of a member's name; names may share their bytes.
const NAME_BYTES_MAX: usize = 256;

/// Where the header of a member starts, as symbol tables give it.
fn header_offset(member: &ArchiveMember<'_>, bytes: &[u8]) -> Option<u64> {
    let header = std::ptr::from_ref(member.header()?).addr();
    Some(header.checked_sub(bytes.as_ptr().addr())? as u64)
}
