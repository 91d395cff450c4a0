//! `ThreadPoolTaskDispatcherTest` and `ThreadPoolRunnerTest` of LLVM's runtime; and growth, order, panics and shutdowns.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

/// Far more than any of this takes.
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn no_tasks() {
    let pool = ThreadPool::new(4);
    pool.shutdown();
    pool.shutdown();
    drop(pool);
    drop(ThreadPool::new(0));
}

#[test]
fn basic_task_execution() {
    let (pool, log) = (ThreadPool::new(1), Log::default());
    pool.dispatch(noting(&log, 1));
    pool.shutdown();
    assert_eq!(taken(&log), [1]);
}

#[test]
fn single_thread_multiple_tasks() {
    let (pool, log) = (ThreadPool::new(1), Log::default());
    (0..100).for_each(|number| pool.dispatch(noting(&log, number)));
    pool.shutdown();
    let mut ran = taken(&log);
    ran.sort_unstable();
    assert!(ran.into_iter().eq(0..100), "each once");
}

#[test]
fn concurrent_tasks() {
    let pool = ThreadPool::new(4);
    let (arrived, arrivals) = mpsc::channel();
    let barrier = Arc::new(std::sync::Barrier::new(4));
    for _ in 0..4 {
        let (barrier, arrived) = (Arc::clone(&barrier), arrived.clone());
        pool.dispatch(Task::new(move || {
            barrier.wait();
            arrived.send(()).expect("a receiver");
        }));
    }
    (0..4).for_each(|_| arrivals.recv_timeout(DEADLINE).expect("four at a time"));
}

#[test]
fn tasks_rejected_after_shutdown() {
    let (pool, log) = (ThreadPool::new(2), Log::default());
    pool.shutdown();
    pool.dispatch(noting(&log, 1));
    assert_eq!(Arc::strong_count(&log), 1, "it is dropped at once");
    assert_eq!(taken(&log), []);
}

#[test]
fn tasks_begin_in_the_order_in_which_they_came() {
    let (pool, log) = (ThreadPool::new(1), Log::default());
    let (go, goes) = mpsc::channel::<()>();
    // One task runs and does not sleep, so all others wait for its thread.
    pool.dispatch(Task::new(move || {
        while goes.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            std::hint::spin_loop();
        }
    }));
    for number in 0..1000 {
        let log = Arc::clone(&log);
        let note = move || log.lock().expect("no panic").push((number, thread::current().id()));
        pool.dispatch(Task::new(note));
    }
    assert!(taken(&log).len() < 1000);
    drop(go);
    let begin = Instant::now();
    pool.shutdown();
    assert!(begin.elapsed() < Duration::from_secs(8), "threads were left resting");
    let ran = taken(&log);
    // While the kernel made a task wait, others ran beside it. Each thread has at most one task that has begun and not noted
    // its number. So fewer tasks than threads note their number late.
    let threads: HashSet<_> = ran.iter().map(|(_, thread)| thread).collect();
    for (at, (number, _)) in ran.iter().enumerate() {
        let late = ran[at..].iter().filter(|(other, _)| other < number).count();
        assert!(late < threads.len(), "{late} of {} threads after {number}", threads.len());
    }
}

/// `depth` tasks, each of which waits for the next one.
fn nest(pool: &Arc<ThreadPool>, depth: usize) -> usize {
    if depth == 0 {
        return 0;
    }
    let (done, is_done) = mpsc::channel();
    let inner = Arc::clone(pool);
    pool.dispatch(Task::new(move || done.send(1 + nest(&inner, depth - 1)).expect("a receiver")));
    is_done.recv_timeout(DEADLINE).expect("the pool grows")
}

#[test]
fn nested_calls_never_use_up_the_pool() {
    for width in [1, 2, 4] {
        let pool = Arc::new(ThreadPool::new(width));
        assert_eq!(nest(&pool, 32), 32);
    }
}

#[test]
fn tasks_that_wait_for_each_other_in_any_order_get_on() {
    let pool = ThreadPool::new(2);
    // The first fifty wait for those behind them, in the queue of two threads.
    let (sends, receives): (Vec<_>, Vec<_>) = (0..50).map(|_| mpsc::channel::<()>()).unzip();
    let (done, is_done) = mpsc::channel();
    for receive in receives {
        let done = done.clone();
        pool.dispatch(Task::new(move || {
            let got = receive.recv_timeout(DEADLINE);
            done.send(got).expect("a receiver");
        }));
    }
    for send in sends {
        pool.dispatch(Task::new(move || send.send(()).expect("a receiver")));
    }
    for _ in 0..50 {
        assert_eq!(is_done.recv_timeout(DEADLINE).expect("a result"), Ok(()));
    }
}

#[test]
fn a_pool_is_as_wide_as_it_was_made_while_its_tasks_are_awake() {
    let pool = ThreadPool::new(2);
    let most = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    for _ in 0..12 {
        let (most, now) = (Arc::clone(&most), Arc::clone(&now));
        pool.dispatch(Task::new(move || {
            most.fetch_max(1 + now.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            let end = Instant::now() + Duration::from_millis(8);
            while Instant::now() < end {
                std::hint::spin_loop();
            }
            now.fetch_sub(1, Ordering::Relaxed);
        }));
    }
    let begin = Instant::now();
    pool.shutdown();
    assert!(begin.elapsed() < Duration::from_secs(8), "threads were left resting");
    let most = most.load(Ordering::Relaxed);
    // One more when a thread was on its way to the lock.
    assert!((1..=3).contains(&most), "{most} at a time");
}

#[test]
fn threads_that_have_nothing_to_do_end_and_others_come() {
    let (pool, log) = (ThreadPool::keeping(2, Duration::from_millis(50)), Log::default());
    assert_eq!(pool.threads(), 0, "none before the first task");
    for round in 0..3 {
        // More than its width, as they sleep.
        let barrier = Arc::new(std::sync::Barrier::new(5));
        for _ in 0..5 {
            let barrier = Arc::clone(&barrier);
            let entry = noting(&log, round);
            pool.dispatch(Task::new(move || {
                barrier.wait();
                entry.run();
            }));
        }
        let end = Instant::now() + DEADLINE;
        while pool.threads() > 0 || log.lock().expect("no panic").len() < 5 {
            assert!(Instant::now() < end, "{} threads are left", pool.threads());
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(taken(&log), [round; 5]);
    }
}

#[test]
fn a_panic_ends_its_task_only() {
    let (pool, log) = (ThreadPool::new(1), Log::default());
    pool.dispatch(Task::new(|| panic!("as the test wants it")));
    pool.dispatch(noting(&log, 1));
    pool.shutdown();
    assert_eq!(taken(&log), [1]);
}

/// A panic payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn the_payload_of_a_panic_may_panic_too() {
    let (pool, log) = (ThreadPool::new(1), Log::default());
    for number in 1..=3 {
        pool.dispatch(Task::new(|| std::panic::panic_any(Bomb)));
        pool.dispatch(noting(&log, number));
    }
    pool.shutdown();
    assert_eq!(taken(&log), [1, 2, 3]);
}

#[test]
fn a_task_may_shut_the_pool_down() {
    let (pool, log) = (Arc::new(ThreadPool::new(1)), Log::default());
    let (inner, behind) = (Arc::clone(&pool), noting(&log, 9));
    let done = noting(&log, 3);
    let (go, goes) = mpsc::channel::<()>();
    pool.dispatch(Task::new(move || {
        goes.recv_timeout(DEADLINE).expect("the test");
        inner.shutdown();
        inner.dispatch(behind);
        done.run();
    }));
    pool.dispatch(noting(&log, 1));
    pool.dispatch(noting(&log, 2));
    // Time to find out that the first one sleeps, and for threads to rest.
    thread::sleep(Duration::from_millis(10));
    go.send(()).expect("a task");
    let begin = Instant::now();
    pool.shutdown();
    assert!(begin.elapsed() < Duration::from_secs(5), "threads were left resting");
    let mut ran = taken(&log);
    assert_eq!(ran.pop(), Some(3), "it waited for the others");
    ran.sort_unstable();
    assert_eq!(ran, [1, 2]);
}

#[test]
fn two_tasks_and_two_others_may_shut_the_pool_down_at_once() {
    let pool = Arc::new(ThreadPool::new(2));
    for _ in 0..2 {
        let inner = Arc::clone(&pool);
        pool.dispatch(Task::new(move || inner.shutdown()));
    }
    let (done, is_done) = mpsc::channel();
    for _ in 0..2 {
        let (pool, done) = (Arc::clone(&pool), done.clone());
        thread::spawn(move || {
            pool.shutdown();
            done.send(()).expect("a receiver");
        });
    }
    (0..2).for_each(|_| is_done.recv_timeout(DEADLINE).expect("no task waits for itself"));
}

#[test]
fn the_last_task_may_own_the_pool() {
    let (done, is_done) = mpsc::channel();
    let pool = Arc::new(ThreadPool::new(1));
    let own = Arc::clone(&pool);
    let (go, goes) = mpsc::channel::<()>();
    pool.dispatch(Task::new(move || {
        goes.recv_timeout(DEADLINE).expect("the test");
        drop(own);
        done.send(()).expect("a receiver");
    }));
    drop(pool);
    go.send(()).expect("a task");
    is_done.recv_timeout(DEADLINE).expect("dropped by a thread of its own");
}

#[test]
fn a_hundred_thousand_tasks_from_eight_threads_run_once_each() {
    let (pool, count) = (ThreadPool::new(2), Arc::new(AtomicUsize::new(0)));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..12_500 {
                    let count = Arc::clone(&count);
                    pool.dispatch(Task::new(move || {
                        count.fetch_add(1, Ordering::Relaxed);
                    }));
                }
            });
        }
    });
    pool.shutdown();
    assert_eq!(count.load(Ordering::Relaxed), 100_000);
    assert_eq!(Arc::strong_count(&count), 1);
}
