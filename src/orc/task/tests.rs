//! The checklist of LLVM's runtime for dispatchers, and what it leaves out: tasks that wait, end, panic and shut down.

mod deadlock;
mod queueing;
mod thread_pool;

use std::sync::{Arc, Mutex};

use super::{Inline, Queueing, Task, TaskDispatcher, ThreadPool};

/// The notes of tasks.
type Log<T> = Arc<Mutex<Vec<T>>>;

/// A task that writes `entry` down.
fn noting<T: Send + 'static>(log: &Log<T>, entry: T) -> Task {
    let log = Arc::clone(log);
    Task::new(move || log.lock().expect("no panic").push(entry))
}

fn taken<T>(log: &Log<T>) -> Vec<T> {
    std::mem::take(&mut log.lock().expect("no panic"))
}

#[test]
fn inline_runs_at_once_and_nested() {
    let (dispatcher, log) = (Arc::new(Inline::new()), Log::default());
    let (inner, entry) = (Arc::clone(&dispatcher), noting(&log, 2));
    let behind = noting(&log, 3);
    dispatcher.dispatch(noting(&log, 1));
    assert_eq!(taken(&log), [1]);
    dispatcher.dispatch(Task::new(move || {
        inner.dispatch(entry);
        // It waits for no task of this thread.
        inner.shutdown();
        inner.dispatch(behind);
    }));
    assert_eq!(taken(&log), [2], "what comes after a shutdown is dropped");
    dispatcher.dispatch(noting(&log, 4));
    dispatcher.shutdown();
    assert_eq!((taken(&log), Arc::strong_count(&log)), (vec![], 1));
}

#[test]
fn inline_shutdown_waits_for_other_threads() {
    let (dispatcher, log) = (Inline::new(), Log::default());
    let (begun, begins) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel();
    let entry = noting(&log, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            dispatcher.dispatch(Task::new(move || {
                begun.send(()).expect("a receiver");
                ends.recv().expect("a sender");
                entry.run();
            }));
        });
        begins.recv().expect("a task");
        let shutdown = scope.spawn(|| {
            dispatcher.shutdown();
            taken(&log)
        });
        end.send(()).expect("a task");
        assert_eq!(shutdown.join().expect("no panic"), [1]);
    });
}
