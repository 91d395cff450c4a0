//! The files of a program, as given on the command line: objects, archives, libraries.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use farcall::controller::Dylib;
use farcall::link::{Archive, FileBytes, ObjectFile};
use object::LittleEndian;
use object::elf::{FileHeader64, PT_TLS, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use super::{heap, mapped};
use crate::advice;
use crate::status::{Failure, LINK, NOT_FOUND};

/// Where `-l` looks after the folders given with `-L`: where Linux distributions keep libraries.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/usr/local/lib",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/usr/lib",
];

/// Where GCC keeps libraries of its own, such as libgcov, in a folder for each version.
const GCC_FOLDER: &str = "/usr/lib/gcc/x86_64-linux-gnu";

/// The largest file that is read, in bytes. The largest archives have a tenth of that.
const INPUT_BYTES_MAX: u64 = 4 << 30;

/// The largest linker script that is read, in bytes. Those of the C library have some 200.
const SCRIPT_BYTES_MAX: u64 = 4 << 10;

/// The smallest file that is mapped, in bytes. Reading a smaller one takes less time than the faults on its pages.
const MAPPED_BYTES_MIN: u64 = 256 << 10;

/// Each thread reads at least this number of files. Reading fewer takes hardly longer than starting it.
const FILES_FOR_A_THREAD: usize = 128;

/// The objects, archives and libraries of a program, read and checked.
#[derive(Default)]
pub(crate) struct Inputs {
    /// The size of all files.
    bytes: u64,
    objects: Vec<ObjectFile>,
    archives: Vec<Archive>,
}

impl Inputs {
    /// Reads `files`, then the archives among `libraries`.
    pub(crate) fn read(files: &[PathBuf], libraries: &[Library]) -> Result<Self, Failure> {
        let archives = libraries.iter().filter_map(|library| match library {
            Library::Archive(path) => Some(path.as_path()),
            Library::Shared(_) => None,
        });
        let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).chain(archives).collect();
        let bytes = AtomicU64::new(0);
        let mut inputs = Self::default();
        let read = by_threads(&paths, |path| Input::read(path, &bytes));
        inputs.bytes = bytes.into_inner();
        heap::expect_if_large(inputs.bytes);
        for (position, input) in read.into_iter().enumerate() {
            match input {
                Ok(Input::Object(object)) => inputs.objects.push(object),
                Ok(Input::Archive(archive)) => inputs.archives.push(archive),
                Err(failure) if (1..files.len()).contains(&position) => {
                    return Err(failure.hint(advice::if_an_argument(paths[position])));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(inputs)
    }

    /// The size of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds everything to `dylib`.
    pub(crate) fn add_to(&self, dylib: &Dylib) -> Result<(), Failure> {
        for object in &self.objects {
            dylib.add_object(object)?;
        }
        for archive in &self.archives {
            dylib.add_archive(archive);
        }
        Ok(())
    }
}

/// A file of a program.
enum Input {
    Object(ObjectFile),
    Archive(Archive),
}

impl Input {
    /// Reads a file and checks it. `bytes` is the size of all files so far.
    fn read(path: &Path, bytes_so_far: &AtomicU64) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let bytes = read(path).map_err(|error| {
            let missing = error.kind() == ErrorKind::NotFound;
            let status = if missing { NOT_FOUND } else { LINK };
            Failure::new(status, format_args!("{name}: {error}"))
        })?;
        // Relaxed: the sum alone is shared.
        let size = bytes.len() as u64;
        heap::expect_if_large(bytes_so_far.fetch_add(size, Ordering::Relaxed) + size);
        if Archive::is_thin(&bytes) {
            let folder = path.parent().map(Path::to_owned).unwrap_or_default();
            let read = move |member: &str| read(&folder.join(member));
            Ok(Self::Archive(Archive::parse_thin(name, bytes, read)?))
        } else if bytes.starts_with(b"!<arch>\n") {
            Ok(Self::Archive(Archive::parse(name, bytes)?))
        } else {
            if let Some(advice) = advice::if_a_source(path, &bytes) {
                return Err(Failure::new(LINK, format_args!("{name}: {advice}")));
            }
            Ok(Self::Object(ObjectFile::parse(name, bytes)?))
        }
    }
}

/// `work` of each path, in their order. Several threads share many paths.
fn by_threads<T: Send>(paths: &[&Path], work: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let threads = match paths.len() / FILES_FOR_A_THREAD {
        0 | 1 => 1,
        useful => thread::available_parallelism().map_or(1, NonZeroUsize::get).min(useful),
    };
    let run = |part: &[&Path]| -> Vec<T> { part.iter().map(|path| work(path)).collect() };
    thread::scope(|scope| {
        let start = |part| thread::Builder::new().spawn_scoped(scope, move || run(part)).ok();
        let mut parts = paths.chunks(paths.len().div_ceil(threads).max(1));
        let own = parts.next().unwrap_or_default();
        let others: Vec<_> = parts.map(|part| (part, start(part))).collect();
        let mut results = run(own);
        for (part, other) in others {
            // If the system has no more threads, this one does their work.
            results.extend(match other {
                Some(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
                None => run(part),
            });
        }
        results
    })
}

/// Reads a regular file, or maps it if it is large. A file of another kind may have no end, or reading it may wait for a writer.
fn read(path: &Path) -> io::Result<FileBytes> {
    // Without O_NONBLOCK, opening a pipe with a name waits for its other end.
    let file = File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let about = file.metadata()?;
    let refused = |why: String| Error::new(ErrorKind::InvalidInput, why);
    if !about.is_file() {
        return Err(refused("not a regular file, as objects and archives are".to_owned()));
    }
    let too_large = || refused(format!("a file of more than {INPUT_BYTES_MAX} bytes"));
    if about.len() > INPUT_BYTES_MAX {
        return Err(too_large());
    }
    if about.len() >= MAPPED_BYTES_MIN {
        return mapped::map(&file);
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(about.len()).map_err(Error::other)?)?;
    // The file may grow while it is read.
    file.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > INPUT_BYTES_MAX { Err(too_large()) } else { Ok(bytes.into()) }
}

/// A library that `-l` found.
pub(crate) enum Library {
    /// A path for the dynamic linker.
    Shared(String),
    Archive(PathBuf),
}

impl Library {
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Self::Shared(_))
    }

    /// The size of its thread-locals in each thread.
    pub(crate) fn thread_bytes(&self) -> u64 {
        let Self::Shared(path) = self else { return 0 };
        // The program headers lie behind the header.
        let mut start = Vec::new();
        let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
        let segments = || {
            let header = FileHeader64::<LittleEndian>::parse(&*start).ok()?;
            header.program_headers(header.endian().ok()?, &*start).ok()
        };
        let of_threads =
            |segment: &&ProgramHeader64<LittleEndian>| segment.p_type(LittleEndian) == PT_TLS;
        let segment = read.ok().and_then(|_| segments()?.iter().find(of_threads));
        segment.map_or(0, |segment| segment.p_memsz(LittleEndian).next_multiple_of(64))
    }

    /// Finds each of `names` as `-l` does in `folders`: a shared library, or else an archive.
    pub(crate) fn find(names: &[String], folders: &[PathBuf]) -> Result<Vec<Library>, Failure> {
        let find =
            |name: &String| find_library(name, folders).ok_or_else(|| no_library(name, folders));
        names.iter().map(find).collect()
    }
}

/// The folders that are searched, in this order.
fn searched(folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let usual = LIBRARY_FOLDERS.iter().map(PathBuf::from);
    // Read only if the library is in none of the others.
    folders.iter().cloned().chain(usual).chain(std::iter::once_with(newest_gcc).flatten())
}

/// The folder of the newest GCC.
fn newest_gcc() -> Option<PathBuf> {
    let version =
        |path: &PathBuf| path.file_name()?.to_str()?.split('.').next()?.parse::<u32>().ok();
    let versions = std::fs::read_dir(GCC_FOLDER).ok()?.flatten().map(|entry| entry.path());
    versions.max_by_key(version)
}

fn no_library(name: &str, folders: &[PathBuf]) -> Failure {
    let searched: Vec<_> = searched(folders).map(|folder| folder.display().to_string()).collect();
    let failure = format_args!(
        "-l{name}: no such library; searched for lib{name}.so and lib{name}.a in {}; -L DIR adds a folder",
        searched.join(", ")
    );
    Failure::new(LINK, failure).hint(advice::if_a_library_file(name))
}

fn find_library(name: &str, folders: &[PathBuf]) -> Option<Library> {
    let shared = format!("lib{name}.so");
    for folder in searched(folders) {
        if let Some(path) = shared_library(&folder, &shared) {
            return Some(Library::Shared(path.display().to_string()));
        }
        let archive = folder.join(format!("lib{name}.a"));
        if archive.is_file() {
            return Some(Library::Archive(archive));
        }
    }
    None
}

/// `libNAME.so`, the first library that it names if it is a linker script, or the first `libNAME.so.VERSION`: those with one digit come
/// before all others.
fn shared_library(folder: &Path, name: &str) -> Option<PathBuf> {
    let plain = folder.join(name);
    let is_elf = |path: &Path| {
        let mut magic = [0; 4];
        let mut read =
            || File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok());
        path.is_file() && read() && magic == *b"\x7fELF"
    };
    if is_elf(&plain) {
        return Some(plain);
    }
    if let Some(named) = named_by_script(folder, &plain).into_iter().find(|path| is_elf(path)) {
        return Some(named);
    }
    // A folder of all libraries takes longer to read than hello to link.
    let mut numbered = (0..10).map(|version| folder.join(format!("{name}.{version}")));
    if let Some(numbered) = numbered.find(|path| is_elf(path)) {
        return Some(numbered);
    }
    let prefix = format!("{name}.");
    let entries = std::fs::read_dir(folder).ok()?;
    let versions = entries.flatten().map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&prefix)) && is_elf(path)
    });
    versions.min()
}

/// The shared libraries that a linker script names, as `GROUP ( /lib/libm.so.6 AS_NEEDED ( /lib/libmvec.so.1 ) )` does.
fn named_by_script(folder: &Path, path: &Path) -> Vec<PathBuf> {
    if !path.is_file() {
        return Vec::new();
    }
    let script =
        File::open(path).map(|file| file.take(SCRIPT_BYTES_MAX)).and_then(io::read_to_string);
    let words = script.iter().flat_map(|text| text.split([' ', '\n', '\t', '(', ')', ',']));
    words.filter(|word| word.contains(".so")).map(|word| folder.join(word)).collect()
}
