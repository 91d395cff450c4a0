//! perf's jitdump: linked code with its names, source lines and times.
//!
//! Invariant: at any moment the file has only whole records, and the records of one link are contiguous.

use std::path::Path;

use super::jit_records::{Records, closing};
use super::profile_file::ProfileFile;
use crate::call::contract::ProfileMark;
use crate::controller::linker::finalizing::Finalizing;
use crate::controller::linker::object_plugin::ObjectPlugin;
use crate::controller::session::Process;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::sps::Bytes;
use crate::sync::AtomicU64;
use crate::sys::clock;

/// Writes the code of every link to `jit-PID.dump`, PID being the executor's, for
/// `perf record -k mono`, `perf inject --jit` and then `perf report` or `perf annotate`.
///
/// The controller writes the file, so it is complete even when the executor dies. When the dump is made, the executor maps the
/// file's first page as code and keeps the mapping. That is in perf's records, by which perf finds the file.
///
/// The file stays, because perf reads it after the process has ended. Each record has its time, and at any address the newest code
/// counts. So the removal of code needs no record, and the format has none. The last record is written when the last dylib or
/// layer with this plugin is dropped.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
/// # let process = executor.process()?;
/// use std::sync::Arc;
/// use farcall::controller::profile::JitDump;
/// let dump = JitDump::create(&process, std::env::temp_dir())?;
/// let path = dump.path().to_owned();
/// executor.library("main").add_plugin(Arc::new(dump))?;
/// assert!(path.exists());
/// # std::fs::remove_file(path).expect("it exists");
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct JitDump {
    file: ProfileFile,
    pid: u32,
    /// The number of functions written so far.
    functions: AtomicU64,
}

/// The format's numbers for "JiTD", its version, and x86-64.
const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const ELF_MACHINE: u32 = 62;
const HEADER_BYTES: u32 = 40;

impl JitDump {
    /// Makes the dump of an executor in a directory. Its file system must allow the executor to map files as code. Sends one message.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, the executor cannot map it, or the session is over.
    pub fn create(process: &Process, directory: impl AsRef<Path>) -> Result<Self> {
        let directory = std::path::absolute(directory.as_ref())
            .map_err(|error| Error::os("finding the directory of a dump", error))?;
        let name = |pid| format!("jit-{pid}.dump");
        let (file, pid) = ProfileFile::create(process, &directory, name)?;
        let mut header = Vec::new();
        for word in [MAGIC, VERSION, HEADER_BYTES, ELF_MACHINE, 0, pid] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        header.extend_from_slice(&clock::monotonic_ns().to_le_bytes());
        header.extend_from_slice(&0_u64.to_le_bytes());
        file.append(&header)?;
        let path = file.path().as_os_str().as_encoded_bytes().to_vec();
        process.session.remote().ask::<ProfileMark>(&(Bytes(path),), Deadline::SESSION_END)?;
        Ok(Self { file, pid, functions: AtomicU64::new(0) })
    }

    /// The path of the dump.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

impl ObjectPlugin for JitDump {
    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        let functions = link.symbols().functions();
        let dump = Records { pid: self.pid, time: clock::monotonic_ns(), next: &self.functions };
        let records = dump.of_link(link.objects(), functions, |range| link.code(range));
        if records.is_empty() { Ok(()) } else { self.file.append(&records) }
    }
}

impl Drop for JitDump {
    fn drop(&mut self) {
        // perf also reads a dump without its last record.
        let _ = self.file.append(&closing(clock::monotonic_ns()));
    }
}
