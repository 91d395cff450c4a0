//! The library of a header: its file, and the names that it defines.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use object::elf;
use object::read::archive::ArchiveFile;
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol, SymbolKind};

use crate::Error;

/// Where the system has its libraries.
const FOLDERS: [&str; 8] = [
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];

/// A library, as the executor gets it.
///
/// # Examples
///
/// ```
/// use farcall_bind::Library;
///
/// let library = Library::find("c", &[])?;
/// assert_eq!(library, Library::Shared("libc.so.6".to_owned()));
/// assert!(library.symbols()?.contains("strlen"));
/// # Ok::<(), farcall_bind::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Library {
    /// A shared library, by the name that the dynamic linker finds, or by its path in another folder.
    Shared(String),
    /// An archive, by its path.
    Archive(PathBuf),
}

impl Library {
    /// Finds the library of this name, as `-l` of a linker does: a shared one, else an archive. A name with a slash or an ending is a path.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn find(name: &str, folders: &[PathBuf]) -> Result<Self, Error> {
        let path = Path::new(name);
        if name.contains('/') || name.ends_with(".a") || name.contains(".so") {
            return Self::at(path);
        }
        let system = FOLDERS.iter().map(PathBuf::from);
        let all: Vec<_> = folders.iter().cloned().chain(system).collect();
        for folder in &all {
            for file in [format!("lib{name}.so"), format!("lib{name}.a")] {
                let path = folder.join(&file);
                if path.exists() {
                    return Self::at(&path);
                }
            }
        }
        // Without the files for development there is the library of programs alone.
        let versions =
            all.iter().filter_map(|folder| version_of(folder, &format!("lib{name}.so.")));
        match versions.min() {
            Some(path) => Self::at(&path),
            None => Err(Error::new(format!(
                "there is no lib{name}.so and no lib{name}.a: install it, or name its folder by -L"
            ))),
        }
    }

    fn at(path: &Path) -> Result<Self, Error> {
        let bytes = read(path)?;
        if bytes.starts_with(b"!<arch>\n") {
            let path = path.canonicalize().map_err(|error| failed(path, error))?;
            return Ok(Self::Archive(path));
        }
        if !bytes.starts_with(&elf::ELFMAG) {
            // A script of the linker, as of libm.so, names the library.
            let script = String::from_utf8_lossy(&bytes);
            let target = script
                .split_whitespace()
                .find(|word| word.starts_with('/') && word.contains(".so"));
            let target = target
                .filter(|target| Path::new(target) != path)
                .ok_or_else(|| failed(path, "neither a library nor a script that names one"))?;
            return Self::at(Path::new(target));
        }
        let name = shared_name(&bytes).ok_or_else(|| failed(path, "no shared library"))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let is_system = FOLDERS.iter().any(|one| Path::new(one) == folder);
        match (is_system, name.is_empty()) {
            (true, false) => Ok(Self::Shared(name)),
            _ => {
                let path = path.canonicalize().map_err(|error| failed(path, error))?;
                Ok(Self::Shared(path.to_string_lossy().into_owned()))
            }
        }
    }

    /// The names that the library defines for others.
    ///
    /// # Errors
    ///
    /// When its file cannot be read.
    pub fn symbols(&self) -> Result<BTreeSet<String>, Error> {
        match self {
            Self::Archive(path) => {
                let bytes = read(path)?;
                let archive = ArchiveFile::parse(&*bytes).map_err(|error| failed(path, error))?;
                let symbols = archive.symbols().map_err(|error| failed(path, error))?;
                let symbols =
                    symbols.ok_or_else(|| failed(path, "the archive has no index: run ranlib"))?;
                Ok(symbols
                    .flatten()
                    .map(|symbol| String::from_utf8_lossy(symbol.name()).into_owned())
                    .collect())
            }
            Self::Shared(name) => {
                let places = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
                let path = places.chain([PathBuf::from(name)]).find(|path| path.exists());
                let path = path.ok_or_else(|| failed(Path::new(name), "not found"))?;
                let bytes = read(&path)?;
                let file = ElfFile64::<Endianness>::parse(&*bytes)
                    .map_err(|error| failed(&path, error))?;
                let defined = file
                    .dynamic_symbols()
                    .filter(|symbol| !symbol.is_undefined() && symbol.kind() != SymbolKind::Data);
                Ok(defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect())
            }
        }
    }
}

/// The file in the folder whose name begins so and goes on with one number.
fn version_of(folder: &Path, start: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let versions = names.filter(|name| {
        name.strip_prefix(start).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    });
    versions.min().map(|name| folder.join(name))
}

/// The name that a shared library gives itself; empty without one, and none for another file.
fn shared_name(bytes: &[u8]) -> Option<String> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, strings).ok()?;
    let name = entries.iter().find(|entry| entry.tag(endian) == elf::DT_SONAME);
    let name = name.and_then(|entry| strings.get(u32::try_from(entry.d_val(endian)).ok()?).ok());
    Some(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    fs::read(path).map_err(|error| failed(path, error))
}

fn failed(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::new(format!("{}: {why}", path.display()))
}
