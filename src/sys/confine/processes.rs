//! Every system call that takes a process, and its judge: it says whether confined code may use the call on another process.
//!
//! At the strict level, `system_calls` lists what is left at all.

use libc::c_long;
use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompRule};

use super::filter::{Calls, all, condition, masked, none_of};
use crate::error::{Error, Result};

/// The judge of whether a call reaches another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// The kernel asks for the right to trace it, which Landlock refuses outside of the domain.
    Tracing,
    /// The kernel asks for the right to signal it, which Landlock refuses outside of the domain.
    Signals,
    /// The kernel takes a child of the caller's only.
    Parent,
    /// It shows what `/proc` shows to every process of the user, and changes nothing.
    Reader,
    /// The kernel asks for a capability, and there is none.
    Capability,
    /// The kernel asks for the same user at most. So the filter asks for the caller's own process: 0 or its number.
    Filter(Named),
}

/// How arguments name a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    /// By this argument.
    Number(u8),
    /// By the first one, and only a call with a third one changes anything.
    NumberToSet,
    /// By the second one, if the first one is this; else there is a group or a user.
    Which(i32),
    /// By the clock of its CPU time.
    Clock,
}

/// `PRIO_PROCESS`.
const PRIORITY_OF_PROCESS: i32 = 0;
/// `IOPRIO_WHO_PROCESS`.
const IO_OF_PROCESS: i32 = 1;

const CALLS: &[(c_long, Judge)] = &[
    // Limits, priorities, CPUs.
    (libc::SYS_prlimit64, Judge::Filter(Named::NumberToSet)),
    (libc::SYS_setpriority, Judge::Filter(Named::Which(PRIORITY_OF_PROCESS))),
    (libc::SYS_ioprio_set, Judge::Filter(Named::Which(IO_OF_PROCESS))),
    (libc::SYS_sched_setaffinity, Judge::Filter(Named::Number(0))),
    (libc::SYS_sched_setattr, Judge::Filter(Named::Number(0))),
    (libc::SYS_sched_setparam, Judge::Filter(Named::Number(0))),
    (libc::SYS_sched_setscheduler, Judge::Filter(Named::Number(0))),
    (libc::SYS_getpriority, Judge::Reader),
    (libc::SYS_ioprio_get, Judge::Reader),
    (libc::SYS_sched_getaffinity, Judge::Reader),
    (libc::SYS_sched_getattr, Judge::Reader),
    (libc::SYS_sched_getparam, Judge::Reader),
    (libc::SYS_sched_getscheduler, Judge::Reader),
    (libc::SYS_sched_rr_get_interval, Judge::Reader),
    // CPU time. A timer on it costs the process time at each tick.
    (libc::SYS_clock_nanosleep, Judge::Filter(Named::Clock)),
    (libc::SYS_timer_create, Judge::Filter(Named::Clock)),
    (libc::SYS_clock_getres, Judge::Reader),
    (libc::SYS_clock_gettime, Judge::Reader),
    // Memory, descriptors, and what the kernel keeps.
    (libc::SYS_kcmp, Judge::Tracing),
    (libc::SYS_migrate_pages, Judge::Tracing),
    (libc::SYS_move_pages, Judge::Tracing),
    (libc::SYS_perf_event_open, Judge::Tracing),
    (libc::SYS_pidfd_getfd, Judge::Tracing),
    (libc::SYS_process_madvise, Judge::Tracing),
    (libc::SYS_process_vm_readv, Judge::Tracing),
    (libc::SYS_process_vm_writev, Judge::Tracing),
    (libc::SYS_ptrace, Judge::Tracing),
    // Shows an address. An executor asks for the addresses of its own threads, whose numbers no filter knows.
    (libc::SYS_get_robust_list, Judge::Tracing),
    // Frees the memory of a process that is being killed.
    (libc::SYS_process_mrelease, Judge::Reader),
    (libc::SYS_capget, Judge::Reader),
    (libc::SYS_setns, Judge::Capability),
    // Signals.
    (libc::SYS_kill, Judge::Signals),
    (libc::SYS_pidfd_send_signal, Judge::Signals),
    (libc::SYS_rt_sigqueueinfo, Judge::Signals),
    (libc::SYS_rt_tgsigqueueinfo, Judge::Signals),
    (libc::SYS_tgkill, Judge::Signals),
    (libc::SYS_tkill, Judge::Signals),
    // The owner of a descriptor gets its signals: Landlock asks when they are sent.
    (libc::SYS_fcntl, Judge::Signals),
    // Groups, sessions, ends.
    (libc::SYS_setpgid, Judge::Parent),
    (libc::SYS_wait4, Judge::Parent),
    (libc::SYS_waitid, Judge::Parent),
    (libc::SYS_getpgid, Judge::Reader),
    (libc::SYS_getsid, Judge::Reader),
    // The descriptor gives no right: each use of it is judged.
    (libc::SYS_pidfd_open, Judge::Reader),
];

/// The calls that a filter refuses to the process with this number. A thread names itself by 0.
pub(super) fn refused(own: u32) -> Result<Calls> {
    let own = i32::try_from(own).map_err(|_| Error::invalid("a process number"))?;
    let rules = CALLS.iter().filter_map(|(call, judge)| match judge {
        Judge::Filter(named) => Some(of_others(*named, own).map(|rules| (*call, rules))),
        _ => None,
    });
    rules.collect()
}

/// True when Landlock or the kernel judges a call, and it does more than show something.
#[cfg(test)]
pub(super) fn is_judged_elsewhere(call: c_long) -> bool {
    let is_elsewhere = |judge| !matches!(judge, Judge::Reader | Judge::Filter(_));
    let shows_an_address = call == libc::SYS_get_robust_list;
    CALLS.iter().any(|(one, judge)| *one == call && is_elsewhere(*judge)) && !shows_an_address
}

/// Matches a call that names another process than the one with this number.
fn of_others(named: Named, own: i32) -> Result<Vec<SeccompRule>> {
    let of_another = |argument| none_of(argument, &[0, own]);
    match named {
        Named::Number(argument) => Ok(vec![all(of_another(argument)?)?]),
        Named::NumberToSet => {
            let sets = condition(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
            Ok(vec![all([of_another(0)?, vec![sets]].concat())?])
        }
        Named::Which(process) => Ok(vec![all(none_of(0, &[process])?)?, all(of_another(1)?)?]),
        Named::Clock => {
            // Negative, and of no thread: the kernel knows the clocks of the caller's own threads only.
            let of_process = masked(0, i32::MIN | OF_THREAD, i32::MIN)?;
            let own = none_of(0, &[clock_of(0), clock_of(own)])?;
            Ok(vec![all([vec![of_process], own].concat())?])
        }
    }
}

/// `CPUCLOCK_PERTHREAD_MASK`.
const OF_THREAD: i32 = 4;

/// The clock of a process's CPU time, as `clock_getcpuclockid` makes it.
fn clock_of(process: i32) -> i32 {
    /// `CPUCLOCK_SCHED`.
    const SCHEDULED: i32 = 2;
    !process << 3 | SCHEDULED
}

#[cfg(test)]
mod tests {
    use nix::time::clock_getcpuclockid;
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn each_call_has_one_judge() {
        for (at, (call, _)) in CALLS.iter().enumerate() {
            assert!(CALLS[..at].iter().all(|(other, _)| other != call), "system call {call}");
        }
    }

    #[test]
    fn the_clock_of_a_process_is_the_c_librarys() {
        let clock = clock_getcpuclockid(Pid::this()).expect("this process has a clock");
        assert_eq!(clock_of(Pid::this().as_raw()), clock.as_raw());
    }
}
