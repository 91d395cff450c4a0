//! The process's end after `main` ended its thread alone (`pthread_exit`). Natively the process continues until its
//! last thread ends, and exits with status 0. Threads of the executor itself never end, so they do not count here.
#![allow(unsafe_code, reason = "registers a destructor with the C library")]

use std::cell::Cell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::shm::{Holder, Words};
use crate::sync::{AtomicU64, Ordering};
use crate::sys::process::thread::{SignalMask, Undisturbed};

/// The number of threads of the executor itself, the first thread excluded.
static OWN_THREADS: AtomicU64 = AtomicU64::new(0);

/// The interval in which threads are counted after the end of the first one.
const COUNT_INTERVAL: Duration = Duration::from_millis(1);

/// The interval in which the first thread looks whether the others have ended.
const ALONE_INTERVAL: Duration = Duration::from_micros(50);

/// The number of rounds in which the C library runs destructors that were set again. In the last one all other
/// destructors have run.
const ROUNDS: usize = 4;

thread_local! {
    /// Released by [`ended`] only. A thread that ends in another way leaves the lock to the kernel.
    static HOLDER: Cell<Option<ManuallyDrop<Holder>>> = const { Cell::new(None) };
}

/// Takes the robust lock in `words` while the calling thread, the process's first, serves. `pthread_exit` releases
/// it, because the process continues; a system call that ends the thread, and the process's end, leave it to the
/// kernel.
///
/// # Errors
///
/// If the system refuses.
pub(crate) fn hold(words: Words) -> Result<()> {
    HOLDER.set(Some(ManuallyDrop::new(Holder::acquire(words)?)));
    Ok(())
}

/// Releases that lock, when the calling thread serves no more.
pub(crate) fn release() {
    drop(HOLDER.take().map(ManuallyDrop::into_inner));
}

/// How many threads of the program run, the first one excluded.
pub(crate) fn program_threads() -> u64 {
    threads().saturating_sub(1 + OWN_THREADS.load(Ordering::Relaxed))
}

/// Waits until the calling thread, the first one, is the only one, or the deadline passes. False then.
pub(crate) fn wait_alone(deadline: Deadline) -> bool {
    while threads() != 1 {
        if deadline.has_passed() {
            return false;
        }
        std::thread::sleep(ALONE_INTERVAL);
    }
    true
}

/// Has the process end with the program's last thread if the calling thread, the process's first, ends before it.
///
/// # Errors
///
/// If the system refuses.
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

/// Counts a thread of the executor itself while it lives.
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
    // SAFETY: the key was created; the value is a number that is never dereferenced.
    unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(round)) };
}

/// Runs on the first thread at its end, after the destructors of its thread-locals.
unsafe extern "C" fn ended(round: *mut c_void) {
    if round.addr() < ROUNDS {
        return set(round.addr() + 1);
    }
    release();
    // Other threads may wait for the end of this thread, so a new thread waits for them.
    let counted = OwnThread::new();
    let mask = SignalMask::of_thread();
    let _undisturbed = Undisturbed::new();
    let last = std::thread::Builder::new().name("farcall-last".to_owned());
    let _ = last.spawn(move || {
        let _counted = counted;
        // `/proc` lists the first thread while others run.
        while threads() > 1 + OWN_THREADS.load(Ordering::Relaxed) {
            std::thread::sleep(COUNT_INTERVAL);
        }
        // Exit handlers are the program's.
        mask.set();
        std::process::exit(0);
    });
}

/// The number of threads of this process; 0 if the system does not say.
fn threads() -> u64 {
    std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count() as u64)
}
