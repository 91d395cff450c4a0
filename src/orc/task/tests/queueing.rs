//! `QueueingTaskDispatcherTest` of LLVM's runtime, its variant with blocking takes, and `QueueingRunnerTest`.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::*;

/// A queue with tasks that write down `1..=count`.
fn queued(count: u32) -> (Queueing, Log<u32>) {
    let (queue, log) = (Queueing::new(), Log::default());
    (1..=count).for_each(|number| queue.dispatch(noting(&log, number)));
    (queue, log)
}

#[test]
fn empty_dispatcher() {
    let queue = Queueing::new();
    assert!(queue.is_empty());
    assert!(queue.pop_front().is_none() && queue.pop_back().is_none());
    queue.shutdown();
}

#[test]
fn basic_task_dispatch() {
    let (queue, log) = queued(1);
    assert_eq!((taken(&log), queue.len()), (vec![], 1), "it does not run by itself");
    queue.pop_front().expect("a task").run();
    assert_eq!((taken(&log), queue.len()), (vec![1], 0));
}

#[test]
fn multiple_tasks() {
    let (queue, log) = queued(3);
    while let Some(task) = queue.pop_front() {
        task.run();
    }
    assert_eq!(taken(&log).len(), 3);
}

#[test]
fn pop_back_lifo_order() {
    let (queue, log) = queued(3);
    while let Some(task) = queue.pop_back() {
        task.run();
    }
    assert_eq!(taken(&log), [3, 2, 1]);
}

#[test]
fn pop_front_fifo_order() {
    let (queue, log) = queued(3);
    while let Some(task) = queue.pop_front() {
        task.run();
    }
    assert_eq!(taken(&log), [1, 2, 3]);
}

#[test]
fn run_lifo_until_empty() {
    let (queue, log) = queued(3);
    assert_eq!(queue.run_lifo_until_empty(), 3);
    assert_eq!(taken(&log), [3, 2, 1]);
}

#[test]
fn run_fifo_until_empty() {
    let (queue, log) = queued(3);
    assert_eq!(queue.run_fifo_until_empty(), 3);
    assert_eq!(taken(&log), [1, 2, 3]);
}

#[test]
fn mixed_pop_operations() {
    let (queue, log) = queued(5);
    let pops: [fn(&Queueing) -> Option<Task>; 5] = [
        Queueing::pop_front,
        Queueing::pop_back,
        Queueing::pop_back,
        Queueing::pop_front,
        Queueing::pop_front,
    ];
    pops.iter().for_each(|pop| pop(&queue).expect("a task").run());
    assert_eq!((taken(&log), queue.len()), (vec![1, 5, 4, 2, 3], 0));
}

#[test]
fn shutdown_with_pending_tasks() {
    let (queue, log) = queued(3);
    // Values that a task owns may use the queue while they are dropped.
    struct Uses(Arc<Queueing>, Task);
    impl Drop for Uses {
        fn drop(&mut self) {
            self.0.dispatch(std::mem::replace(&mut self.1, Task::new(|| ())));
        }
    }
    let queue = Arc::new(queue);
    let uses = Uses(Arc::clone(&queue), noting(&log, 4));
    queue.dispatch(Task::new(move || drop(uses)));
    queue.shutdown();
    assert_eq!((taken(&log), queue.len()), (vec![], 0), "none has run, none is left");
    assert_eq!(Arc::strong_count(&log), 1, "all are dropped");
    queue.shutdown();
}

#[test]
fn dispatch_after_shutdown() {
    let (queue, log) = queued(0);
    queue.shutdown();
    queue.dispatch(noting(&log, 1));
    assert!(queue.pop_front().is_none());
    assert_eq!((taken(&log), Arc::strong_count(&log)), (vec![], 1));
}

#[test]
fn run_methods_on_empty_dispatcher() {
    let queue = Queueing::new();
    assert_eq!((queue.run_lifo_until_empty(), queue.run_fifo_until_empty()), (0, 0));
}

#[test]
fn interleave_dispatch_and_pop() {
    let (queue, log) = queued(2);
    queue.pop_front().expect("1").run();
    queue.dispatch(noting(&log, 3));
    queue.pop_back().expect("3").run();
    queue.dispatch(noting(&log, 4));
    queue.pop_front().expect("2").run();
    queue.pop_front().expect("4").run();
    assert!(queue.pop_front().is_none());
    assert_eq!(taken(&log), [1, 3, 2, 4]);
}

/// Four threads dispatch, as many take; every task runs once.
fn many_threads(take: fn(&Queueing) -> Option<Task>) -> Vec<usize> {
    const EACH: usize = 500;
    let (queue, log, begin) = (Queueing::new(), Log::default(), Barrier::new(8));
    thread::scope(|scope| {
        let producers: Vec<_> = (0..4_usize)
            .map(|producer| {
                let (queue, log, begin) = (&queue, &log, &begin);
                scope.spawn(move || {
                    begin.wait();
                    (0..EACH).for_each(|n| queue.dispatch(noting(log, producer * EACH + n)));
                })
            })
            .collect();
        for _ in 0..4 {
            scope.spawn(|| {
                begin.wait();
                while let Some(task) = take(&queue) {
                    task.run();
                }
            });
        }
        producers.into_iter().for_each(|producer| producer.join().expect("no panic"));
        queue.close();
    });
    let mut ran = taken(&log);
    ran.sort_unstable();
    ran
}

#[test]
fn thread_safety() {
    for take in [Queueing::take_first_in, Queueing::take_last_in] {
        assert_eq!(many_threads(take), (0..2000).collect::<Vec<_>>());
    }
}

#[test]
fn large_number_of_tasks() {
    let (queue, log) = queued(100_000);
    assert_eq!(queue.run_fifo_until_empty(), 100_000);
    assert!(taken(&log).into_iter().eq(1..=100_000));
}

#[test]
fn take_blocks_until_task_available() {
    let (queue, log) = queued(0);
    thread::scope(|scope| {
        let taker = scope.spawn(|| queue.take_first_in().map(Task::run));
        thread::sleep(Duration::from_millis(5));
        assert!(!taker.is_finished(), "nothing was there to take");
        queue.dispatch(noting(&log, 1));
        assert_eq!(taker.join().expect("no panic"), Some(()));
    });
    assert_eq!(taken(&log), [1]);
}

#[test]
fn take_returns_nullptr_on_shutdown() {
    let queue = Queueing::new();
    thread::scope(|scope| {
        let queue = &queue;
        let takers = [Queueing::take_first_in, Queueing::take_last_in]
            .map(|take| scope.spawn(move || take(queue).is_none()));
        thread::sleep(Duration::from_millis(2));
        queue.shutdown();
        takers.into_iter().for_each(|taker| assert!(taker.join().expect("no panic")));
    });
    assert!(queue.take_last_in().is_none());
}

#[test]
fn shutdown_drains_remaining_tasks() {
    let (queue, log) = queued(3);
    queue.close();
    queue.dispatch(noting(&log, 4));
    queue.take_first_in().expect("1").run();
    queue.take_last_in().expect("3").run();
    queue.take_first_in().expect("2").run();
    assert!(queue.take_first_in().is_none());
    assert_eq!(taken(&log), [1, 3, 2]);
}

#[test]
fn enqueue_does_not_run_immediately() {
    let (queue, log) = queued(2);
    assert_eq!(taken(&log), []);
    assert_eq!(queue.run_fifo_until_empty(), 2);
    assert_eq!(taken(&log), [1, 2]);
}

#[test]
fn drain_on_empty_queue_is_no_op() {
    let (queue, log) = queued(1);
    assert_eq!((queue.run_fifo_until_empty(), queue.run_fifo_until_empty()), (1, 0));
    assert_eq!(taken(&log), [1]);
}

#[test]
fn drain_picks_up_tasks_enqueued_during_drain() {
    for (run, order) in [
        (Queueing::run_fifo_until_empty as fn(&Queueing) -> usize, [1, 2, 3]),
        (Queueing::run_lifo_until_empty, [2, 3, 1]),
    ] {
        let (queue, log) = (Arc::new(Queueing::new()), Log::default());
        queue.dispatch(noting(&log, 1));
        let (second, third) = (noting(&log, 2), noting(&log, 3));
        let inner = Arc::clone(&queue);
        queue.dispatch(Task::new(move || {
            second.run();
            inner.dispatch(third);
        }));
        assert_eq!(run(&queue), 3);
        assert_eq!(taken(&log), order);
    }
}

#[test]
fn concurrent_producer_and_drainer() {
    let (queue, log, ran) = (Queueing::new(), Log::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| (0..2000).for_each(|number| queue.dispatch(noting(&log, number))));
        while ran.load(Ordering::Relaxed) < 2000 {
            ran.fetch_add(queue.run_fifo_until_empty(), Ordering::Relaxed);
        }
    });
    assert!(taken(&log).into_iter().eq(0..2000), "one drainer keeps the order");
}
