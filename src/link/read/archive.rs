//! A static library: objects, of which a link takes those that it needs.
//!
//! A *thin* archive holds only the names of its members, which are files beside it. The caller supplies a function that reads
//! them.
//!
//! Invariant: a member is read when it is first needed, and kept for all links. Two threads that need it at once may both
//! read it.

use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hashbrown::HashTable;
use object::read::archive::{
    ArchiveFile, ArchiveKind, ArchiveMember, ArchiveOffset, ArchiveSymbolIterator,
};

use super::names;
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
/// use farcall_link::Archive;
///
/// // An archive without members.
/// let archive = Archive::parse("libempty.a", "!<arch>\n")?;
/// assert_eq!(archive.name(), "libempty.a");
/// assert!(archive.member_defining("answer")?.is_none());
/// # Ok::<(), farcall_link::Error>(())
/// ```
#[derive(Clone)]
pub struct Archive(Arc<Contents>);

struct Contents {
    name: String,
    bytes: Bytes,
    /// The definitions of the members, in the order of the symbol table, or else of the members.
    definitions: Vec<Defined>,
    /// The bytes that have the names of `definitions`.
    names: Bytes,
    /// For each name the first of its `definitions`. Made when the archive alone is first searched.
    table: OnceLock<HashTable<u32>>,
    /// The members that define something, by their offsets.
    members: Vec<Member>,
    /// How the members of a thin archive are read.
    read: Option<ReadMember>,
}

/// A name that a member defines.
struct Defined {
    hash: u64,
    /// Where the name starts in [`Contents::names`].
    start: usize,
    bytes: u32,
    /// The index of the member.
    member: u32,
}

struct Member {
    /// The offset of its header.
    offset: u64,
    bytes: u64,
    /// The content of the member, once it was read.
    object: OnceLock<ObjectFile>,
}

type ReadMember = Box<dyn Fn(&str) -> io::Result<Bytes> + Send + Sync>;

impl Archive {
    /// Reads the table of contents. `name` is the archive's name in messages. Neither the bytes nor a member's are
    /// copied. For bytes of a mapped file see [`ObjectFile::parse`]: no byte of a member is read before a link needs it.
    ///
    /// If the archive has no symbol table, all its members are read here. Otherwise members are read when a link needs them.
    ///
    /// # Errors
    /// The file is not an archive, is thin (see [`parse_thin`](Self::parse_thin)), or is damaged.
    pub fn parse(name: impl Into<String>, bytes: impl Into<Bytes>) -> Result<Archive> {
        let (name, bytes) = (name.into(), bytes.into());
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
        bytes: impl Into<Bytes>,
        read: impl Fn(&str) -> io::Result<Bytes> + Send + Sync + 'static,
    ) -> Result<Archive> {
        let (name, bytes) = (name.into(), bytes.into());
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

    fn read(name: String, bytes: Bytes, read: Option<ReadMember>) -> Result<Archive> {
        let mut contents = Contents {
            name,
            names: bytes.clone(),
            bytes,
            definitions: Vec::new(),
            table: OnceLock::new(),
            members: Vec::new(),
            read,
        };
        let bytes = contents.bytes.clone();
        let file = ArchiveFile::parse(&*bytes).map_err(|error| contents.damaged(error))?;
        if file.kind() == ArchiveKind::Coff {
            return Err(contents.error("an archive of Windows objects, not of ELF objects"));
        }
        match file.symbols().map_err(|error| contents.damaged(error))? {
            Some(symbols) => contents.index(&file, symbols)?,
            None => contents.scan(&file)?,
        }
        Ok(Archive(Arc::new(contents)))
    }

    /// The name given when it was read.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The number of definitions in the symbol table, or else in the members.
    #[doc(hidden)]
    pub fn definition_count(&self) -> u32 {
        u32::try_from(self.0.definitions.len()).unwrap_or(u32::MAX)
    }

    /// A definition in the order of the file: the name, its hash, and the index of the member.
    #[doc(hidden)]
    pub fn definition(&self, place: u32) -> (&[u8], u64, u32) {
        let one = &self.0.definitions[place as usize];
        (self.0.text(one), one.hash, one.member)
    }

    /// The member that defines `name`, if there is one.
    ///
    /// # Errors
    /// It is not a sound object.
    pub fn member_defining(&self, name: &str) -> Result<Option<ObjectFile>> {
        let name = name.as_bytes();
        self.find(name, names::hash(name)).map(|member| self.member(member)).transpose()
    }

    /// The first member that defines the name with this hash.
    pub(crate) fn find(&self, name: &[u8], hash: u64) -> Option<u32> {
        let table = self.0.table.get_or_init(|| {
            let mut table = HashTable::with_capacity(self.0.definitions.len());
            for place in 0..self.definition_count() {
                let (name, hash, _) = self.definition(place);
                let is_same = |other: &u32| self.definition(*other).0 == name;
                table.entry(hash, is_same, |other| self.definition(*other).1).or_insert(place);
            }
            table
        });
        let find = |name: &[u8], hash| table.find(hash, |place| self.definition(*place).0 == name);
        let found = find(name, hash).or_else(|| {
            let default = names::as_default(name)?;
            find(&default, names::hash(&default))
        });
        found.map(|place| self.definition(*place).2)
    }

    /// Reads the member with this index, or returns what was read before.
    ///
    /// # Errors
    /// It is not a sound object.
    pub(crate) fn member(&self, index: u32) -> Result<ObjectFile> {
        let contents = &*self.0;
        let Some(Member { offset, object: cell, .. }) = contents.members.get(index as usize) else {
            return Err(contents.damaged(format_args!("member {index} is missing")));
        };
        if let Some(object) = cell.get() {
            return Ok(object.clone());
        }
        let damaged = |error| contents.damaged(format_args!("member at offset {offset}: {error}"));
        let file = ArchiveFile::parse(&*contents.bytes).map_err(damaged)?;
        let member = file.member(ArchiveOffset(*offset)).map_err(damaged)?;
        let object = ObjectFile::read(contents.name_of(&member), contents.content(&member)?)?;
        // If another thread was first, its copy is as good.
        let _ = cell.set(object.clone());
        Ok(object)
    }

    /// The size of the member with this index, in bytes; 0 for members of thin archives.
    pub(crate) fn member_bytes(&self, index: u32) -> u64 {
        self.0.members.get(index as usize).map_or(0, |member| member.bytes)
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

    /// The name of a definition.
    fn text(&self, defined: &Defined) -> &[u8] {
        let end = defined.start.saturating_add(defined.bytes as usize);
        self.names.get(defined.start..end).unwrap_or_default()
    }

    /// The bytes of a member. They are not copied; the members of a thin archive are read from their files.
    fn content(&self, member: &ArchiveMember<'_>) -> Result<Bytes> {
        let Some(read) = self.read.as_ref().filter(|_| member.is_thin()) else {
            let (start, bytes) = member.file_range();
            let range = [Some(start), start.checked_add(bytes)];
            let [from, to] = range.map(|at| usize::try_from(at?).ok());
            let range = from.zip(to).filter(|(from, to)| from <= to && *to <= self.bytes.len());
            return range.map(|(from, to)| self.bytes.slice(from..to)).ok_or_else(|| {
                self.damaged(format_args!(
                    "{bytes} bytes of a member at offset {start} are missing"
                ))
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
        Ok(content)
    }

    /// The name of a member in messages.
    fn name_of(&self, member: &ArchiveMember<'_>) -> String {
        let name = member.name();
        let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
        format!("{}({})", self.name, name.replace(char::is_control, "?"))
    }

    /// Reads the symbol table. Every member that it names must start where a walk over the archive finds a member, so members
    /// do not overlap.
    fn index(&mut self, file: &ArchiveFile<'_>, symbols: ArchiveSymbolIterator<'_>) -> Result<()> {
        for member in file.members() {
            let member = member.map_err(|error| self.damaged(error))?;
            // This finds an archive that was cut short now, and not when a link needs what is missing.
            member.data(&*self.bytes).map_err(|error| self.damaged(error))?;
            self.add_member(&member);
        }
        let mut bytes_left = self.bytes.len();
        let mut last = (u64::MAX, 0);
        for symbol in symbols {
            let symbol = symbol.map_err(|error| self.damaged(error))?;
            let (name, offset) = (symbol.name(), symbol.offset().0);
            bytes_left = bytes_left
                .checked_sub(name.len())
                .ok_or_else(|| self.damaged("the names in its symbol table overlap"))?;
            if offset != last.0 {
                let found = self.members.binary_search_by_key(&offset, |member| member.offset);
                let member = found.map_err(|_| {
                    self.damaged(format_args!(
                        "its symbol table names a member at offset {offset}, where none starts; run ranlib"
                    ))
                })?;
                last = (offset, member);
            }
            let start = name.as_ptr().addr().wrapping_sub(self.bytes.as_ptr().addr());
            if let Some((stem, _, true)) = names::version_of(name) {
                self.define(stem, start, last.1);
            }
            self.define(name, start, last.1);
        }
        Ok(())
    }

    /// Reads all members and lists what they define. Members that are not objects are skipped, because an archive may
    /// hold anything.
    fn scan(&mut self, file: &ArchiveFile<'_>) -> Result<()> {
        let mut text = Vec::new();
        for member in file.members() {
            let member = member.map_err(|error| self.damaged(error))?;
            let content = self.content(&member)?;
            if !content.starts_with(b"\x7fELF") {
                continue;
            }
            let object = ObjectFile::read(self.name_of(&member), content)?;
            self.add_member(&member);
            let mut define = |name: &[u8]| {
                self.define(name, text.len(), self.members.len() - 1);
                text.extend_from_slice(name);
            };
            object.definitions().for_each(|name| define(name.as_bytes()));
            for (symbol, version) in object.default_versions() {
                let names = [object.symbol(symbol).name, version].map(|name| object.bytes_of(name));
                define(&names.join(&b"@@"[..]));
            }
        }
        self.names = Bytes::from(text);
        Ok(())
    }

    /// Adds a member, which lies behind those that were added before.
    fn add_member(&mut self, member: &ArchiveMember<'_>) {
        let offset = header_offset(member, &self.bytes).unwrap_or_default();
        let (_, bytes) = member.file_range();
        self.members.push(Member { offset, bytes, object: OnceLock::new() });
    }

    /// Adds a definition whose name is at `start` in [`names`](Self::names).
    fn define(&mut self, name: &[u8], start: usize, member: usize) {
        // Longer names, and more members, than an archive of 4 GiB can have are not found.
        if let (Ok(bytes), Ok(member)) = (u32::try_from(name.len()), u32::try_from(member)) {
            self.definitions.push(Defined { hash: names::hash(name), start, bytes, member });
        }
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
