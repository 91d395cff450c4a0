//! A thread's sign of life for the peer: a robust lock in shared memory that the thread holds.

use std::marker::PhantomData;

use super::Words;
use crate::error::Result;
use crate::sync::Ordering;
use crate::sys::process::robust;

/// `FUTEX_WAITERS`: tells the kernel that a thread sleeps on the lock's word, so that it wakes one when the holder dies.
const WAITERS: u64 = 0x8000_0000;

/// A lock that its creating thread holds until this is dropped or the thread ends.
#[derive(Debug)]
pub(crate) struct Holder {
    words: Words,
    /// The lock belongs to one thread.
    _thread: PhantomData<*const ()>,
}

impl Holder {
    /// Acquires the lock in these words. No other thread may acquire it.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    ///
    /// # Panics
    ///
    /// When the words have less room than a `pthread_mutex_t`.
    pub(crate) fn acquire(words: Words) -> Result<Self> {
        assert!(size_of::<libc::pthread_mutex_t>() <= words.len() * 8);
        let lock = words[0].as_ptr().cast();
        // SAFETY: the words are writable and aligned, `self` keeps them mapped, and only this process locks them.
        unsafe { robust::lock(lock) }?;
        words[0].fetch_or(WAITERS, Ordering::Relaxed);
        Ok(Self { words, _thread: PhantomData })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // SAFETY: this thread took the lock when it made this value, which is not `Send`.
        unsafe { robust::unlock(self.words[0].as_ptr().cast()) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::shm::Segment;
    use crate::sys::futex::OWNER_DIED as DIED;

    /// Ends the thread as linked code may, without running destructors.
    fn exit_thread() {
        // SAFETY: no value of this thread is used again.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }

    #[test]
    fn the_kernel_marks_the_word_of_a_holder_whose_thread_ends() {
        let segment = Arc::new(Segment::create(c"test", 4096, false).expect("memory"));
        let word = || segment.words()[8].load(Ordering::Acquire);
        let words = segment.view(8..14);
        std::thread::spawn(move || drop(Holder::acquire(words).expect("a lock")))
            .join()
            .expect("ends");
        assert_eq!(word() & DIED, 0);
        let words = segment.view(8..14);
        // Never joined: such a thread does not tell its joiner that it ends.
        drop(std::thread::spawn(move || {
            let _holder = Holder::acquire(words).expect("a lock");
            exit_thread();
        }));
        let start = std::time::Instant::now();
        while word() & DIED == 0 {
            assert!(start.elapsed().as_secs() < 10, "{:#x}", word());
            std::thread::yield_now();
        }
    }
}
