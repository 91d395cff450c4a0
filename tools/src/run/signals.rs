//! Signals between the caller and the program: each process of the two does what a native program alone would do.
//!
//! | signal | comes to | is passed on |
//! |---|---|---|
//! | one of [`PASSED`], by `kill` and the like | this process | to the executor |
//! | the same, by the terminal or the kernel | the whole process group | not: the executor gets it as well |
//! | the program stops itself | the executor | this process stops likewise, so that its shell sees it |
//! | the program dies by a signal | the executor | this process dies by the same one, without a core of its own |
//!
//! A signal that this process ignores stays ignored in the executor, unless the program handles it.
//!
//! Invariant: the handlers make system calls and read statics only.
#![allow(unsafe_code, reason = "handles signals")]

use std::ffi::{c_int, c_void};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use crate::status::{Failure, TOOL};

/// The signals that are passed on to the program.
const PASSED: [Signal; 10] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

/// The executor's process, which no other process takes the place of.
static EXECUTOR: OnceLock<OwnedFd> = OnceLock::new();
/// Its number.
static PID: AtomicI32 = AtomicI32::new(0);

/// Passes signals on to the executor from now on. Before this call they have their usual effect on this process, with which the
/// executor ends.
///
/// # Errors
///
/// If the system refuses.
pub(crate) fn pass_on(executor: i32) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(TOOL, format_args!("handling signals: {error}"))
    };
    // Without it the number serves, which is the executor's until it has ended.
    let file = Pid::from_raw(executor).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    if let Some(file) = file {
        let _ = EXECUTOR.set(file);
    }
    PID.store(executor, Ordering::Relaxed);
    for signal in PASSED {
        handle(signal, passed).map_err(|errno| failed(&errno))?;
    }
    handle(Signal::SIGCHLD, child_changed).map_err(|errno| failed(&errno))
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn handle(signal: Signal, handler: Handler) -> nix::Result<()> {
    let handler = SigHandler::SigAction(handler);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handlers of this file make system calls only.
    unsafe { sigaction(signal, &action) }.map(drop)
}

extern "C" fn passed(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid record to such a handler.
    let info = unsafe { &*info };
    // SAFETY: a process has sent it, whose number the record has then.
    let sender = unsafe { info.si_pid() };
    // The terminal and the kernel send to the group. The program may signal its group as well.
    if info.si_code <= 0 && sender != PID.load(Ordering::Relaxed) {
        send(signal);
    }
}

fn send(signal: c_int) {
    let Some(executor) = EXECUTOR.get() else {
        // SAFETY: kill takes two numbers.
        unsafe { libc::kill(PID.load(Ordering::Relaxed), signal) };
        return;
    };
    if let Some(signal) = rustix::process::Signal::from_named_raw(signal) {
        // It may have ended.
        let _ = pidfd_send_signal(executor, signal);
    }
}

extern "C" fn child_changed(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes a valid record to such a handler.
    let info = unsafe { &*info };
    // SAFETY: the record of SIGCHLD has a process's number.
    let child = unsafe { info.si_pid() };
    // SAFETY: as above, with what has happened to the process.
    let signal = unsafe { info.si_status() };
    if info.si_code == libc::CLD_STOPPED && child == PID.load(Ordering::Relaxed) {
        stop(signal);
    }
}

/// Stops this process by a signal, until it is told to go on.
fn stop(signal: c_int) {
    let mut before = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // All bytes zero: the default action.
    let default = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: both records are valid; for SIGSTOP the call fails, which has no handler to be replaced.
    let replaced = unsafe { libc::sigaction(signal, default.as_ptr(), before.as_mut_ptr()) } == 0;
    // SAFETY: raise has no preconditions.
    unsafe { libc::raise(signal) };
    if replaced {
        // SAFETY: the record is what the kernel has stored.
        unsafe { libc::sigaction(signal, before.as_ptr(), std::ptr::null_mut()) };
    }
}
