//! A process of root without root's rights.

use nix::errno::Errno;

use crate::error::{Error, Result};

/// The third form of the kernel's `struct __user_cap_header_struct` (capset(2)).
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

/// The kernel's `struct __user_cap_data_struct`: effective, permitted, inheritable.
#[repr(C)]
struct Data([u32; 3]);

/// Takes all capabilities from the calling thread. It cannot get them back once it gains no new privileges.
///
/// # Errors
///
/// When the system refuses.
pub(super) fn take_all() -> Result<()> {
    let header = Header { version: VERSION, pid: 0 };
    // The third form has 64 capabilities, in two records.
    let none = [Data([0; 3]), Data([0; 3])];
    // SAFETY: the kernel reads a header, and as many records as its version says.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    Errno::result(set).map(drop).map_err(|errno| Error::os("giving up capabilities", errno))
}
