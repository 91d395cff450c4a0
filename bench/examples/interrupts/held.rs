//! The resources of a process, as the kernel counts them.

use std::fmt;
use std::fs;

use farcall_bench::Result;

/// Memory that an allocator may keep.
const KEPT_KIB: u64 = 8 << 10;
/// The bytes that an interrupted call may leave allocated: its functions are left in the midst of what they do.
const LEFT_BYTES: usize = 4096;

/// The resources of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    threads: usize,
    descriptors: usize,
    pub(crate) memory_kib: u64,
}

impl Held {
    /// Of the process with this number, or of this one for `self`.
    pub(crate) fn of(pid: &str) -> Result<Self> {
        let entries = |folder: &str| Ok::<_, std::io::Error>(fs::read_dir(folder)?.count());
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let memory = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let memory = memory.and_then(|rest| rest.split_whitespace().next());
        Ok(Self {
            threads: entries(&format!("/proc/{pid}/task"))?,
            descriptors: entries(&format!("/proc/{pid}/fd"))?,
            memory_kib: memory.ok_or("no resident size")?.parse()?,
        })
    }

    /// Compares with a look before these interrupts of a program with such a buffer.
    ///
    /// # Errors
    ///
    /// When there is more.
    pub(crate) fn check(self, before: Self, interrupts: usize, buffer_kib: u64) -> Result<()> {
        let left_kib = buffer_kib + ((interrupts * LEFT_BYTES) as u64 >> 10);
        let is_flat = self.threads <= before.threads
            && self.descriptors <= before.descriptors
            && self.memory_kib <= before.memory_kib + KEPT_KIB + left_kib;
        match is_flat {
            true => Ok(()),
            false => Err(format!("{before} became {self}").into()),
        }
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { threads, descriptors, memory_kib } = self;
        write!(f, "{threads} threads, {descriptors} descriptors, {memory_kib} KiB")
    }
}
