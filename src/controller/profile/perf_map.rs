//! perf's map: the names of linked functions, for perf and other profilers that look samples up in it.

use std::fmt::Write;
use std::path::Path;

use super::profile_file::ProfileFile;
use crate::controller::linker::finalizing::Finalizing;
use crate::controller::linker::object_plugin::ObjectPlugin;
use crate::controller::session::Process;
use crate::error::Result;

/// Writes the functions of every link to `/tmp/perf-PID.map`, PID being the executor's: a line `START SIZE name` for each,
/// the numbers in hexadecimal.
///
/// The controller writes the file and sends no message. An executor has one map; all its dylibs and layers share this plugin.
///
/// The file stays, with removed functions, because perf reads it after the process has ended; only the user removes it. Where memory
/// was allocated again, the map has both the old and the new functions, and
/// [`JitDump`](crate::controller::profile::JitDump), which has times, tells them apart.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// # let process = executor.process()?;
/// use std::sync::Arc;
/// use farcall::controller::profile::PerfMap;
/// let map = PerfMap::create(&process)?;
/// let path = map.path().to_owned();
/// executor.library("main").add_plugin(Arc::new(map))?;
/// assert!(path.exists());
/// # std::fs::remove_file(path).expect("it exists");
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct PerfMap {
    file: ProfileFile,
}

impl PerfMap {
    /// Makes the map of an executor, an empty one.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, or the executor has ended.
    pub fn create(process: &Process) -> Result<Self> {
        let name = |pid| format!("perf-{pid}.map");
        // perf looks in this directory only.
        let (file, _) = ProfileFile::create(process, Path::new("/tmp"), name)?;
        Ok(Self { file })
    }

    /// The path of the map.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

impl ObjectPlugin for PerfMap {
    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        let mut lines = String::new();
        for (range, name) in link.symbols().functions().filter(|(range, _)| range.bytes() > 0) {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{:x} {:x} {name}", range.start.get(), range.bytes());
        }
        self.file.append(lines.as_bytes())
    }
}
