//! Filters of system calls.
//!
//! A call that a filter refuses fails with EPERM, and the code runs on. `clone3` fails as on a kernel without it, since a filter cannot
//! see its flags; the C library then uses `clone`.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::error::{Error, Result};

/// System calls by number. A call with rules matches if one of them does; a call without rules matches.
type Calls = BTreeMap<c_long, Vec<SeccompRule>>;

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

/// The same that only this processor has.
#[cfg(target_arch = "x86_64")]
const OLD_ALLOWED: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
];
/// The same that only this processor has.
#[cfg(not(target_arch = "x86_64"))]
const OLD_ALLOWED: &[c_long] = &[];

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

/// Refuses input into the terminal, as if a user had typed it.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn refuse_terminal_input() -> Result<()> {
    let mut calls = Calls::new();
    // `TIOCLINUX` pastes a selection.
    calls.insert(libc::SYS_ioctl, one_of(1, &[libc::TIOCSTI, libc::TIOCLINUX])?);
    install(calls, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM.unsigned_abs()))
}

/// Refuses every system call that is not listed in this file. `counts_memory` refuses memory files too, which no limit counts.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn allow_listed(counts_memory: bool) -> Result<()> {
    let calls = listed(std::process::id(), counts_memory)?;
    let unknown = Calls::from([(libc::SYS_clone3, Vec::new())]);
    let no_such_call = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    install(unknown, SeccompAction::Allow, no_such_call)?;
    install(calls, SeccompAction::Errno(libc::EPERM.unsigned_abs()), SeccompAction::Allow)
}

fn listed(own: u32, counts_memory: bool) -> Result<Calls> {
    let mut calls: Calls =
        ALLOWED.iter().chain(OLD_ALLOWED).map(|call| (*call, Vec::new())).collect();
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
    #[cfg(target_arch = "x86_64")]
    calls.insert(libc::SYS_open, vec![rule(1, WRITES, libc::O_RDONLY)?]);
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

/// Matches an argument of 32 bits that is one of these numbers.
fn one_of<N: Copy>(argument: u8, values: &[N]) -> Result<Vec<SeccompRule>>
where
    i64: TryFrom<N>,
{
    let equals = |value: &N| {
        let value = i64::try_from(*value).unwrap_or_default().cast_unsigned();
        let value = value & u64::from(u32::MAX);
        all(vec![condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?])
    };
    values.iter().map(equals).collect()
}

/// Matches an argument of which the bits of the mask are these.
fn rule(argument: u8, mask: i32, bits: i32) -> Result<SeccompRule> {
    let [mask, bits] = [mask, bits].map(|number| u64::from(number.cast_unsigned()));
    let masked = SeccompCmpOp::MaskedEq(mask);
    all(vec![condition(argument, SeccompCmpArgLen::Dword, masked, bits)?])
}

fn condition(
    argument: u8,
    length: SeccompCmpArgLen,
    operation: SeccompCmpOp,
    value: u64,
) -> Result<SeccompCondition> {
    SeccompCondition::new(argument, length, operation, value).map_err(refused)
}

fn all(conditions: Vec<SeccompCondition>) -> Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(refused)
}

fn install(calls: Calls, others: SeccompAction, these: SeccompAction) -> Result<()> {
    let processor = TargetArch::try_from(std::env::consts::ARCH).map_err(refused)?;
    let filter = SeccompFilter::new(calls, others, these, processor).map_err(refused)?;
    let program = BpfProgram::try_from(filter).map_err(refused)?;
    seccompiler::apply_filter(&program)
        .map_err(|error| Error::remote(format!("installing a filter of system calls: {error}")))
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("a filter of system calls: {error}"))
}
