//! Addresses of this process as pointers.

use crate::ExecutorAddr;

/// An address of this process as a pointer.
#[expect(clippy::cast_possible_truncation, reason = "an address of this process fits a pointer")]
pub(crate) fn pointer<T>(addr: ExecutorAddr) -> *const T {
    std::ptr::with_exposed_provenance(addr.get() as usize)
}
