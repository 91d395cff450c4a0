//! Whether this process is a copy of one that had threads and sessions of its own.

use std::sync::Once;

use crate::sync::{AtomicU64, Ordering};

/// How often this process or one before it was copied since the handler was registered.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Makes [`generation`] count, for the rest of the process's life.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the handler stores to a static alone, which a forked child may do. A C library without memory for it
        // watches nothing.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that is another one in a child that this process forks. Costs a load.
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
            // SAFETY: nothing of the process's is run.
            unsafe { libc::_exit(differs) };
        }
        let mut status = 0;
        // SAFETY: waits for the child and stores to a local variable.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status, generation()), (child, 0, before));
    }
}
