//! Threads of the host in linked code of this process.
#![allow(unsafe_code, reason = "calls linked code by pointers")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use farcall::controller::ExecutorBuilder;

use super::{Number, executor, library, maps, object};
use crate::alone;

#[test]
fn each_thread_has_its_own_thread_locals() {
    let executor = executor();
    let (ask, asked) = mpsc::channel::<unsafe extern "C" fn() -> i64>();
    let older = thread::spawn(move || {
        let next = asked.recv().expect("a pointer");
        // SAFETY: the library has a function of this type, and the executor lives.
        [unsafe { next() }, unsafe { next() }]
    });
    let library = library(&executor, 0);
    let next = library.function::<Number>("own_next").bind().expect("bound");
    let pointer = next.pointer().expect("a pointer");
    assert_eq!(next.call(()).expect("a result"), 8);
    ask.send(pointer).expect("it waits");
    assert_eq!(older.join().expect("no panic"), [8, 9], "a thread that was there before the link");
    let newer = thread::scope(|scope| {
        scope.spawn(|| [(); 2].map(|()| next.call(()).expect("a result"))).join()
    });
    assert_eq!(newer.expect("no panic"), [8, 9]);
    assert_eq!(next.call(()).expect("a result"), 9);
}

#[test]
fn two_executors_share_the_room_for_thread_locals() {
    let executors = [executor(), executor()];
    let nexts = executors
        .each_ref()
        .map(|executor| library(executor, 0).function::<Number>("own_next").bind().expect("bound"));
    for due in [8, 9] {
        for next in &nexts {
            assert_eq!(next.call(()).expect("a result"), due);
        }
    }
}

#[test]
fn threads_that_start_during_links_have_initial_values() {
    const LINKS: usize = 200;
    let executor = executor();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = Over(&is_over);
        let (pass, passed) = mpsc::channel::<farcall::controller::Function<Number>>();
        let starts = scope.spawn(|| {
            let mut newest = None;
            let passed = passed;
            let mut started = 0;
            while !is_over.load(Ordering::Relaxed) {
                newest = passed.try_iter().last().or(newest);
                let next = newest.clone();
                // It starts while the other thread links, and calls what was linked before.
                let called = thread::spawn(move || {
                    next.map(|next: farcall::controller::Function<Number>| next.call(()))
                });
                if let Some(Ok(first)) = called.join().expect("no panic") {
                    assert_eq!(first, 8, "the first call of a thread");
                    started += 1;
                }
            }
            started
        });
        for _ in 0..LINKS {
            let library = executor.library("more");
            library.define_handler("thread_of_handler", |n: i64| n).expect("defined");
            library.define_handler("refuses", |n: i64| n).expect("defined");
            library.add_object(&object()).expect("added");
            let next = library.function::<Number>("own_next").bind().expect("bound");
            assert_eq!(next.call(()).expect("a result"), 8);
            pass.send(next).expect("it listens");
        }
        drop(over);
        assert!(starts.join().expect("no panic") > 0);
    });
}

/// Ends the other thread, also when this one fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn eight_threads_add_look_up_and_remove_without_a_leak() {
    alone::run("place::threads::eight_threads_add_look_up_and_remove_without_a_leak", || {
        const THREADS: usize = 8;
        let cycles: usize =
            std::env::var("FARCALL_TEST_CYCLES").map_or(100, |n| n.parse().expect("a number"));
        let executor = ExecutorBuilder::new().in_process().start().expect("an executor");
        let object = object();
        let work = |times: usize| {
            let barrier = Barrier::new(THREADS);
            thread::scope(|scope| {
                for thread in 0..THREADS {
                    let (executor, object, barrier) = (&executor, &object, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        for _ in 0..times {
                            cycle(executor, object, thread);
                        }
                    });
                }
            });
        };
        // The process keeps some things for ever: libraries, records of threads, pages of slabs.
        work(20);
        let before = held();
        work(cycles);
        let after = held();
        println!("{THREADS} threads, {cycles} cycles each: before {before:?}, after {after:?}");
        assert_eq!(after.maps, before.maps, "mappings");
        assert_eq!(after.frames, before.frames, "unwind tables");
        assert!(after.resident_kib < before.resident_kib + 2048, "{before:?}, then {after:?}");
    });
}

fn cycle(
    executor: &farcall::controller::Executor,
    object: &farcall::link::ObjectFile,
    thread: usize,
) {
    let library = executor.library(format!("of {thread}"));
    library.define_handler("thread_of_handler", move |n: i64| n + thread as i64).expect("defined");
    library.define_handler("refuses", |n: i64| n).expect("defined");
    library.add_object(object).expect("added");
    library.initialize().expect("initialized");
    let next = library.function::<Number>("next").bind().expect("bound");
    assert_eq!(next.call(()).expect("a result"), 6);
    let ask = library.function::<super::Passed>("ask");
    assert_eq!(ask.call((1,)).expect("a result"), 1 + thread as i64);
    library.clear().expect("cleared");
}

/// The mappings, memory and unwind tables of this process.
#[derive(Debug)]
struct Held {
    maps: usize,
    resident_kib: u64,
    /// Code of linked functions that unwinders find.
    frames: usize,
}

fn held() -> Held {
    let status = std::fs::read_to_string("/proc/self/status").expect("the status");
    let of = |line: &str| line.strip_prefix("VmRSS:")?.trim().split(' ').next()?.parse().ok();
    let resident_kib = status.lines().find_map(of).expect("a size");
    // Thread stacks that the C library keeps, and the heap's parts for threads, come and go.
    let is_of_farcall = |line: &&String| line.contains("farcall");
    let maps = maps();
    Held { maps: maps.iter().filter(is_of_farcall).count(), resident_kib, frames: frames() }
}

/// The number of pages of code for which an unwinder finds a table.
fn frames() -> usize {
    let code =
        maps().into_iter().filter(|line| line.contains(" r-x") && line.contains("farcall-code"));
    let found = |line: String| {
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let [start, end] =
            [start, end].map(|text| usize::from_str_radix(text, 16).expect("a number"));
        let pages = (start..end.min(start + (16 << 20))).step_by(4096);
        Some(pages.filter(|page| has_frame(page + 1)).count())
    };
    code.filter_map(found).sum()
}

fn has_frame(address: usize) -> bool {
    unsafe extern "C" {
        fn _Unwind_Find_FDE(
            at: *const nix::libc::c_void,
            bases: *mut [usize; 3],
        ) -> *const nix::libc::c_void;
    }
    let mut bases = [0; 3];
    let at = std::ptr::without_provenance(address);
    // SAFETY: it reads its tables, and stores to the local variable.
    !unsafe { _Unwind_Find_FDE(at, &raw mut bases) }.is_null()
}
