//! The files that a command line names: by itself, by `-l`, and by linker scripts among them.
//!
//! Invariant: scripts lead to a bounded number of files, even if they name each other.

use std::env::consts::ARCH;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use object::LittleEndian;
use object::elf::{FileHeader64, PT_TLS, ProgramHeader64};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::read::{Object, ObjectSymbol};

use super::{file, linker_script};
use crate::advice;
use crate::status::{Failure, LINK};

/// The largest linker script that is read, in bytes. The C library's have some 200.
const SCRIPT_BYTES_MAX: u64 = 64 << 10;

/// How many scripts may lead from one to the next.
const SCRIPT_DEPTH_MAX: u32 = 8;

/// The most files that all scripts may name.
const SCRIPT_FILES_MAX: u32 = 4096;

/// The files of a program, found and not read.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Objects and archives. Those that the arguments have led to come first.
    pub(crate) files: Vec<PathBuf>,
    /// How many of them the arguments have led to.
    pub(crate) arguments: usize,
    /// Shared libraries, as paths for the dynamic linker.
    pub(crate) libraries: Vec<String>,
    /// Shared libraries that are opened only if the program needs a name of theirs.
    pub(crate) as_needed: Vec<String>,
    /// The number of files that scripts have named so far.
    by_scripts: u32,
}

/// The kind of library that a name is expected to mean.
#[derive(Clone, Copy)]
struct Context<'a> {
    folders: &'a [PathBuf],
    /// The number of scripts that have led here.
    depth: u32,
    as_needed: bool,
}

impl Named {
    /// Finds `libraries` as `-l` does in `folders`: a shared library, or else an archive. Follows the linker scripts among all files.
    pub(crate) fn find(
        files: &[PathBuf],
        libraries: &[String],
        folders: &[PathBuf],
    ) -> Result<Self, Failure> {
        let mut named = Self::default();
        let context = Context { folders, depth: 0, as_needed: false };
        for file in files {
            // An object is no script, and there may be thousands.
            let script = if has_ending(file, "o") { None } else { script(file) };
            match script {
                Some(text) => named.follow(file, &text, context)?,
                None => named.files.push(file.clone()),
            }
        }
        named.arguments = named.files.len();
        for name in libraries {
            named.add_library(name, context)?;
        }
        Ok(named)
    }

    /// The size of the thread-locals that each thread has of the libraries.
    pub(crate) fn thread_bytes(&self) -> u64 {
        self.libraries.iter().chain(&self.as_needed).map(|path| thread_bytes(path)).sum()
    }

    /// The libraries among those to open as needed that define one of these symbols.
    pub(crate) fn needed_for(&self, symbols: &[String]) -> Vec<&str> {
        let defines = |path: &&String| defines(Path::new(path.as_str()), symbols);
        self.as_needed.iter().filter(defines).map(String::as_str).collect()
    }

    /// Adds the library that `-l` means by this name.
    fn add_library(&mut self, name: &str, context: Context<'_>) -> Result<(), Failure> {
        if let Some(file) = name.strip_prefix(':') {
            let mut paths = searched(context.folders).map(|folder| folder.join(file));
            let found = paths.find(|path| path.is_file());
            return match found {
                Some(path) => self.add(path, context),
                None => Err(no_library(name, file, context.folders)),
            };
        }
        let [shared, archive] = [format!("lib{name}.so"), format!("lib{name}.a")];
        for folder in searched(context.folders) {
            let plain = folder.join(&shared);
            if is_shared(&plain) || script(&plain).is_some() {
                return self.add(plain, context);
            }
            if let Some(path) = newest(&folder, &shared) {
                return self.add(path, context);
            }
            let archive = folder.join(&archive);
            if archive.is_file() {
                return self.add(archive, context);
            }
        }
        Err(no_library(name, &format!("{shared} and {archive}"), context.folders))
    }

    /// Adds a file that was found, by its contents.
    fn add(&mut self, path: PathBuf, context: Context<'_>) -> Result<(), Failure> {
        if is_shared(&path) {
            let libraries =
                if context.as_needed { &mut self.as_needed } else { &mut self.libraries };
            // Without a slash the dynamic linker would search its own folders.
            let path =
                if path.components().count() == 1 { Path::new(".").join(path) } else { path };
            libraries.push(path.display().to_string());
        } else if let Some(text) = script(&path) {
            self.follow(&path, &text, context)?;
        } else {
            self.files.push(path);
        }
        Ok(())
    }

    /// Adds what a script names.
    fn follow(&mut self, path: &Path, text: &str, context: Context<'_>) -> Result<(), Failure> {
        let failure = |why: String| Failure::new(LINK, format_args!("{}: {why}", path.display()));
        let Some(entries) = linker_script::parse(text) else {
            return Err(failure(LIBTOOL.to_owned()));
        };
        let entries = entries.map_err(failure)?;
        let depth = context.depth + 1;
        for entry in entries {
            self.by_scripts += 1;
            if depth > SCRIPT_DEPTH_MAX || self.by_scripts > SCRIPT_FILES_MAX {
                return Err(failure(format!(
                    "more than {SCRIPT_DEPTH_MAX} linker scripts one in another, or more than {SCRIPT_FILES_MAX} files by \
                     scripts; does the script name itself?"
                )));
            }
            let as_needed = context.as_needed || entry.as_needed;
            let context = Context { depth, as_needed, ..context };
            if let Some(name) = entry.name.strip_prefix("-l") {
                self.add_library(name, context)?;
                continue;
            }
            let beside = path.parent().unwrap_or(Path::new("")).join(&entry.name);
            let places = [beside, PathBuf::from(&entry.name)].into_iter();
            let mut places =
                places.chain(searched(context.folders).map(|folder| folder.join(&entry.name)));
            match places.find(|path| path.is_file()) {
                Some(found) => self.add(found, context)?,
                // A library that is missing cannot be needed.
                None if as_needed => {}
                None => {
                    return Err(failure(format!(
                        "names {}, which is neither beside it nor where -l looks; -L DIR adds a folder",
                        entry.name
                    )));
                }
            }
        }
        Ok(())
    }
}

/// Why a file `libNAME.la` is refused.
const LIBTOOL: &str = "a description of a library for libtool, which no linker reads; give the archive or -l NAME: \
                       the library lies in the folder .libs beside it, or where libdir says";

/// The folders that are searched, in this order: those given with `-L`, and where Linux distributions keep libraries.
fn searched(folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let of_processor = |folder| format!("{folder}/{ARCH}-linux-gnu");
    let usual = [
        "/usr/local/lib".to_owned(),
        of_processor("/lib"),
        of_processor("/usr/lib"),
        "/lib64".to_owned(),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
    ];
    let usual = usual.into_iter().map(PathBuf::from);
    // Read only if the library is in none of the others.
    folders.iter().cloned().chain(usual).chain(std::iter::once_with(newest_gcc).flatten())
}

/// The folder of the newest GCC, which keeps libraries of its own there, such as libgcov.
fn newest_gcc() -> Option<PathBuf> {
    let version =
        |path: &PathBuf| path.file_name()?.to_str()?.split('.').next()?.parse::<u32>().ok();
    let versions = std::fs::read_dir(format!("/usr/lib/gcc/{ARCH}-linux-gnu"))
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    versions.max_by_key(version)
}

fn no_library(name: &str, wanted: &str, folders: &[PathBuf]) -> Failure {
    let searched: Vec<_> = searched(folders).map(|folder| folder.display().to_string()).collect();
    let failure = format_args!(
        "-l{name}: no such library; searched for {wanted} in {}; -L DIR adds a folder",
        searched.join(", ")
    );
    Failure::new(LINK, failure).hint(advice::if_a_library_file(name))
}

/// The first `libNAME.so.VERSION`: those with one digit come before all others.
fn newest(folder: &Path, name: &str) -> Option<PathBuf> {
    // A folder of all libraries takes longer to read than hello to link.
    let mut numbered = (0..10).map(|version| folder.join(format!("{name}.{version}")));
    if let Some(numbered) = numbered.find(|path| is_shared(path)) {
        return Some(numbered);
    }
    let prefix = format!("{name}.");
    let entries = std::fs::read_dir(folder).ok()?;
    let versions = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&prefix)) && is_shared(path)
    });
    versions.min()
}

/// True for shared libraries, by the ELF header.
fn is_shared(path: &Path) -> bool {
    const SHARED: [u8; 2] = [3, 0];
    let start = start(path, 18);
    start.starts_with(b"\x7fELF") && start.ends_with(&SHARED) && start.len() == 18
}

/// The text of a file that is a linker script, or a description of a library for libtool.
fn script(path: &Path) -> Option<String> {
    let is_libtool = |text: &str| has_ending(path, "la") && text.contains("libtool library file");
    let is_text =
        |start: &[u8]| start.first().is_some_and(|byte| byte.is_ascii() && *byte >= b'\t');
    if !is_text(&start(path, 8)) {
        return None;
    }
    let text = start(path, SCRIPT_BYTES_MAX + 1);
    let text = String::from_utf8(text).ok().filter(|text| text.len() as u64 <= SCRIPT_BYTES_MAX)?;
    (is_libtool(&text) || linker_script::parse(&text).is_some()).then_some(text)
}

/// The first bytes of a regular file. Empty if it cannot be read, or is something else.
fn start(path: &Path, bytes: u64) -> Vec<u8> {
    let mut start = Vec::new();
    // Opening a pipe with a name would wait for a writer.
    let file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let is_file = |file: &File| file.metadata().is_ok_and(|about| about.is_file());
    if let Ok(file) = file
        && is_file(&file)
        && file.take(bytes).read_to_end(&mut start).is_err()
    {
        start.clear();
    }
    start
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|own| own == ending)
}

/// The size of a library's thread-locals in each thread.
fn thread_bytes(path: &str) -> u64 {
    // The program headers lie behind the header.
    let start = start(Path::new(path), 4096);
    let segments = || {
        let header = FileHeader64::<LittleEndian>::parse(&*start).ok()?;
        header.program_headers(header.endian().ok()?, &*start).ok()
    };
    let of_threads =
        |segment: &&ProgramHeader64<LittleEndian>| segment.p_type(LittleEndian) == PT_TLS;
    let segment = segments().and_then(|segments| segments.iter().find(of_threads));
    segment.map_or(0, |segment| segment.p_memsz(LittleEndian).next_multiple_of(64))
}

/// True if the library defines one of these symbols.
fn defines(library: &Path, symbols: &[String]) -> bool {
    // A reference may name a version: `sin@GLIBC_2.2.5`.
    let wanted: Vec<&str> = symbols.iter().filter_map(|name| name.split('@').next()).collect();
    let Ok(bytes) = file::read(library) else { return false };
    let Ok(library) = ElfFile64::<LittleEndian>::parse(&*bytes) else { return false };
    library.dynamic_symbols().any(|symbol| {
        !symbol.is_undefined() && symbol.name().is_ok_and(|name| wanted.contains(&name))
    })
}
