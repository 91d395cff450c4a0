//! Objects and archives that C names by files, or gives as bytes.

use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use farcall::link::{Archive, ObjectFile};

use super::buffer::{bytes, required_text};
use super::error::invalid;

/// An object of these bytes, of which this makes a copy.
///
/// # Safety
///
/// The name must be a text, and the bytes readable.
pub(crate) unsafe fn object_of(
    name: *const c_char,
    data: *const c_void,
    size: usize,
) -> farcall::Result<ObjectFile> {
    // SAFETY: the caller vouches for the text.
    let name = unsafe { required_text(name, "name") }?;
    // SAFETY: the caller vouches for the bytes.
    ObjectFile::parse(name, unsafe { bytes(data, size) }?.to_vec())
}

/// The object in a file.
///
/// # Safety
///
/// The path must be a text.
pub(crate) unsafe fn object_at(path: *const c_char) -> farcall::Result<ObjectFile> {
    // SAFETY: the caller vouches for the text.
    let (name, object) = read(unsafe { path_of(path) }?)?;
    ObjectFile::parse(name, object)
}

/// An archive of these bytes, of which this makes a copy.
///
/// # Safety
///
/// The name must be a text, and the bytes readable.
pub(crate) unsafe fn archive_of(
    name: *const c_char,
    data: *const c_void,
    size: usize,
) -> farcall::Result<Archive> {
    // SAFETY: the caller vouches for the text.
    let name = unsafe { required_text(name, "name") }?;
    // SAFETY: the caller vouches for the bytes.
    Archive::parse(name, unsafe { bytes(data, size) }?.to_vec())
}

/// The archive in a file. A thin one is read from the folder that it lies in.
///
/// # Safety
///
/// The path must be a text.
pub(crate) unsafe fn archive_at(path: *const c_char) -> farcall::Result<Archive> {
    // SAFETY: the caller vouches for the text.
    let path = unsafe { path_of(path) }?;
    let (name, archive) = read(path)?;
    if !Archive::is_thin(&archive) {
        return Archive::parse(name, archive);
    }
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Archive::parse_thin(name, archive, move |member| Ok(std::fs::read(folder.join(member))?.into()))
}

/// The path of a file.
///
/// # Safety
///
/// It must be a text or NULL, and stay so.
unsafe fn path_of<'a>(path: *const c_char) -> farcall::Result<&'a Path> {
    if path.is_null() {
        return Err(invalid("path is NULL"));
    }
    // SAFETY: the caller vouches for the text.
    let path = unsafe { CStr::from_ptr(path) };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// The name and the bytes of a file.
fn read(path: &Path) -> farcall::Result<(String, Vec<u8>)> {
    let name = path.display().to_string();
    match std::fs::read(path) {
        Ok(bytes) => Ok((name, bytes)),
        Err(error) => {
            let text = format!("reading {name}: {error}");
            Err(farcall::Error::new(farcall::ErrorKind::Os, text))
        }
    }
}
