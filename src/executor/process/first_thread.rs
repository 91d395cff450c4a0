//! The end of the process when `main` ends its thread alone (`pthread_exit`): natively the process goes on until its last
//! thread has ended, and then exits with status 0. The executor has threads of its own, which never end; they do not
//! count.
#![allow(unsafe_code, reason = "registers a destructor with the C library")]

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::shm::{Holder, Words};
use crate::sync::{AtomicU64, Ordering};

/// Threads of the executor's own, the first one apart.
static OWN_THREADS: AtomicU64 = AtomicU64::new(0);

/// How often the threads are counted, once the first one has ended.
const LOOK: Duration = Duration::from_millis(1);

/// The C library runs destructors again that were set again, so often; the last time all others are done.
const ROUNDS: usize = 4;

thread_local! {
    /// Let go of by [`ended`] alone: a thread that leaves in any other way leaves it to the kernel.
    static HOLDER: Cell<Option<ManuallyDrop<Holder>>> = const { Cell::new(None) };
}

/// Takes the lock in `words` for as long as the calling thread, the process's first, serves. `pthread_exit` lets go of it, since
/// the process goes on then; a system call that ends the thread, and the end of the process, do not.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn hold(words: Words) -> Result<()> {
    HOLDER.set(Some(ManuallyDrop::new(Holder::take(words)?)));
    Ok(())
}

/// Ends the process with the program's last thread when the calling thread, the process's first, ends before.
///
/// # Errors
///
/// When the system refuses.
pub(crate) fn outlive_others() -> Result<()> {
    let mut key = 0;
    // SAFETY: the key is written to a live variable; the destructor takes any value.
    let status = unsafe { libc::pthread_key_create(&raw mut key, Some(ended)) };
    if status != 0 {
        return Err(Error::os(
            "watching the first thread",
            std::io::Error::from_raw_os_error(status),
        ));
    }
    KEY.store(u64::from(key), Ordering::Relaxed);
    set(1);
    Ok(())
}

/// Counts a thread of the executor's own, as long as the count is held.
#[derive(Debug)]
pub(crate) struct OwnThread(());

impl OwnThread {
    pub(crate) fn new() -> Self {
        OWN_THREADS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        OWN_THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

static KEY: AtomicU64 = AtomicU64::new(0);

fn set(round: usize) {
    let key = libc::pthread_key_t::try_from(KEY.load(Ordering::Relaxed)).unwrap_or_default();
    // SAFETY: the key was created; the value is a number and never followed.
    unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(round)) };
}

/// Runs on the first thread when it ends, after the destructors of its thread-locals.
unsafe extern "C" fn ended(round: *mut c_void) {
    if round.addr() < ROUNDS {
        return set(round.addr() + 1);
    }
    drop(HOLDER.take().map(ManuallyDrop::into_inner));
    // Others may wait for this very thread, so another one waits for them.
    let counted = OwnThread::new();
    let last = std::thread::Builder::new().name("farcall-last".to_owned());
    let _ = last.spawn(move || {
        let _counted = counted;
        // The first thread stays in the list of threads as long as there are others.
        while threads() > 1 + OWN_THREADS.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        std::process::exit(0);
    });
}

/// The threads of this process; 0 when the system does not say.
fn threads() -> u64 {
    std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count() as u64)
}
