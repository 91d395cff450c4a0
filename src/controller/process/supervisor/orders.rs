//! What the starter's thread is asked for, in order.
//!
//! A waiting thread is woken behind the lock. Work that has time wakes nothing within [`QUIET`] of an order: the starter's thread looks
//! once more then, before it sleeps until it is woken.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use super::life::Life;
use super::program::Program;
use super::start_zygotes::StartZygotes;
use crate::controller::process::lane_opener::LaneOpener;
use crate::sync::{Condvar, Mutex};
use crate::sys::io::identified::Identified;
use crate::sys::process::child::inherited::Own;

/// How long nothing is asked for before the starter's thread does what has time. The host makes its first calls meanwhile.
const QUIET: Duration = Duration::from_millis(5);

/// The orders of all threads. The starter's thread takes them.
#[derive(Debug, Default)]
pub(super) struct Orders {
    state: Mutex<State>,
    changed: Condvar,
}

/// One order.
#[derive(Debug)]
pub(super) enum Order {
    Start(Start),
    /// Tell what only the starter's thread can read of what a program inherits.
    Tell(SyncSender<Own>),
    /// Work that has time, once nothing is asked for.
    HasTime(Work),
    /// No more orders will come.
    End,
}

/// A process to start.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: Arc<Program>,
    pub(super) socket: Identified,
    pub(super) life: Arc<Life>,
    pub(super) opener: Arc<LaneOpener>,
}

/// Runs on the starter's thread.
pub(super) struct Work(pub(super) Box<dyn FnOnce(&mut StartZygotes<'_>) + Send>);

#[derive(Debug, Default)]
struct State {
    orders: VecDeque<Order>,
    have_time: VecDeque<Work>,
    is_over: bool,
    /// The starter's thread wakes for what has time, too.
    sleeps: bool,
    /// The number of that thread, once it runs.
    starter: Option<i32>,
}

impl State {
    fn is_quiet(&self) -> bool {
        self.orders.is_empty() && !self.is_over
    }
}

impl Orders {
    /// Asks for something. Never waits.
    pub(super) fn order(&self, order: Order) {
        self.state.lock().orders.push_back(order);
        self.changed.notify_all();
    }

    /// Asks for work that has time. Never waits.
    pub(super) fn when_quiet(&self, work: Work) {
        let mut state = self.state.lock();
        state.have_time.push_back(work);
        let sleeps = state.sleeps;
        drop(state);
        if sleeps {
            self.changed.notify_all();
        }
    }

    /// No more orders will come. Work that has time is left undone.
    pub(super) fn end(&self) {
        self.state.lock().is_over = true;
        self.changed.notify_all();
    }

    /// The calling thread is the starter's.
    pub(super) fn begin(&self, starter: i32) {
        self.state.lock().starter = Some(starter);
    }

    /// The number of the starter's thread, if it runs.
    pub(super) fn starter(&self) -> Option<i32> {
        self.state.lock().starter
    }

    /// Waits for the next order.
    pub(super) fn next(&self) -> Order {
        let mut state = self.state.lock();
        loop {
            if let Some(order) = state.orders.pop_front() {
                return order;
            }
            if state.is_over {
                return Order::End;
            }
            state = self.changed.wait_timeout_while(state, QUIET, |state| state.is_quiet());
            if !state.is_quiet() {
                continue;
            }
            if let Some(work) = state.have_time.pop_front() {
                return Order::HasTime(work);
            }
            state.sleeps = true;
            let sleeps = |state: &mut State| state.is_quiet() && state.have_time.is_empty();
            state = self.changed.wait_while(state, sleeps);
            state.sleeps = false;
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Work")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{channel, sync_channel};

    use super::*;
    use crate::controller::process::supervisor::supervised::Supervised;

    #[test]
    fn what_has_time_comes_behind_all_orders_and_wakes_the_sleeper() {
        let orders = Orders::default();
        let (sender, done) = channel();
        let work = |number: u32| {
            let sender = sender.clone();
            Work(Box::new(move |_| sender.send(number).expect("the test waits")))
        };
        let tell = || Order::Tell(sync_channel(1).0);
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let supervised = Supervised::new().expect("descriptors");
                let mut zygotes = StartZygotes::new(&supervised);
                let mut told = 0;
                loop {
                    match orders.next() {
                        Order::Tell(_) => told += 1,
                        Order::HasTime(Work(work)) => work(&mut zygotes),
                        Order::Start(_) => panic!("nobody starts"),
                        Order::End => return told,
                    }
                }
            });
            orders.when_quiet(work(1));
            for _ in 0..3 {
                orders.order(tell());
            }
            assert_eq!(done.recv(), Ok(1));
            // It sleeps by now, or will look once more.
            std::thread::sleep(3 * QUIET);
            orders.when_quiet(work(2));
            assert_eq!(done.recv(), Ok(2));
            orders.order(tell());
            orders.end();
            assert_eq!(taken.join().expect("no panic"), 4);
        });
    }
}
