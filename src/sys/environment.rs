//! The environment variables by which the parent of this process may command it.

use std::ffi::OsString;

/// The value of a variable. `None` if it is unset or empty, or if this process has gained rights at its start that its parent
/// does not have.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !has_gained_rights() && !value.is_empty())
}

/// True if this process has gained rights at its start that its parent does not have, as a set-user-ID program does.
pub(crate) fn has_gained_rights() -> bool {
    // SAFETY: reads what the kernel has told this process.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}
