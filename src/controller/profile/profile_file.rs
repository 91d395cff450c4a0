//! A file that profilers find by the process number in its name.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::controller::session::Process;
use crate::error::{Error, Result};
use crate::origin::{Origin, forked};
use crate::sys::io::identified::Identified;

/// A new file about an executor. It stays, because profilers read it after the process has ended.
#[derive(Debug)]
pub(crate) struct ProfileFile {
    file: Identified,
    path: PathBuf,
    origin: Origin,
}

impl ProfileFile {
    /// Makes the file whose name `name` returns for the executor's process number. Removes an existing file, which belongs to an
    /// earlier process with that number. Follows no link.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, or the executor has ended.
    pub(crate) fn create(
        process: &Process,
        directory: &Path,
        name: impl FnOnce(i32) -> String,
    ) -> Result<(Self, u32)> {
        let pid = u32::try_from(process.pid()).ok().filter(|pid| *pid != 0);
        let pid = pid.ok_or_else(|| Error::disconnected("the executor has ended"))?;
        let path = directory.join(name(pid.cast_signed()));
        let during = |error| Error::os(format!("making {}", path.display()), error);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(during(error)),
            _ => {}
        }
        let file = OpenOptions::new().append(true).create_new(true).open(&path).map_err(during)?;
        let file = Identified::new(file.into());
        Ok((Self { file, path, origin: Origin::new() }, pid))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes. The bytes of one call stay contiguous when several threads append.
    ///
    /// # Errors
    ///
    /// When the kernel cannot write the file. In a forked child of the process that made it.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<()> {
        if !self.origin.is_own() {
            return Err(forked());
        }
        let file = self.file.file()?.try_clone_to_owned().map(File::from);
        let written = file.and_then(|mut file| file.write_all(bytes));
        written.map_err(|error| Error::os(format!("writing {}", self.path.display()), error))
    }
}
