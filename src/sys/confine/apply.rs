//! The confinement of this process, in the order that is needed.

use nix::sys::prctl;
use nix::unistd::Pid;

use super::confinement::{Confinement, ConfinementLevel};
use super::enforced::{Enforced, Restriction};
use super::{capabilities, landlock, resources, sweeper, system_calls};
use crate::error::{Error, Result};

/// A process that has confined itself.
#[derive(Debug, Default)]
pub(crate) struct Confined {
    pub(crate) enforced: Enforced,
    /// The number of the sweeper, a child of the controller.
    pub(crate) sweeper: Option<i32>,
}

/// Confines this process, a child of `controller`, and all that it will start.
///
/// # Errors
///
/// When this process has several threads, since most restrictions are a thread's own. When the system refuses. When the kernel
/// lacks a restriction and the caller has not allowed that.
pub(crate) fn confine(confinement: &Confinement, controller: i32) -> Result<Confined> {
    resources::limit(confinement)?;
    let level = confinement.level();
    if level == ConfinementLevel::Default {
        return Ok(Confined::default());
    }
    let is_strict = level == ConfinementLevel::Strict;
    require_one_thread()?;
    let during = |errno| Error::os("giving up new privileges", errno);
    prctl::set_no_new_privs().map_err(during)?;
    resources::leave_no_core()?;
    resources::leave_room_for_others()?;
    capabilities::take_all()?;
    // Strictly confined code starts no processes.
    let sweeper = if is_strict { None } else { sweeper::start(Pid::from_raw(controller))? };
    let mut enforced = landlock::restrict(level)?;
    enforced.add(Restriction::Privileges);
    enforced.add(Restriction::CoreFiles);
    enforced.add(Restriction::Tcp);
    enforced.add(Restriction::TerminalInput);
    if sweeper.is_some() {
        enforced.add(Restriction::Descendants);
    }
    let own = std::process::id();
    system_calls::refuse_reaching_out(own)?;
    if is_strict {
        system_calls::allow_listed(own, confinement.memory_bytes_max.is_some())?;
        for restriction in BY_LIST {
            enforced.add(restriction);
        }
    }
    let missing: Vec<String> = enforced.missing().map(|one| one.to_string()).collect();
    if missing.is_empty() || confinement.allows_missing {
        return Ok(Confined { enforced, sweeper });
    }
    Err(Error::invalid(format!(
        "this kernel cannot restrict {}; its Landlock ABI is {}, of which 6 (Linux 6.12) is needed: Confinement::allow_missing starts \
         without",
        missing.join(", "),
        enforced.landlock_abi()
    )))
}

/// Confines this process, a forked copy of a process with these restrictions. It cannot signal, trace, limit or slow that process and
/// its other copies. Call while it has one thread.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn confine_copy(enforced: &Enforced) -> Result<()> {
    if enforced.enforces(Restriction::Signals) {
        landlock::scope_signals()?;
    }
    match enforced.level() {
        ConfinementLevel::Default => Ok(()),
        _ => system_calls::refuse_reaching_original(std::process::id()),
    }
}

/// Deeds for which the list of system calls leaves no way, whatever Landlock can.
const BY_LIST: [Restriction; 6] = [
    Restriction::SystemCalls,
    Restriction::FileWrites,
    Restriction::Tracing,
    Restriction::Signals,
    Restriction::AbstractSockets,
    Restriction::Descendants,
];

fn require_one_thread() -> Result<()> {
    let tasks = std::fs::read_dir("/proc/self/task");
    let tasks = tasks.map_err(|error| Error::os("counting threads before confinement", error))?;
    match tasks.count() {
        1 => Ok(()),
        count => Err(Error::invalid(format!(
            "{count} threads run before the executor confines itself: call run_if_spawned first in main"
        ))),
    }
}
