//! The names of linked functions for profilers that look samples up in a list: perf, and others that read its map.

use std::fmt::Write;
use std::path::Path;

use super::profile_file::ProfileFile;
use crate::controller::linker::finalizing::Finalizing;
use crate::controller::linker::object_plugin::ObjectPlugin;
use crate::controller::session::Controller;
use crate::error::Result;

/// Writes the functions of every link to `/tmp/perf-PID.map`, PID being the executor's: a line `START SIZE name` for each,
/// the numbers in hexadecimal.
///
/// It is this process that writes, so nothing is sent to the executor. An executor has one map; what links for it shares this
/// plugin.
///
/// perf reads the map when the process has ended, so the file stays; no process but the user removes it. For the same reason
/// functions that are removed stay in it. Where memory is used again, old and new functions are both there, and
/// [`JitDump`](crate::controller::profile::JitDump), which knows times, tells them apart.
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
    pub fn create(controller: &Controller) -> Result<Self> {
        let name = |pid| format!("perf-{pid}.map");
        // perf looks nowhere else.
        let (file, _) = ProfileFile::create(controller, Path::new("/tmp"), name)?;
        Ok(Self { file })
    }

    /// Where the map is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

impl ObjectPlugin for PerfMap {
    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        let mut lines = String::new();
        for (range, name) in link.symbols().functions().filter(|(range, _)| range.bytes() > 0) {
            // Text takes all of it.
            let _ = writeln!(lines, "{:x} {:x} {name}", range.start.get(), range.bytes());
        }
        self.file.append(lines.as_bytes())
    }
}
