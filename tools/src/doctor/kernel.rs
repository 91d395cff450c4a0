//! System calls that farcall uses where they exist, each tried once.

use std::sync::atomic::AtomicU32;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::thread::futex::{Wait, WaitFlags, WaitPtr, WaitvFlags, waitv};
use rustix::thread::{ClockId, MembarrierCommand, membarrier, membarrier_query};

use super::file_of_kernel;
use super::row::{Mark, Row};

/// `MFD_EXEC`: the file may be mapped executable.
const MFD_EXEC: u32 = 0x10;

pub(super) fn rows() -> Vec<Row> {
    let release = file_of_kernel("/proc/sys/kernel/osrelease");
    vec![
        Row::new(
            "Linux",
            release.as_ref().map_or(Mark::Unknown, |_| Mark::Good),
            release.unwrap_or_else(|| "unknown".to_owned()),
            "5.9 separates the socket, 5.16 waits for several words at once",
        ),
        Row::found(
            "membarrier",
            registered(
                MembarrierCommand::RegisterPrivateExpedited,
                MembarrierCommand::PrivateExpedited,
            ),
            "each call of a handler issues a full fence, some 10 ns",
        ),
        Row::found(
            "membarrier core",
            registered(
                MembarrierCommand::RegisterPrivateExpeditedSyncCore,
                MembarrierCommand::PrivateExpeditedSyncCore,
            ),
            "nothing: the executor serializes its own instructions",
        ),
        memory_files(),
        Row::found(
            "pidfd_open",
            pidfd_open(getpid(), PidfdFlags::empty()).map(|_| "works".to_owned()).map_err(refused),
            "no executor: its end could not be seen without a race",
        ),
        Row::found(
            "futex_waitv",
            several_words(),
            "a sleeper wakes every 5 ms to look at its words",
        ),
    ]
}

/// Registers this process and issues one barrier.
fn registered(register: MembarrierCommand, issue: MembarrierCommand) -> Result<String, String> {
    if !membarrier_query().contains_command(issue) {
        return Err("not offered".to_owned());
    }
    let issued = membarrier(register).and_then(|()| membarrier(issue));
    issued.map(|()| "works".to_owned()).map_err(refused)
}

fn memory_files() -> Row {
    let policy = file_of_kernel("/proc/sys/vm/memfd_noexec");
    let policy = policy.map_or(String::new(), |policy| format!(", vm.memfd_noexec={policy}"));
    let base = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let executable = memfd_create("farcall-doctor", base | MemfdFlags::from_bits_retain(MFD_EXEC));
    let created = match executable {
        // Kernels before 6.3 do not know the flag; there every memory file may be mapped executable.
        Err(Errno::INVAL) => memfd_create("farcall-doctor", base),
        other => other,
    };
    let found = match created {
        Ok(_) => Ok(format!("executable files{policy}")),
        Err(error) => Err(format!("{}{policy}", refused(error))),
    };
    Row::found("memfd_create", found, "no executor: all memory is shared by such files")
}

/// Waits for a word that has another value, so the call returns at once.
fn several_words() -> Result<String, String> {
    let word = AtomicU32::new(0);
    let mut wait = Wait::new();
    wait.val = 1;
    wait.uaddr = WaitPtr::new(word.as_ptr().cast());
    wait.flags = WaitFlags::SIZE_U32;
    match waitv(&[wait], WaitvFlags::empty(), None, ClockId::Monotonic) {
        Ok(_) | Err(Errno::AGAIN) => Ok("works".to_owned()),
        Err(error) => Err(refused(error)),
    }
}

fn refused(error: Errno) -> String {
    format!("refused: {error}")
}
