//! Sessions in one process. Tests with the name of a test of LLVM's runtime check the same.

mod bootstrap;
mod calls;
mod connection_spec;
mod in_process;
mod life_cycle;
mod services;
mod task_group;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{BootstrapInfo, Reply, Session, SessionBuilder, SessionHandle};
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::task::Task;

/// Longer than any step of these tests takes.
const LONG: Duration = Duration::from_secs(30);

/// Tasks that a test runs step by step.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<VecDeque<Task>>>);

impl Queue {
    /// Takes the oldest task.
    fn take(&self) -> Option<Task> {
        self.0.lock().expect("no panic").pop_front()
    }

    /// Runs all tasks, including those that they dispatch; returns their number.
    fn run(&self) -> usize {
        let mut count = 0;
        while let Some(task) = self.take() {
            task.run();
            count += 1;
        }
        count
    }

    fn len(&self) -> usize {
        self.0.lock().expect("no panic").len()
    }

    fn options(&self) -> SessionBuilder {
        let queue = self.clone();
        bare(move |task| queue.0.lock().expect("no panic").push_back(task))
    }
}

/// A builder with a dispatch function and nothing else; wrapper functions by address echo their arguments.
fn bare(dispatch: impl Fn(Task) + Send + Sync + 'static) -> SessionBuilder {
    SessionBuilder::bare(dispatch, BootstrapInfo::default(), echo)
}

/// A builder that runs every task on a thread of its own.
fn on_threads() -> SessionBuilder {
    bare(|task| drop(thread::spawn(|| task.run())))
}

fn echo(_: &SessionHandle, function: ExecutorAddr, args: Vec<u8>, reply: Reply) {
    match function.get() {
        0 => reply.send(Err("call of address 0".to_owned())),
        _ => reply.send(Ok(args)),
    }
}

fn session(options: SessionBuilder) -> Session {
    options.build().expect("a session")
}

/// Records events in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("no panic").push(what.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }

    /// A callback that records this.
    fn noting(&self, what: &str) -> impl FnOnce() + Send + use<> {
        let (log, what) = (self.clone(), what.to_owned());
        move || log.note(what)
    }

    /// Records errors and the end of the connection.
    fn on(&self, options: SessionBuilder) -> SessionBuilder {
        let errors = self.clone();
        let ends = self.clone();
        options.on_error(move |_, error| errors.note(format!("error: {error}"))).on_disconnect(
            move |_, cause| match cause {
                Ok(()) => ends.note("end: orderly"),
                Err(error) => ends.note(format!("end: {error}")),
            },
        )
    }
}

type Outcome = Result<Vec<u8>>;

/// A completion callback, and the receiver of its outcome.
fn outcome() -> (impl FnOnce(Outcome) + Send, mpsc::Receiver<Outcome>) {
    let (sender, receiver) = mpsc::channel();
    // Some tests drop the receiver.
    (move |outcome| drop(sender.send(outcome)), receiver)
}

#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn up(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A callback that counts.
    fn counting(&self) -> impl FnOnce() + Send + use<> {
        let count = self.clone();
        move || count.up()
    }
}

fn broken() -> Error {
    Error::remote("it broke")
}
