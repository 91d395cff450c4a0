//! A file that profilers find by the number of the process it is about.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::controller::session::Controller;
use crate::error::{Error, Result};

/// A file about an executor, which is made anew and stays: profilers read it when the process has ended.
#[derive(Debug)]
pub(crate) struct ProfileFile {
    file: File,
    path: PathBuf,
}

impl ProfileFile {
    /// Makes the file with this name, which has the executor's process number in it. An existing file belongs to an earlier
    /// process of the same number and is removed; no link is followed.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, or the executor has ended.
    pub(crate) fn create(
        controller: &Controller,
        directory: &Path,
        name: impl FnOnce(i32) -> String,
    ) -> Result<(Self, u32)> {
        let pid = u32::try_from(controller.pid()).ok().filter(|pid| *pid != 0);
        let pid = pid.ok_or_else(|| Error::disconnected("the executor has ended"))?;
        let path = directory.join(name(pid.cast_signed()));
        let during = |error| Error::os(format!("making {}", path.display()), error);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(during(error)),
            _ => {}
        }
        let file = OpenOptions::new().append(true).create_new(true).open(&path).map_err(during)?;
        Ok((Self { file, path }, pid))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes. Those of one call stay together, even if other threads append too.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<()> {
        let written = (&self.file).write_all(bytes);
        written.map_err(|error| Error::os(format!("writing {}", self.path.display()), error))
    }
}
