//! Children that have ended, or were killed, and that the kernel has not handed over yet.
//!
//! The kernel first hands an ended child to the process that traces it. That is a debugger, or a process that the child has chosen
//! itself. That process may keep it for any time. So no thread waits for such a child: it is noted here, and collected
//! when it comes.

use super::Awaiter;
use crate::sync::Mutex;
use crate::sys::process::per_process::PerProcess;

static LEFT: PerProcess<Mutex<Vec<Awaiter>>> = PerProcess::new();

/// Notes a child, to be collected later.
pub(crate) fn leave(child: Awaiter) {
    LEFT.get().lock().push(child);
}

/// Collects those that the kernel hands over. Never waits. True when others are left.
pub(crate) fn collect() -> bool {
    let mut left = LEFT.get().lock();
    left.retain(|child| matches!(child.collect(), Ok(None)));
    !left.is_empty()
}
