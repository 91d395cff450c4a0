//! Tells a forked child from the process that had the threads and sessions.

use std::sync::Once;

use crate::sync::{AtomicU64, Ordering};

/// Forks on the way from the process that registered the handler to this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Makes [`generation`] count, for the rest of the process's life.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler only stores to a static, which a forked child may do. A C library without memory registers no
        // handler.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that differs in a child that this process forks. Costs a load.
#[inline]
pub(crate) fn generation() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_has_another_generation() {
        watch();
        let before = generation();
        // SAFETY: the child makes two system calls and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let differs = i32::from(generation() == before);
            // SAFETY: no code of the process runs behind this.
            unsafe { libc::_exit(differs) };
        }
        let mut status = 0;
        // SAFETY: waits for the child and stores to a local variable.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status, generation()), (child, 0, before));
    }
}
