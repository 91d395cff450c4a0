//! System calls that a policy of the system refuses: filters of containers that are older than the call, SELinux.

use crate::error::Error;

/// The same error, with the name of the system call behind it if a policy may have refused the call.
pub(crate) fn named(error: Error, call: &str) -> Error {
    match cause(error.raw_os_error(), call) {
        Some(cause) => error.and(&Error::invalid(cause)),
        None => error,
    }
}

/// The reason of a system call that has failed with this error, if policies answer with it.
pub(crate) fn cause(error: Option<i32>, call: &str) -> Option<String> {
    matches!(error?, libc::EACCES | libc::EPERM | libc::ENOSYS).then(|| {
        format!(
            "a policy of this system (seccomp, a container, SELinux) refuses {call}: allow it, or use a newer policy"
        )
    })
}
