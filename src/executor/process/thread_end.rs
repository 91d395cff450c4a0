//! Destructors of linked code's thread-locals.
//!
//! They run at their thread's end, the last registered first, and in the right order with the destructors of shared libraries. For each
//! destructor here the C library owes the thread one call of [`run_newest`], which runs the newest one left.
//!
//! When a program is removed, its destructors for the calling thread run at once. Those for other threads are
//! discarded, because only a thread itself can run its own, and their code is about to be removed. Calls that the C
//! library still owes a thread then serve destructors that are registered later. So loading and removing a program
//! any number of times takes no memory.
//!
//! Invariant: no destructor runs under the lock.
#![allow(unsafe_code, reason = "calls destructors by address")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use crate::ExecutorAddr;
use crate::executor::entry::enter;
use crate::sync::Mutex;
use crate::sys::process::thread;

#[derive(Debug, Clone, Copy)]
struct Destructor {
    function: ExecutorAddr,
    object: usize,
}

/// The destructors of all threads. Each is known by its program, the thread pointer of its thread, and a number that increases.
struct Destructors {
    number: u64,
    all: BTreeMap<(ExecutorAddr, u64, u64), Destructor>,
    /// The program of each, by thread and number.
    of_threads: BTreeMap<(u64, u64), ExecutorAddr>,
    /// How many each thread has.
    counts: BTreeMap<u64, usize>,
}

static DESTRUCTORS: Mutex<Destructors> = Mutex::new(Destructors {
    number: 0,
    all: BTreeMap::new(),
    of_threads: BTreeMap::new(),
    counts: BTreeMap::new(),
});

impl Destructors {
    /// Adds a destructor. Returns how many the thread has then.
    fn push(&mut self, program: ExecutorAddr, thread: u64, destructor: Destructor) -> usize {
        self.number += 1;
        self.all.insert((program, thread, self.number), destructor);
        self.of_threads.insert((thread, self.number), program);
        let count = self.counts.entry(thread).or_default();
        *count += 1;
        *count
    }

    /// The newest destructor of a thread, of one program or of all.
    fn newest(
        &self,
        thread: u64,
        program: Option<ExecutorAddr>,
    ) -> Option<(ExecutorAddr, u64, u64)> {
        match program {
            Some(program) => {
                let own = (program, thread, 0)..=(program, thread, u64::MAX);
                self.all.range(own).next_back().map(|(key, _)| *key)
            }
            None => {
                let own = (thread, 0)..=(thread, u64::MAX);
                let newest = self.of_threads.range(own).next_back();
                newest.map(|((thread, number), program)| (*program, *thread, *number))
            }
        }
    }

    fn remove(&mut self, key: (ExecutorAddr, u64, u64)) -> Option<Destructor> {
        let (_, thread, number) = key;
        self.of_threads.remove(&(thread, number));
        if let Some(count) = self.counts.get_mut(&thread) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&thread);
            }
        }
        self.all.remove(&key)
    }
}

thread_local! {
    /// How many calls of [`run_newest`] the C library owes this thread.
    static OWED: Cell<usize> = const { Cell::new(0) };
}

/// Registers a destructor of a program for the calling thread's end.
pub(crate) fn register(program: ExecutorAddr, function: ExecutorAddr, object: *mut c_void) {
    let thread = thread::pointer();
    let destructor = Destructor { function, object: object.expose_provenance() };
    let count = DESTRUCTORS.lock().push(program, thread, destructor);
    if count > OWED.get() {
        OWED.set(OWED.get() + 1);
        let here = (&raw const DESTRUCTORS).cast_mut().cast();
        // SAFETY: the function may run at any thread's end; the address lies in the module of the function.
        unsafe { __cxa_thread_atexit_impl(run_newest, std::ptr::null_mut(), here) };
    }
}

/// Runs a program's destructors for the calling thread, and discards those for other threads.
pub(crate) fn finish(program: ExecutorAddr) {
    let thread = thread::pointer();
    while run(thread, Some(program)) {}
    forget(program);
}

/// Discards a program's destructors for all threads.
pub(crate) fn forget(program: ExecutorAddr) {
    let mut destructors = DESTRUCTORS.lock();
    let own = (program, 0, 0)..=(program, u64::MAX, u64::MAX);
    while let Some((key, _)) = destructors.all.range(own.clone()).next() {
        let key = *key;
        destructors.remove(key);
    }
}

extern "C" fn run_newest(_: *mut c_void) {
    OWED.set(OWED.get().saturating_sub(1));
    run(thread::pointer(), None);
}

/// Runs the newest destructor of a thread, of one program or of all; false if there is none.
fn run(thread: u64, program: Option<ExecutorAddr>) -> bool {
    let newest = {
        let mut destructors = DESTRUCTORS.lock();
        destructors.newest(thread, program).and_then(|key| destructors.remove(key))
    };
    if let Some(Destructor { function, object }) = newest {
        // SAFETY: linked code registered this function as a destructor for this object.
        unsafe { enter::handler(function, object, 0) };
    }
    newest.is_some()
}

unsafe extern "C" {
    fn __cxa_thread_atexit_impl(
        function: extern "C" fn(*mut c_void),
        object: *mut c_void,
        module: *mut c_void,
    ) -> c_int;
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static LOG: std::cell::RefCell<Vec<usize>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    static AT_END: Mutex<Vec<usize>> = Mutex::new(Vec::new());

    extern "C" fn note(object: *mut c_void) {
        LOG.with_borrow_mut(|log| log.push(object.addr()));
    }

    extern "C" fn note_at_end(object: *mut c_void) {
        AT_END.lock().push(object.addr());
    }

    fn register(function: extern "C" fn(*mut c_void), number: usize, program: u64) {
        let function = ExecutorAddr::new((function as *const c_void).expose_provenance() as u64);
        super::register(
            ExecutorAddr::new(program),
            function,
            std::ptr::without_provenance_mut(number),
        );
    }

    #[test]
    fn removal_runs_the_callers_own_and_forgets_the_others() {
        let ours = std::thread::spawn(|| {
            for (number, program) in [(1, 0x10), (2, 0x20), (3, 0x10), (4, 0x10)] {
                register(note, number, program);
            }
            std::thread::spawn(|| {
                register(note_at_end, 5, 0x10);
                finish(ExecutorAddr::new(0x10));
            })
            .join()
            .expect("no panic");
            assert_eq!(AT_END.lock().split_off(0), [5]);
            finish(ExecutorAddr::new(0x10));
            assert_eq!(LOG.with_borrow(Vec::clone), [0; 0], "another thread has forgotten them");
            finish(ExecutorAddr::new(0x20));
            assert_eq!(LOG.with_borrow_mut(std::mem::take), [2]);
            for round in 0..3 {
                register(note, 10 * round, 0x30);
                register(note, 10 * round + 1, 0x30);
                finish(ExecutorAddr::new(0x30));
                let expected = [10 * round + 1, 10 * round];
                assert_eq!(LOG.with_borrow_mut(std::mem::take), expected);
            }
            assert_eq!(OWED.get(), 4, "no more calls than there were destructors at once");
            // The rest runs at the end of the thread, the newest first, although calls are left over.
            register(note_at_end, 7, 0x40);
            register(note_at_end, 8, 0x40);
        });
        ours.join().expect("no panic");
        assert_eq!(*AT_END.lock(), [8, 7]);
    }
}
