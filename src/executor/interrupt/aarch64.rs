//! The processors on which calls are not interrupted.

use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;

/// The signal.
pub(super) const SIGNAL: i32 = libc::SIGURG;

/// Refuses every request.
///
/// # Errors
///
/// Always.
pub(super) fn install(_: &ServedCalls) -> Result<()> {
    Err(Error::invalid("calls are interrupted on x86-64 only"))
}

pub(super) fn release(_: &ServedCalls) {}

pub(super) fn obstacle(_: &ServedCalls) -> String {
    String::new()
}

/// No call is to end.
pub(crate) fn is_due(_: u64, _: u64) -> bool {
    false
}

/// Throws are not looked at.
pub(crate) fn in_place_of(_: &str, address: ExecutorAddr) -> ExecutorAddr {
    address
}
