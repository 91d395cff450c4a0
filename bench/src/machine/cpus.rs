//! The two CPUs of a contest, and pinning to them.
//!
//! Invariant: the affinity of the calling thread is changed only while a [`Pinned`] lives.

use std::fs;
use std::str::FromStr;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::Result;

/// The CPU of the calling side and the CPU of the serving side; the same one if only one exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuPair {
    /// The CPU of the thread that makes the calls.
    #[serde(rename = "caller_cpu")]
    pub caller: usize,
    /// The CPU of the servers.
    #[serde(rename = "server_cpu")]
    pub server: usize,
}

impl CpuPair {
    /// The first two CPUs that this process may use, or the only one twice.
    ///
    /// # Errors
    /// When the kernel does not return the affinity of this thread.
    pub fn first_two() -> Result<CpuPair> {
        let mut cpus = allowed()?.into_iter();
        let caller = cpus.next().ok_or("the affinity mask of this thread is empty")?;
        Ok(CpuPair { caller, server: cpus.next().unwrap_or(caller) })
    }

    /// Checks that this process may use both CPUs.
    ///
    /// # Errors
    /// A CPU that this process may not use, with the list of those that it may; or the kernel does not return the affinity.
    pub fn check(self) -> Result<()> {
        let allowed = allowed()?;
        for cpu in [self.caller, self.server] {
            if !allowed.contains(&cpu) {
                let names: Vec<_> = allowed.iter().map(usize::to_string).collect();
                return Err(format!(
                    "CPU {cpu}: this process may not use it, only {}",
                    names.join(", ")
                )
                .into());
            }
        }
        Ok(())
    }

    /// True when both sides share one CPU, so that spinning only delays the other side.
    #[must_use]
    pub fn is_shared(self) -> bool {
        self.caller == self.server
    }

    /// Pins every thread that process `pid` has now to the server's CPU; threads it starts later
    /// inherit that. For contenders that bring a server of their own.
    ///
    /// # Errors
    /// When the process is gone or belongs to another user, or may not use the CPU.
    pub fn pin_server(self, pid: u32) -> Result<()> {
        pin_process(pid, &[self.server])
    }

    /// Pins the calling thread to the caller's CPU until the guard is dropped, on the same thread.
    ///
    /// # Errors
    /// When the thread may not use the CPU any more.
    pub fn pin_caller(self) -> Result<Pinned> {
        pin_guarded(&[self.caller])
    }

    /// Leaves both CPUs, and no others, to the calling thread until the guard is dropped, on the same thread. Threads and
    /// processes that it starts meanwhile inherit that.
    ///
    /// # Errors
    /// When the thread may not use the CPUs any more.
    pub(crate) fn pin_to_both(self) -> Result<Pinned> {
        pin_guarded(&[self.caller, self.server])
    }
}

impl FromStr for CpuPair {
    type Err = String;

    /// Reads two numbers with a comma between them: the caller's CPU and the server's.
    fn from_str(text: &str) -> std::result::Result<CpuPair, String> {
        let numbers = text.split_once(',').and_then(|(caller, server)| {
            Some(CpuPair {
                caller: caller.trim().parse().ok()?,
                server: server.trim().parse().ok()?,
            })
        });
        numbers.ok_or_else(|| format!("{text}: not two CPUs; write 0,1"))
    }
}

/// The CPUs that this process may use.
fn allowed() -> Result<Vec<usize>> {
    let mask = sched_getaffinity(Pid::this())
        .map_err(|errno| format!("reading the affinity of this thread: {errno}"))?;
    Ok((0..CpuSet::count()).filter(|&cpu| mask.is_set(cpu).is_ok_and(|is_set| is_set)).collect())
}

/// Restores the affinity of the thread that made it, when that thread drops it.
#[derive(Debug)]
#[must_use = "the thread is pinned only as long as this lives"]
pub struct Pinned {
    before: CpuSet,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Fails only if a CPU went offline meanwhile; the thread then stays pinned.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

/// Leaves these CPUs, and no others, to every thread that process `pid` has now, and to threads that those start.
pub(crate) fn pin_process(pid: u32, cpus: &[usize]) -> Result<()> {
    let tasks = format!("/proc/{pid}/task");
    for task in fs::read_dir(&tasks).map_err(|error| format!("listing {tasks}: {error}"))? {
        let name = task?.file_name();
        let id = name.to_str().and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| format!("{tasks} lists {name:?}, not a thread id"))?;
        if let Err(error) = pin_to(Pid::from_raw(id), cpus)
            && fs::exists(format!("{tasks}/{id}")).unwrap_or(true)
        {
            return Err(error);
        }
        // A thread that has ended meanwhile needs no CPU.
    }
    Ok(())
}

fn pin_guarded(cpus: &[usize]) -> Result<Pinned> {
    let this_thread = Pid::from_raw(0);
    let before = sched_getaffinity(this_thread)
        .map_err(|errno| format!("reading the affinity of this thread: {errno}"))?;
    pin_to(this_thread, cpus)?;
    Ok(Pinned { before })
}

/// Leaves these CPUs, and no others, to a thread.
pub(crate) fn pin_to(thread: Pid, cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)
            .map_err(|_| format!("CPU {cpu} is above the {} of a mask", CpuSet::count()))?;
    }
    sched_setaffinity(thread, &set)
        .map_err(|errno| format!("pinning thread {thread} to CPUs {cpus:?}: {errno}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_and_checked() {
        assert_eq!("3,12".parse(), Ok(CpuPair { caller: 3, server: 12 }));
        for wrong in ["", "1", "1,2,3", "a,b", "-1,0"] {
            assert!(wrong.parse::<CpuPair>().unwrap_err().contains("write 0,1"), "{wrong}");
        }
        CpuPair::first_two().unwrap().check().unwrap();
        let error = CpuPair { caller: 0, server: 999_999 }.check().unwrap_err().to_string();
        assert!(error.starts_with("CPU 999999: this process may not use it, only "), "{error}");
    }

    #[test]
    fn pinning_the_caller_ends_with_the_guard() {
        let cpus = CpuPair::first_two().unwrap();
        let before = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let guard = cpus.pin_caller().unwrap();
        let during = sched_getaffinity(Pid::from_raw(0)).unwrap();
        let set: Vec<_> = (0..CpuSet::count()).filter(|&cpu| during.is_set(cpu).unwrap()).collect();
        assert_eq!(set, [cpus.caller]);
        drop(guard);
        assert_eq!(sched_getaffinity(Pid::from_raw(0)).unwrap(), before);
    }
}
