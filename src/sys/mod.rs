//! System calls behind safe wrappers, in our words.
//!
//! Invariant: every function here is safe to call; nothing above this room names a system call.

/// The name of a signal, "SIGSEGV", or "signal 47" for one without a name.
pub(crate) fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}
