//! A thread of this process, as the kernel sees it.

/// The calling thread's number.
pub fn number() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// True for a thread that is not running or ready to run: it waits, or is gone.
pub fn is_asleep(thread: i32) -> bool {
    state(thread) != Some('R')
}

/// The kernel's letter for a thread's state; `None` when the thread is gone.
pub fn state(thread: i32) -> Option<char> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The state follows the name, which stands in parentheses and may contain some.
    status.rsplit_once(')')?.1.trim_start().chars().next()
}
