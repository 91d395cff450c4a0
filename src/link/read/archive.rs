//! A static library: objects, of which a link takes those that it needs.
//!
//! A *thin* archive holds only the names of its members, which are files beside it. The caller supplies a function that reads
//! them.
//!
//! Invariant: a member is read when it is first needed, and kept for all links. Two threads that need it at once may both
//! read it.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use object::read::archive::{
    ArchiveFile, ArchiveKind, ArchiveMember, ArchiveOffset, ArchiveSymbolIterator,
};

use super::file_bytes::FileBytes;
use super::object_file::ObjectFile;
use crate::error::{Error, Result};

/// An archive whose table of contents was read.
///
/// Immutable except for its cache of members, and cheap to clone. Any number of threads may link it at the same time. The
/// archive, and every object that was read from it, keeps the bytes of the file alive: members are not copied.
///
/// # Examples
///
/// ```
/// use farcall::link::Archive;
///
/// // An archive without members.
/// let archive = Archive::parse("libempty.a", *b"!<arch>\n")?;
/// assert_eq!(archive.name(), "libempty.a");
/// assert!(archive.member_defining("answer")?.is_none());
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Clone)]
pub struct Archive(Arc<Contents>);

struct Contents {
    name: String,
    bytes: FileBytes,
    /// For each name the member that defines it, as the offset of its header.
    definitions: HashMap<Box<str>, u64>,
    members: HashMap<u64, OnceLock<ObjectFile>>,
    /// How the members of a thin archive are read.
    read: Option<ReadMember>,
}

type ReadMember = Box<dyn Fn(&str) -> io::Result<Vec<u8>> + Send + Sync>;

impl Archive {
    /// Reads the table of contents. `name` is the archive's name in messages. The bytes are owned, for the reasons that
    /// [`ObjectFile::parse`] gives. Neither a `Vec` nor a member is copied.
    ///
    /// If the archive has no symbol table, all its members are read here. Otherwise members are read when a link needs them.
    ///
    /// # Errors
    /// The file is not an archive, is thin (see [`parse_thin`](Self::parse_thin)), or is damaged.
    pub fn parse(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Result<Archive> {
        let (name, bytes) = (name.into(), FileBytes::from(bytes.into()));
        let bad = |what: &str| Err(Error::link(format!("{name}: {what}")));
        if bytes.starts_with(THIN) {
            return bad("a thin archive, which holds only the names of its members; read it with \
                 Archive::parse_thin, or make a regular archive with `ar rcs`");
        }
        if !bytes.starts_with(REGULAR) {
            return bad("not an archive (does not start with `!<arch>`)");
        }
        Self::read(name, bytes, None)
    }

    /// Reads the table of contents of a thin archive. `read` takes the path of a member, relative to the folder of the
    /// archive, and returns its bytes. Any thread that links the archive may call it. It is called at most once for each
    /// member, except when two threads need the member at the same time.
    ///
    /// # Errors
    /// The file is not a thin archive or is damaged, or it has no symbol table and a member cannot be read.
    pub fn parse_thin(
        name: impl Into<String>,
        bytes: impl Into<Vec<u8>>,
        read: impl Fn(&str) -> io::Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Result<Archive> {
        let (name, bytes) = (name.into(), FileBytes::from(bytes.into()));
        if !bytes.starts_with(THIN) {
            return Err(Error::link(format!(
                "{name}: not a thin archive (does not start with `!<thin>`)"
            )));
        }
        Self::read(name, bytes, Some(Box::new(read)))
    }

    /// True for the bytes of a thin archive.
    #[must_use]
    pub fn is_thin(bytes: &[u8]) -> bool {
        bytes.starts_with(THIN)
    }

    fn read(name: String, bytes: FileBytes, read: Option<ReadMember>) -> Result<Archive> {
        let mut contents =
            Contents { name, bytes, definitions: HashMap::new(), members: HashMap::new(), read };
        let file = ArchiveFile::parse(&*contents.bytes).map_err(|error| contents.damaged(error))?;
        if file.kind() == ArchiveKind::Coff {
            return Err(contents.error("an archive of Windows objects, not of ELF objects"));
        }
        let symbols = file.symbols().map_err(|error| contents.damaged(error))?;
        let definitions = match symbols {
            Some(symbols) => contents.index(&file, symbols)?,
            None => contents.scan(&file)?,
        };
        let members = definitions.values().map(|offset| (*offset, OnceLock::new())).collect();
        (contents.definitions, contents.members) = (definitions, members);
        Ok(Archive(Arc::new(contents)))
    }

    /// The name given when it was read.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The names its members define, in no particular order.
    #[cfg(any(test, feature = "internals"))]
    pub(in crate::link) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.definitions.keys().map(|name| &**name)
    }

    /// The member that defines `name`, if there is one.
    ///
    /// # Errors
    /// It is not a sound object.
    pub fn member_defining(&self, name: &str) -> Result<Option<ObjectFile>> {
        self.find(name).map(|offset| self.member(offset)).transpose()
    }

    /// The member that defines `name`, as the offset of its header.
    pub(in crate::link) fn find(&self, name: &str) -> Option<u64> {
        self.0.definitions.get(name).copied()
    }

    /// Reads the member at an offset that [`find`](Self::find) returned.
    ///
    /// # Errors
    /// There is no sound object at that offset.
    pub(in crate::link) fn member(&self, offset: u64) -> Result<ObjectFile> {
        let contents = &*self.0;
        let cell = contents.members.get(&offset);
        if let Some(object) = cell.and_then(OnceLock::get) {
            return Ok(object.clone());
        }
        let damaged = |error| contents.damaged(format!("member at offset {offset}: {error}"));
        let file = ArchiveFile::parse(&*contents.bytes).map_err(damaged)?;
        let member = file.member(ArchiveOffset(offset)).map_err(damaged)?;
        let object = ObjectFile::read(contents.name_of(&member), contents.content(&member)?)?;
        if let Some(cell) = cell {
            // If another thread was first, its copy is as good.
            let _ = cell.set(object.clone());
        }
        Ok(object)
    }
}

impl Contents {
    fn error(&self, what: impl fmt::Display) -> Error {
        Error::link(format!("{}: {what}", self.name))
    }

    fn damaged(&self, what: impl fmt::Display) -> Error {
        let hint = match &self.read {
            Some(_) => "; a thin archive cannot have members that lie in other archives",
            None => "",
        };
        self.error(format!("{what} (the archive has {} bytes{hint})", self.bytes.len()))
    }

    /// The bytes of a member. They are not copied; those of a thin archive are read.
    fn content(&self, member: &ArchiveMember<'_>) -> Result<FileBytes> {
        let Some(read) = self.read.as_ref().filter(|_| member.is_thin()) else {
            let (start, bytes) = member.file_range();
            let content = self.bytes.part(start, bytes);
            return content.ok_or_else(|| {
                self.damaged(format!("{bytes} bytes of a member at offset {start} are missing"))
            });
        };
        let file = std::str::from_utf8(member.name());
        let file = file.map_err(|error| self.damaged(format!("name of a member: {error}")))?;
        let content = read(file).map_err(|error| {
            Error::link(format!(
                "{}: {error}; the members of a thin archive are files beside it",
                self.name_of(member)
            ))
        })?;
        Ok(FileBytes::from(content))
    }

    /// The name of a member in messages.
    fn name_of(&self, member: &ArchiveMember<'_>) -> String {
        let name = member.name();
        let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
        format!("{}({})", self.name, name.replace(char::is_control, "?"))
    }

    /// Reads the symbol table. Every member that it names must start where a walk over the archive finds a member, so members
    /// do not overlap.
    fn index(
        &self,
        file: &ArchiveFile<'_>,
        symbols: ArchiveSymbolIterator<'_>,
    ) -> Result<HashMap<Box<str>, u64>> {
        let mut starts = HashSet::new();
        for member in file.members() {
            let member = member.map_err(|error| self.damaged(error))?;
            // This finds an archive that was cut short now, and not when a link needs what is missing.
            member.data(&*self.bytes).map_err(|error| self.damaged(error))?;
            starts.extend(header_offset(&member, &self.bytes));
        }
        let mut definitions = HashMap::new();
        let mut bytes_left = self.bytes.len();
        for symbol in symbols {
            let symbol = symbol.map_err(|error| self.damaged(error))?;
            let (name, offset) = (symbol.name(), symbol.offset().0);
            bytes_left = bytes_left
                .checked_sub(name.len())
                .ok_or_else(|| self.damaged("the names in its symbol table overlap"))?;
            if !starts.contains(&offset) {
                return Err(self.damaged(format!(
                    "its symbol table names a member at offset {offset}, where none starts; run ranlib"
                )));
            }
            if let Ok(name) = std::str::from_utf8(name) {
                definitions.entry(name.into()).or_insert(offset);
            }
        }
        Ok(definitions)
    }

    /// Reads all members and indexes what they define. Members that are not objects are skipped, because an archive may
    /// hold anything.
    fn scan<'a>(&'a self, file: &ArchiveFile<'a>) -> Result<HashMap<Box<str>, u64>> {
        let mut definitions = HashMap::new();
        for member in file.members() {
            let member = member.map_err(|error| self.damaged(error))?;
            let content = self.content(&member)?;
            if !content.starts_with(b"\x7fELF") {
                continue;
            }
            let object = ObjectFile::read(self.name_of(&member), content)?;
            let Some(offset) = header_offset(&member, &self.bytes) else { continue };
            for name in object.definitions() {
                definitions.entry(name.into()).or_insert(offset);
            }
        }
        Ok(definitions)
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

/// The first bytes of archives.
const REGULAR: &[u8] = b"!<arch>\n";
const THIN: &[u8] = b"!<thin>\n";

/// How much of a member's name messages show. Members may share the bytes of their names, so the names of all could be long.
const NAME_BYTES_MAX: usize = 256;

/// The offset of a member's header, as in symbol tables.
fn header_offset(member: &ArchiveMember<'_>, bytes: &[u8]) -> Option<u64> {
    let header = std::ptr::from_ref(member.header()?).addr();
    Some(header.checked_sub(bytes.as_ptr().addr())? as u64)
}
