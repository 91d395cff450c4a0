//! Linked code itself for profilers, with names, source lines and times: perf's jitdump.
//!
//! Invariant: the file is whole records at any moment, one link's after the other's.

use std::path::Path;

use super::finalizing::Finalizing;
use super::object_plugin::ObjectPlugin;
use super::profile_file::ProfileFile;
use super::session::Controller;
use crate::call::contract::ProfileMark;
use crate::error::{Error, Result};
use crate::sps::Bytes;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::clock;
use crate::{AddrRange, ExecutorAddr};

/// Writes the code of every link to `jit-PID.dump`, PID being the executor's, for
/// `perf record -k mono`, `perf inject --jit` and then `perf report` or `perf annotate`.
///
/// It is this process that writes, so the file is complete even when the executor dies. The executor does one thing for it, when
/// the dump is made: it maps the file's first page as code and leaves it there, which perf writes down and so finds
/// the file.
///
/// perf reads the file when the process has ended, so it stays. Every record has its time, so what is removed need not
/// be said, and there is no record for it: at any address the newest code counts. The last record is written
/// when the last of what links with this plugin is dropped.
#[derive(Debug)]
pub struct JitDump {
    file: ProfileFile,
    pid: u32,
    /// How many functions were written.
    functions: AtomicU64,
}

/// The numbers that the format has for what it says: "JiTD", its version, x86-64.
const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const ELF_MACHINE: u32 = 62;
const HEADER_BYTES: u32 = 40;
const PREFIX_BYTES: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_DEBUG_INFO: u32 = 2;
const CODE_CLOSE: u32 = 3;

/// A line of a source, in a function.
struct Line {
    address: ExecutorAddr,
    line: u32,
    discriminator: u32,
    /// Which of the files.
    file: usize,
}

impl JitDump {
    /// Makes the dump of an executor in a directory from which files may be mapped as code. One message.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, the executor cannot map it, or the session is over.
    pub fn create(controller: &Controller, directory: impl AsRef<Path>) -> Result<Self> {
        let directory = std::path::absolute(directory.as_ref())
            .map_err(|error| Error::os("finding the directory of a dump", error))?;
        let name = |pid| format!("jit-{pid}.dump");
        let (file, pid) = ProfileFile::create(controller, &directory, name)?;
        let mut header = Vec::new();
        for word in [MAGIC, VERSION, HEADER_BYTES, ELF_MACHINE, 0, pid] {
            header.extend_from_slice(&word.to_le_bytes());
        }
        header.extend_from_slice(&clock::monotonic_ns().to_le_bytes());
        header.extend_from_slice(&0_u64.to_le_bytes());
        file.append(&header)?;
        let path = file.path().as_os_str().as_encoded_bytes().to_vec();
        controller.shared.call::<ProfileMark>(&(Bytes(path),))?;
        Ok(Self { file, pid, functions: AtomicU64::new(0) })
    }

    /// Where the dump is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What says that a function was loaded.
    fn load(&self, time: u64, range: AddrRange, name: &str, code: &[u8]) -> Vec<u8> {
        let mut record = Vec::with_capacity(PREFIX_BYTES + 40 + name.len() + 1 + code.len());
        // The process, and the thread that made it, for which its first one stands.
        record.extend_from_slice(&self.pid.to_le_bytes());
        record.extend_from_slice(&self.pid.to_le_bytes());
        let number = self.functions.fetch_add(1, Ordering::Relaxed);
        let start = range.start.get();
        for word in [start, start, code.len() as u64, number] {
            record.extend_from_slice(&word.to_le_bytes());
        }
        record.extend_from_slice(name.as_bytes());
        record.push(0);
        record.extend_from_slice(code);
        with_prefix(CODE_LOAD, time, record)
    }
}

impl ObjectPlugin for JitDump {
    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        let time = clock::monotonic_ns();
        let (files, lines) = lines(link);
        let mut records = Vec::new();
        let mut last = AddrRange::default();
        for (range, name) in link.symbols().functions() {
            let code = link.code(range);
            // Another name for the same function is the same code.
            if code.is_empty() || range == last {
                continue;
            }
            last = range;
            let from = lines.partition_point(|line| line.address < range.start);
            let to = lines.partition_point(|line| line.address < range.end);
            if from < to {
                records.extend(debug_info(time, range.start, &lines[from..to], &files));
            }
            records.extend(self.load(time, range, name, code));
        }
        if records.is_empty() { Ok(()) } else { self.file.append(&records) }
    }
}

impl Drop for JitDump {
    fn drop(&mut self) {
        // A dump without an end is good as well.
        let _ = self.file.append(&with_prefix(CODE_CLOSE, clock::monotonic_ns(), Vec::new()));
    }
}

/// The lines of a link by address, and the files that they are in.
fn lines(link: &Finalizing<'_>) -> (Vec<String>, Vec<Line>) {
    let mut files: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for object in link.objects() {
        object.lines(|line| {
            if files.last().is_none_or(|last| last != line.file) {
                files.push(line.file.to_owned());
            }
            let file = files.len() - 1;
            let (address, discriminator) = (line.address, line.discriminator);
            lines.push(Line { address, line: line.line, discriminator, file });
        });
    }
    lines.sort_by_key(|line| line.address);
    (files, lines)
}

/// What says where the code of a function comes from, which the record of its code follows.
fn debug_info(time: u64, function: ExecutorAddr, lines: &[Line], files: &[String]) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend_from_slice(&function.get().to_le_bytes());
    record.extend_from_slice(&(lines.len() as u64).to_le_bytes());
    for Line { address, line, discriminator, file } in lines {
        record.extend_from_slice(&address.get().to_le_bytes());
        record.extend_from_slice(&line.to_le_bytes());
        record.extend_from_slice(&discriminator.to_le_bytes());
        record.extend_from_slice(files[*file].as_bytes());
        record.push(0);
    }
    with_prefix(CODE_DEBUG_INFO, time, record)
}

/// A record: what it is, its size, its time, and the rest.
fn with_prefix(kind: u32, time: u64, rest: Vec<u8>) -> Vec<u8> {
    let bytes = u32::try_from(PREFIX_BYTES + rest.len()).unwrap_or(u32::MAX);
    let mut record = Vec::with_capacity(PREFIX_BYTES + rest.len());
    record.extend_from_slice(&kind.to_le_bytes());
    record.extend_from_slice(&bytes.to_le_bytes());
    record.extend_from_slice(&time.to_le_bytes());
    record.extend(rest);
    record
}
