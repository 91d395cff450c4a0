//! Limits on what a process uses.

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::confinement::Confinement;
use crate::error::{Error, Result};

/// Seconds from SIGXCPU to SIGKILL.
const CPU_GRACE_SECONDS: u64 = 1;

/// Sets the limits of this process. A limit that is lower already stays.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn limit(confinement: &Confinement) -> Result<()> {
    let set = |resource, maximum: Option<u64>, grace: u64| match maximum {
        Some(maximum) => lower(resource, maximum, maximum.saturating_add(grace)),
        None => Ok(()),
    };
    // Of all limits on memory this one alone leaves out the controller's memory, of which much address space is reserved.
    set(Resource::RLIMIT_DATA, confinement.memory_bytes_max, 0)?;
    // Stacks of main threads do not count as data.
    set(Resource::RLIMIT_STACK, confinement.memory_bytes_max, 0)?;
    set(Resource::RLIMIT_CPU, confinement.cpu_seconds_max, CPU_GRACE_SECONDS)?;
    set(Resource::RLIMIT_NOFILE, confinement.descriptors_max, 0)?;
    set(Resource::RLIMIT_FSIZE, confinement.file_bytes_max, 0)?;
    if confinement.is_background { leave_cpus_to_others() } else { Ok(()) }
}

/// From now on this thread, and those that it starts, run on CPUs that nothing else wants.
fn leave_cpus_to_others() -> Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the call reads the record, and changes this thread alone.
    let set = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    Errno::result(set).map(drop).map_err(|errno| Error::os("leaving the CPUs to others", errno))
}

/// From now on this process leaves no core file.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn leave_no_core() -> Result<()> {
    lower(Resource::RLIMIT_CORE, 0, 0)
}

/// The part of what a user may have that this process leaves to the user's other processes.
const LEFT_TO_OTHERS: u64 = 4;

/// From now on this process starts no thread and no timer when its user has three quarters of what the user may have. The kernel counts
/// both for the whole user; it counts no threads of root's.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn leave_room_for_others() -> Result<()> {
    for resource in [Resource::RLIMIT_NPROC, Resource::RLIMIT_SIGPENDING] {
        let during = |errno| Error::os(format!("reading the limit {resource:?}"), errno);
        let (soft, _) = getrlimit(resource).map_err(during)?;
        let most = match resource {
            Resource::RLIMIT_NPROC => {
                THREADS_OF_SYSTEM.into_iter().filter_map(number_in).fold(soft, u64::min)
            }
            _ => soft,
        };
        let left = most - most / LEFT_TO_OTHERS;
        lower(resource, left, left)?;
    }
    Ok(())
}

/// How many threads the whole system may have.
const THREADS_OF_SYSTEM: [&str; 2] = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];

fn number_in(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn lower(resource: Resource, soft: u64, hard: u64) -> Result<()> {
    let during = |errno| Error::os(format!("limiting {resource:?} to {soft}"), errno);
    let (old_soft, old_hard) = getrlimit(resource).map_err(during)?;
    let hard = hard.min(old_hard);
    setrlimit(resource, soft.min(old_soft).min(hard), hard).map_err(during)
}
