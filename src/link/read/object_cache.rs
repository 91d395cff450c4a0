//! Objects that were read before, found again by their bytes.
//!
//! Invariant: an object that the cache returns was parsed from the same bytes. Hashes only select the entry to compare.

use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;

use super::object_file::ObjectFile;
use crate::error::Result;
use crate::sync::Mutex;

/// A cache of objects, for programs that read and link the same files again and again. A file that did not change is
/// compared and not parsed a second time, whatever its name.
///
/// The cache keeps the files in memory, and what was parsed from them, which takes about as much again. Above a limit for
/// the bytes of all files, it drops the least recently used. Any number of threads may use it, and parse, at the same time.
/// Members of archives need no cache: an [`Archive`](crate::Archive) keeps those that it has read.
///
/// # Examples
///
/// ```
/// use farcall_link::ObjectCache;
///
/// let cache = ObjectCache::new(64 << 20);
/// let read_again = |path: &str| -> Result<(), Box<dyn std::error::Error>> {
///     let object = cache.parse(path, std::fs::read(path)?)?;
///     println!("{path} defines {} names", object.definitions().count());
///     Ok(())
/// };
/// # let _ = read_again("missing.o");
/// ```
pub struct ObjectCache {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    objects: HashMap<Key, Entry>,
    /// The sizes of all files.
    bytes: usize,
    /// The number of look-ups.
    time: u64,
}

struct Entry {
    object: ObjectFile,
    /// The look-up that last returned it.
    time: u64,
}

/// A hash of parts of a file, and its size.
type Key = (u64, usize);

impl ObjectCache {
    /// An empty cache for files of at most `bytes_max` bytes together.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self { bytes_max, held: Mutex::default() }
    }

    /// As [`ObjectFile::parse`], but without parsing if the cache holds a file with these bytes.
    ///
    /// # Errors
    /// As [`ObjectFile::parse`]. A file that cannot be read is not kept.
    pub fn parse(&self, name: impl Into<String>, bytes: impl Into<Bytes>) -> Result<ObjectFile> {
        let bytes = bytes.into();
        let key = key(&bytes);
        let found = self.with(|held| held.find(key));
        if let Some(object) = found.filter(|object| object.bytes() == &*bytes) {
            return Ok(object.renamed(name));
        }
        let object = ObjectFile::parse(name, bytes)?;
        self.with(|held| held.keep(key, &object, self.bytes_max));
        Ok(object)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Held) -> T) -> T {
        work(&mut self.held.lock())
    }
}

impl Held {
    fn find(&mut self, key: Key) -> Option<ObjectFile> {
        self.time += 1;
        let entry = self.objects.get_mut(&key)?;
        entry.time = self.time;
        Some(entry.object.clone())
    }

    /// Keeps an object in place of one with the same key, and drops the oldest while there are too many bytes.
    fn keep(&mut self, key: Key, object: &ObjectFile, bytes_max: usize) {
        let (_, bytes) = key;
        if bytes > bytes_max {
            return;
        }
        let entry = Entry { object: object.clone(), time: self.time };
        if self.objects.insert(key, entry).is_none() {
            self.bytes += bytes;
        }
        while self.bytes > bytes_max {
            let oldest = self.objects.iter().min_by_key(|(_, entry)| entry.time);
            let Some((&oldest, _)) = oldest else { return };
            self.objects.remove(&oldest);
            self.bytes -= oldest.1;
        }
    }
}

impl fmt::Debug for ObjectCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (objects, bytes) = self.with(|held| (held.objects.len(), held.bytes));
        f.debug_struct("ObjectCache")
            .field("objects", &objects)
            .field("bytes", &bytes)
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

/// The key of a file. It hashes only the two ends, because hashing all bytes could take longer than parsing them. The ends
/// hold the ELF header, the section headers with all sizes, and the names, so most versions have different keys.
pub(crate) fn key(bytes: &[u8]) -> Key {
    let mut hasher = DefaultHasher::new();
    let end = bytes.len().min(END_BYTES);
    bytes[..end].hash(&mut hasher);
    bytes[bytes.len() - end..].hash(&mut hasher);
    (hasher.finish(), bytes.len())
}

/// How much of each end is hashed.
const END_BYTES: usize = 4096;
