//! Supervision: the two threads of this process that start all its executors and observe their ends.
//!
//! | thread | does | may wait for |
//! |---|---|---|
//! | `farcall-starter` | starts processes | the kernel's start of a program; for one second the end of a process that no descriptor names |
//! | `farcall-supervisor` | reads all sockets, records how executors end, wakes what waits for them | any of its descriptors |
//!
//! Both live as long as this process has an executor: the kernel kills an executor when the *thread* that started it ends.
//!
//! The starter's thread has the [start zygotes](super::start_zygotes) as well. While nothing is asked for, it has executors forked ahead
//! of their requests.

use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle, ThreadId};

use super::life::{Life, Stage};
use super::orders::{Order, Orders, Start, Work};
use super::start_zygotes::StartZygotes;
use super::supervised::{Supervised, end_all};
use crate::controller::process::lane_opener::LaneOpener;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::sys::policy;
use crate::sys::process::child::Child;
use crate::sys::process::child::inherited::Own;
use crate::sys::process::per_process::PerProcess;
use crate::sys::process::thread as thread_of_process;

/// The two threads. The last owner ends them.
#[derive(Debug)]
pub(super) struct Supervision {
    orders: Arc<Orders>,
    supervised: Arc<Supervised>,
    supervisor: ThreadId,
    threads: Vec<JoinHandle<()>>,
}

/// The threads of this process, while it has executors.
static PRESENT: PerProcess<Mutex<Weak<Supervision>>> = PerProcess::new();

impl Supervision {
    /// The threads of this process, which are started if they are not there.
    ///
    /// # Errors
    ///
    /// When they cannot be started.
    pub(super) fn present() -> Result<Arc<Self>> {
        let mut present = PRESENT.get().lock();
        if let Some(present) = present.upgrade().filter(|one| !one.is_lost()) {
            return Ok(present);
        }
        let started = Arc::new(Self::start()?);
        *present = Arc::downgrade(&started);
        Ok(started)
    }

    fn start() -> Result<Self> {
        let supervised = Arc::new(Supervised::new()?);
        let failed = |error| {
            let during = "starting the threads that supervise executors";
            policy::named(Error::os(during, error), "clone3")
        };
        let watched = Arc::clone(&supervised);
        let watching = thread::Builder::new().name("farcall-supervisor".to_owned());
        let watching = watching.spawn(move || watched.watch()).map_err(failed)?;
        let supervisor = watching.thread().id();
        // Dropping it ends the thread, if the other one cannot be started.
        let orders = Arc::new(Orders::default());
        let mut threads = Self { orders, supervised, supervisor, threads: vec![watching] };
        let (orders, supervised) = (Arc::clone(&threads.orders), Arc::clone(&threads.supervised));
        let starting = thread::Builder::new().name("farcall-starter".to_owned());
        let starting = starting.spawn(move || start_all(&orders, &supervised)).map_err(failed)?;
        threads.threads.push(starting);
        Ok(threads)
    }

    /// What the starter's thread is asked for.
    pub(super) fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Observes a process that was started. Never waits.
    pub(super) fn observe(&self, child: Child, life: Arc<Life>, opener: Arc<LaneOpener>) {
        self.supervised.add(child, life, opener);
    }

    /// True if these are the threads that have the value.
    pub(super) fn has(&self, supervised: &Supervised) -> bool {
        std::ptr::eq(&raw const *self.supervised, supervised)
    }

    /// True when other code has closed the descriptors by which ends are observed.
    pub(super) fn is_lost(&self) -> bool {
        self.supervised.is_lost()
    }

    /// True on the thread that observes ends: it must not wait for one.
    pub(super) fn is_observer(&self) -> bool {
        self.supervisor == thread::current().id()
    }
}

impl Drop for Supervision {
    fn drop(&mut self) {
        self.orders.end();
        self.supervised.end();
        // Where other code has closed its descriptors, nothing wakes the supervisor's thread.
        let is_lost = self.is_lost();
        for thread in self.threads.drain(..) {
            // The last owner may be code of the host that the supervisor's thread runs.
            if !is_lost && thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// The starter's thread.
fn start_all(orders: &Orders, supervised: &Supervised) {
    orders.begin(thread_of_process::number());
    let mut zygotes = StartZygotes::new(supervised);
    loop {
        match orders.next() {
            Order::Start(start) => begin(start, &mut zygotes),
            Order::Tell(own) => {
                // The thread that asks has the other end.
                let _ = own.send(Own::of_thread());
            }
            Order::HasTime(Work(work)) => work(&mut zygotes),
            Order::End => return,
        }
    }
}

/// Starts a process, and has it observed.
fn begin(start: Start, zygotes: &mut StartZygotes<'_>) {
    let Start { program, socket, life, opener } = start;
    let started = socket.file().and_then(|socket| match program.shares_layout {
        true => zygotes.start(&program, socket),
        false => program.spawn(&program.args, &[socket]),
    });
    // From here on only the executor has its end of the socket.
    drop(socket);
    match started {
        Ok(child) => zygotes.supervised().add(child, life, opener),
        Err(error) => {
            life.enter(Stage::Failed(Some(error)));
            end_all(&opener);
            life.tell();
            life.end();
        }
    }
}
