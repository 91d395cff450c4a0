//! The files of a program that are linked: objects and archives, read and checked.

use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::file::read;
use super::heap;
use super::named::Named;
use crate::advice;
use crate::status::{Failure, LINK, NOT_FOUND};
use farcall::controller::Library;
use farcall::link::{Archive, ObjectFile};

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
    /// Reads the objects and archives.
    pub(crate) fn read(named: &Named) -> Result<Self, Failure> {
        let paths: Vec<&Path> = named.files.iter().map(PathBuf::as_path).collect();
        let bytes = AtomicU64::new(0);
        let mut inputs = Self::default();
        let read = by_threads(&paths, |path| Input::read(path, &bytes));
        inputs.bytes = bytes.into_inner();
        heap::expect_if_large(inputs.bytes);
        for (position, input) in read.into_iter().enumerate() {
            match input {
                Ok(Input::Object(object)) => inputs.objects.push(object),
                Ok(Input::Archive(archive)) => inputs.archives.push(archive),
                Err(failure) if (1..named.arguments).contains(&position) => {
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
    pub(crate) fn add_to(&self, dylib: &Library) -> Result<(), Failure> {
        for archive in &self.archives {
            dylib.add_archive(archive).expect("added");
        }
        self.add_objects_to(dylib)
    }

    /// Adds the objects again, which a link that has failed has dropped.
    pub(crate) fn add_objects_to(&self, dylib: &Library) -> Result<(), Failure> {
        for object in &self.objects {
            dylib.add_object(object)?;
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
