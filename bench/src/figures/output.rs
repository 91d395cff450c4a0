//! An output file of a report, opened before anything is measured.
//!
//! Invariant: an existing file keeps its content until the new content is ready; a new file is removed if no content comes.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::Result;

/// An open file for content that comes later.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    file: File,
    /// True if the file is new and has no content yet.
    is_new: bool,
}

impl Output {
    /// Opens the file for writing, or makes it.
    ///
    /// # Errors
    /// When the file system refuses; the message has the path.
    pub fn open(path: &Path) -> Result<Output> {
        let refused = |error| format!("{}: cannot be written: {error}", path.display());
        let is_new;
        let file = match OpenOptions::new().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                is_new = false;
                OpenOptions::new().write(true).open(path).map_err(refused)?
            }
            made => {
                is_new = true;
                made.map_err(refused)?
            }
        };
        Ok(Output { path: path.to_owned(), file, is_new })
    }

    /// Makes a directory if it is missing, and checks that files can be made in it.
    ///
    /// # Errors
    /// When the file system refuses; the message has the path.
    pub fn check_directory(path: &Path) -> Result<()> {
        let refused = |error: &dyn std::fmt::Display| {
            format!("{}: cannot be written: {error}", path.display())
        };
        fs::create_dir_all(path).map_err(|error| refused(&error))?;
        let flags = AccessFlags::W_OK | AccessFlags::X_OK;
        Ok(access(path, flags).map_err(|errno| refused(&errno))?)
    }

    /// Replaces the content of the file by this one.
    ///
    /// # Errors
    /// When the file system refuses; the message has the path.
    pub fn write(mut self, content: &[u8]) -> Result<()> {
        self.is_new = false;
        let write = |file: &mut File| {
            // A pipe or a terminal has no length.
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            file.write_all(content)
        };
        let written = write(&mut self.file);
        Ok(written
            .map_err(|error| format!("{}: cannot be written: {error}", self.path.display()))?)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_new {
            // Fails only for a file that is gone already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("farcall-output-{name}-{}", std::process::id()))
    }

    #[test]
    fn old_content_stays_until_the_new_one_is_ready() {
        let path = path("old");
        fs::write(&path, "an old and long report").unwrap();
        let output = Output::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "an old and long report");
        output.write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        drop(Output::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_without_a_report_is_removed() {
        let path = path("none");
        drop(Output::open(&path).unwrap());
        assert!(!path.exists());
        Output::open(&path).unwrap().write(b"").unwrap();
        assert!(path.exists());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn an_output_that_cannot_be_written_is_an_error_with_its_path() {
        for path in ["/nowhere/report.json", "/proc"] {
            let error = Output::open(Path::new(path)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{path}: cannot be written: ")), "{error}");
        }
        let error = Output::check_directory(Path::new("/proc/nowhere")).unwrap_err().to_string();
        assert!(error.starts_with("/proc/nowhere: cannot be written: "), "{error}");
        Output::open(Path::new("/dev/null")).unwrap().write(b"text").unwrap();
    }
}
