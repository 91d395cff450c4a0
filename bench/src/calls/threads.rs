//! Null calls from several threads at once, each on a lane of its own.
//!
//! Invariant: the threads sleep between blocks and end with the contender; a block ends when the last of them has made
//! its calls.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Callee, Contender, NullCall, Result};

/// Threads on the caller's CPU, whose calls the executor runs on the server's.
#[derive(Debug)]
pub(crate) struct Threads {
    name: String,
    workers: Vec<Worker>,
}

/// One thread, with the channels of its orders and its answers.
#[derive(Debug)]
struct Worker {
    orders: Sender<Order>,
    /// The samples of its calls, if they were asked for.
    done: Receiver<Result<Vec<u64>>>,
}

/// An order: this many calls, each of them timed or not.
#[derive(Debug, Clone, Copy)]
struct Order {
    calls: u32,
    is_sampled: bool,
}

impl Threads {
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn new(callee: &Callee, threads: usize) -> Result<Threads> {
        let worker = |number| {
            let (orders, received) = channel();
            let (reports, done) = channel();
            let mut call = callee.null_call();
            let thread = thread::Builder::new().name(format!("caller {number}"));
            // It inherits the CPU of the thread that starts it.
            thread.spawn(move || {
                while let Ok(order) = received.recv() {
                    if reports.send(work(&mut call, order)).is_err() {
                        break;
                    }
                }
            })?;
            Ok(Worker { orders, done })
        };
        let workers = (0..threads).map(worker).collect::<Result<_>>()?;
        Ok(Threads { name: name(threads), workers })
    }

    /// Makes `calls` calls by all threads together.
    fn order(&mut self, calls: u32, is_sampled: bool) -> Result<Vec<u64>> {
        let threads = u32::try_from(self.workers.len())?;
        for (number, worker) in (0..).zip(&self.workers) {
            let share = calls / threads + u32::from(number < calls % threads);
            worker.orders.send(Order { calls: share, is_sampled })?;
        }
        let mut samples_ns = Vec::new();
        for worker in &self.workers {
            samples_ns.extend(worker.done.recv()??);
        }
        Ok(samples_ns)
    }
}

/// The name of the row of this many threads.
pub(crate) fn name(threads: usize) -> String {
    format!("null call x {threads}")
}

impl Contender for Threads {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&mut self) -> Result<()> {
        self.order(1, false).map(drop)
    }

    fn run(&mut self, calls: u32) -> Result<Duration> {
        let start = Instant::now();
        self.order(calls, false)?;
        Ok(start.elapsed())
    }

    fn sample(&mut self, calls: u32, samples_ns: &mut Vec<u64>) -> Result<()> {
        samples_ns.extend(self.order(calls, true)?);
        Ok(())
    }
}

fn work(call: &mut NullCall, order: Order) -> Result<Vec<u64>> {
    let mut samples_ns = Vec::new();
    if order.is_sampled {
        call.sample(order.calls, &mut samples_ns)?;
    } else {
        call.run(order.calls)?;
    }
    Ok(samples_ns)
}
