//! Death by a signal, as the program of a command has died.
#![allow(unsafe_code, reason = "gives a signal its default action, and raises it")]

use std::io::Write;

use nix::libc;
use nix::sys::signal::{SigSet, Signal};
use rustix::process::DumpableBehavior;

/// Dies by the signal that has ended the program, without a core. Returns if the signal does not end this process, as for
/// the first process of a container.
pub(crate) fn die_by(signal: i32) {
    let _ = std::io::stdout().flush();
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // SAFETY: the default action is a valid one.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    if let Ok(signal) = Signal::try_from(signal) {
        let _ = SigSet::from(signal).thread_unblock();
    }
    // SAFETY: raise has no preconditions.
    unsafe { libc::raise(signal) };
}
