//! The action of SIGPIPE, by which a write to a closed pipe ends a process or fails.
//!
//! Programs inherit it: a service manager or a shell may have set that the signal is ignored. Rust's runtime ignores it before
//! `main`, so this module looks before the runtime does.

use std::ffi::c_void;

use crate::sync::{AtomicBool, Ordering};

/// True if this process was started with the signal ignored.
static IS_IGNORED: AtomicBool = AtomicBool::new(false);

/// The dynamic linker calls the function before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static CHECK: extern "C" fn() = check;

extern "C" fn check() {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: sets nothing, and writes the action.
    unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    // Only the value counts.
    IS_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
}

/// True if this process was started with the signal ignored. A shared library that is opened later cannot know it: its host may
/// have set the action itself. Then the answer is false.
pub(crate) fn was_ignored_at_start() -> bool {
    // SAFETY: the kernel's list of numbers is there for the whole life of the process.
    let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
    IS_IGNORED.load(Ordering::Relaxed) && file_of(headers) == file_of((&raw const CHECK) as u64)
}

/// The start of the loaded file that contains an address.
fn file_of(address: u64) -> Option<u64> {
    // SAFETY: all-zero bytes are a valid description.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let address = std::ptr::with_exposed_provenance::<c_void>(usize::try_from(address).ok()?);
    // SAFETY: any address may be asked for; the answer is written to a local.
    let is_found = unsafe { libc::dladdr(address, &raw mut info) } != 0;
    is_found.then_some(info.dli_fbase as u64)
}

/// Gives the signal the action with which this process was started.
pub(crate) fn restore() {
    let action = if was_ignored_at_start() { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: both actions are valid.
    unsafe { libc::signal(libc::SIGPIPE, action) };
}
