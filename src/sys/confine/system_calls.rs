//! The system calls that each level leaves.
//!
//! A call that a filter refuses fails with EPERM, and the code runs on. `clone3` fails as on a kernel without it, since a filter cannot
//! see its flags; the C library then uses `clone`.

use libc::c_long;
use seccompiler::{SeccompAction, SeccompCmpArgLen, SeccompCmpOp};

use super::filter::{Calls, all, condition, install, one_of, refuse_other_calls, rule};
use super::{processes, sockets};
use crate::error::{Error, Result};
use crate::sys::processor;

/// Calls of a session and of ordinary C code that need no judgement of their arguments.
const ALLOWED: &[c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_fallocate,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munmap,
    // Threads. The filter of `clone3` comes first.
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_rseq,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    // Signals.
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    // Time.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_timer_create,
    libc::SYS_timer_delete,
    libc::SYS_timer_gettime,
    libc::SYS_timer_settime,
    libc::SYS_times,
    // The process itself.
    libc::SYS_exit_group,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Descriptors that are open. The control socket is one.
    libc::SYS_close,
    // Gives the thread that opens lanes a table of descriptors of its own.
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_fstat,
    libc::SYS_ftruncate,
    libc::SYS_lseek,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_write,
    libc::SYS_writev,
    // Files, which Landlock restricts.
    libc::SYS_faccessat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_statx,
];

/// Flags of `open` with which a file is written or made.
const WRITES: i32 =
    libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);
/// Flags that make a `clone` a thread.
const THREAD: i32 = libc::CLONE_VM | libc::CLONE_THREAD;
/// Flags that make namespaces.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;
/// Commands of `fcntl` that change this process's descriptors only. Those that direct signals to a process are not among them.
const DESCRIPTOR_COMMANDS: [i32; 7] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];
/// `PR_SET_VMA`, with which the C library names memory.
const NAME_MEMORY: i32 = 0x5356_4d41;

/// Refuses what no confined process may do. It reaches no other process, makes no socket of TCP, and no child of its parent's. It types
/// nothing into the terminal, and does not take the terminal. `own` is the number of this process.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn refuse_reaching_out(own: u32) -> Result<()> {
    let mut calls = processes::refused(own)?;
    calls.extend(sockets::refused()?);
    calls.insert(libc::SYS_clone, vec![rule(0, libc::CLONE_PARENT, libc::CLONE_PARENT)?]);
    // `TIOCLINUX` pastes a selection.
    let of_terminals = [libc::TIOCSTI, libc::TIOCLINUX, libc::TIOCSPGRP];
    calls.insert(libc::SYS_ioctl, one_of(1, &of_terminals)?);
    refuse(calls, libc::EPERM)?;
    refuse(Calls::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?;
    refuse_other_calls()
}

/// Refuses a forked copy, the process `own`, to reach the process that it is a copy of, whose number the filters know as their own.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn refuse_reaching_original(own: u32) -> Result<()> {
    refuse(processes::refused(own)?, libc::EPERM)
}

fn refuse(calls: Calls, error: i32) -> Result<()> {
    install(calls, SeccompAction::Allow, SeccompAction::Errno(error.unsigned_abs()))
}

/// Refuses every system call that is not listed in this file. `own` is the number of this process. `counts_memory` refuses memory files
/// too, which no limit counts.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn allow_listed(own: u32, counts_memory: bool) -> Result<()> {
    let calls = listed(own, counts_memory)?;
    install(calls, SeccompAction::Errno(libc::EPERM.unsigned_abs()), SeccompAction::Allow)
}

fn listed(own: u32, counts_memory: bool) -> Result<Calls> {
    let mut calls: Calls =
        ALLOWED.iter().chain(processor::OLD_CALLS).map(|call| (*call, Vec::new())).collect();
    if !counts_memory {
        calls.insert(libc::SYS_memfd_create, Vec::new());
    }
    // Shared memory without a file counts for no limit.
    calls.insert(
        libc::SYS_mmap,
        vec![rule(3, libc::MAP_SHARED, 0)?, rule(3, libc::MAP_ANONYMOUS, 0)?],
    );
    calls.insert(libc::SYS_clone, vec![rule(0, THREAD | NAMESPACES, THREAD)?]);
    calls.insert(libc::SYS_openat, vec![rule(2, WRITES, libc::O_RDONLY)?]);
    if let Some(open) = processor::OPEN {
        calls.insert(open, vec![rule(1, WRITES, libc::O_RDONLY)?]);
    }
    calls.insert(libc::SYS_fcntl, one_of(1, &DESCRIPTOR_COMMANDS)?);
    // C programs ask whether their output is a terminal.
    calls.insert(libc::SYS_ioctl, one_of(1, &[libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD])?);
    let named = [libc::PR_SET_NAME, libc::PR_GET_NAME, NAME_MEMORY];
    calls.insert(libc::SYS_prctl, one_of(0, &named)?);
    // Limits are read, and not set.
    let no_new_limit = condition(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    calls.insert(libc::SYS_prlimit64, vec![all(vec![no_new_limit])?]);
    let own = i32::try_from(own).map_err(|_| Error::invalid("a process number"))?;
    for call in
        [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev]
    {
        calls.insert(call, one_of(0, &[own])?);
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The strict level needs no Landlock for this.
    #[test]
    fn no_call_of_the_strict_list_reaches_another_process() {
        let refused = processes::refused(7).expect("rules");
        for counts_memory in [false, true] {
            for (call, rules) in listed(7, counts_memory).expect("rules") {
                let is_filtered = !rules.is_empty() || refused.contains_key(&call);
                assert!(is_filtered || !processes::is_judged_elsewhere(call), "system call {call}");
            }
        }
    }
}
