//! Segments that have a name, for processes that have no socket over which to pass a descriptor.
//!
//! A name stays in the system's shared-memory file system until a process removes it. A process that may open it may also
//! shrink it, and the next access to the segment then kills this process. So a name is for trusted peers of the same user. It
//! is removed when both sides have the segment ([`crate::transport`] decides when).
//!
//! Invariant: names are made, opened and removed only under the [`Names`] lock, which ends with its holder.

use std::fs::{File, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use shared_memory::{Shmem, ShmemConf, ShmemError};

use super::mapping::{Map, NamedMapping};
use super::segment::Segment;
use crate::error::{Error, Result};

/// The directory of all names.
const DIRECTORY: &str = "/dev/shm";

/// The prefix of every name.
const PREFIX: &str = "farcall-";

/// How long another process may hold the lock.
const LOCK_MAX: Duration = Duration::from_secs(2);

/// The state of a name.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    /// An empty file: its creator ended before it had set the size.
    Unfinished,
    Segment(Segment),
}

/// The right to make, open and remove names.
#[derive(Debug)]
pub(crate) struct Names {
    /// Locked while it is open.
    _directory: File,
}

impl Names {
    /// Takes the lock; waits up to [`LOCK_MAX`].
    ///
    /// # Errors
    ///
    /// When another process keeps it longer, or there is no such file system.
    pub(crate) fn lock() -> Result<Self> {
        let failed = |error| Error::os(format!("locking {DIRECTORY}"), error);
        let directory = File::open(DIRECTORY).map_err(failed)?;
        let deadline = Instant::now() + LOCK_MAX;
        loop {
            match directory.try_lock() {
                Ok(()) => return Ok(Self { _directory: directory }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Error::timeout(format!(
                        "another process has locked {DIRECTORY} for {LOCK_MAX:?}"
                    )));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
    }

    /// Makes a segment of `bytes` zero bytes under a name.
    ///
    /// # Errors
    ///
    /// When the name is taken or malformed, or the system refuses the size.
    pub(crate) fn create(&self, name: &str, bytes: usize) -> Result<Segment> {
        let id = id(name)?;
        let made = ShmemConf::new().os_id(&id).size(bytes).create();
        let made = made.map_err(|error| failed("making", name, &error))?;
        self.segment(made, name)
    }

    /// Opens the segment with a name.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn open(&self, name: &str) -> Result<Found> {
        match ShmemConf::new().os_id(id(name)?).open() {
            Ok(found) => Ok(Found::Segment(self.segment(found, name)?)),
            Err(error) if errno(&error) == Some(Errno::ENOENT) => Ok(Found::Nothing),
            // The error of mapping an empty file.
            Err(error) if errno(&error) == Some(Errno::EINVAL) => Ok(Found::Unfinished),
            Err(error) => Err(failed("opening", name, &error)),
        }
    }

    /// Removes a name. Processes that have the segment keep it.
    pub(crate) fn remove(&self, name: &str) {
        // Another process may have removed it already.
        let _ = std::fs::remove_file(format!("{DIRECTORY}/{PREFIX}{name}"));
    }

    /// All names of segments of this library.
    pub(crate) fn all(&self) -> Vec<String> {
        let entries = std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| Some(name.strip_prefix(PREFIX)?.to_owned())).collect()
    }

    fn segment(&self, mut mapped: Shmem, name: &str) -> Result<Segment> {
        // The crate would remove the name on drop, even from another segment; `remove` does that instead.
        mapped.set_owner(false);
        let path = format!("{DIRECTORY}/{PREFIX}{name}");
        let file = File::options().read(true).write(true).open(&path);
        let file = file.map_err(|error| Error::os(format!("opening {path}"), error))?;
        Ok(Segment::new(file.into(), Map::Named(NamedMapping(mapped))))
    }
}

/// The system's form of a name.
fn id(name: &str) -> Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > 200 || !name.bytes().all(is_plain) {
        return Err(Error::invalid(format!(
            "{name:?} is no name of a segment: take 1 to 200 letters, digits and any of - _ ."
        )));
    }
    Ok(format!("/{PREFIX}{name}"))
}

fn errno(error: &ShmemError) -> Option<Errno> {
    match error {
        ShmemError::MapOpenFailed(number)
        | ShmemError::MapCreateFailed(number)
        | ShmemError::UnknownOsError(number) => i32::try_from(*number).ok().map(Errno::from_raw),
        _ => None,
    }
}

fn failed(what: &str, name: &str, error: &ShmemError) -> Error {
    let what = format!("{what} the segment named {name}");
    match errno(error) {
        Some(errno) => Error::os(what, errno),
        None => Error::invalid(format!("{what}: {error}")),
    }
}
