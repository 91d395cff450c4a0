//! Supervision: the two threads of this process that start all its executors and observe their ends.
//!
//! | thread | does | may wait for |
//! |---|---|---|
//! | `farcall-starter` | starts processes | the kernel's start of a program; for one second the end of a process that no descriptor names |
//! | `farcall-supervisor` | reads all sockets, records how executors end, wakes what waits for them | any of its descriptors |
//!
//! Both live as long as this process has an executor: the kernel kills an executor when the *thread* that started it ends.
//!
//! Invariant: the supervisor's thread never waits for an executor, and reads one message of each in turn. An executor that has ended
//! and that the kernel does not hand over, as it belongs to a tracer, is collected later.

use std::collections::{HashMap, VecDeque};
use std::ffi::CString;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use super::life::{Life, Stage};
use crate::controller::process::lane_opener::LaneOpener;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::END_TIMEOUT;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use crate::sys::io::identified::Identified;
use crate::sys::io::watch::Watch;
use crate::sys::policy;
use crate::sys::process::child::uncollected;
use crate::sys::process::child::{Awaiter, Child, Others};
use crate::sys::process::per_process::PerProcess;
use crate::trace;

/// The two threads. The last owner ends them.
#[derive(Debug)]
pub(super) struct Supervision {
    starts: Option<Sender<Start>>,
    supervised: Arc<Supervised>,
    supervisor: ThreadId,
    threads: Vec<JoinHandle<()>>,
}

/// A process to start.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: PathBuf,
    pub(super) args: Vec<CString>,
    pub(super) env: Vec<CString>,
    pub(super) socket: Identified,
    pub(super) at: i32,
    pub(super) others: Others,
    pub(super) life: Arc<Life>,
    pub(super) opener: Arc<LaneOpener>,
}

/// What the supervisor's thread watches.
#[derive(Debug)]
struct Supervised {
    watch: Watch,
    executors: Mutex<HashMap<u64, Arc<Executor>>>,
    last: AtomicU64,
    is_over: AtomicBool,
}

/// A started executor, and what is known of its end.
#[derive(Debug)]
struct Executor {
    end: Awaiter,
    pid: i32,
    life: Arc<Life>,
    opener: Arc<LaneOpener>,
}

/// The threads of this process, while it has executors.
static PRESENT: PerProcess<Mutex<Weak<Supervision>>> = PerProcess::new();

/// Which descriptor of an executor is ready: the lowest bits of its number.
const SOCKET: u64 = 0;
const PROCESS: u64 = 1;
const SWEEPER: u64 = 2;
const KINDS: u64 = 4;

/// The pause between two looks at children that could not be collected.
const COLLECT_PAUSE: Duration = Duration::from_millis(500);

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
        let supervised = Arc::new(Supervised {
            watch: Watch::new()?,
            executors: Mutex::default(),
            last: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let failed = |error| {
            let during = "starting the threads that supervise executors";
            policy::named(Error::os(during, error), "clone3")
        };
        let (starts, receiver) = channel();
        let watched = Arc::clone(&supervised);
        let watching = thread::Builder::new().name("farcall-supervisor".to_owned());
        let watching = watching.spawn(move || watched.watch()).map_err(failed)?;
        let supervisor = watching.thread().id();
        // Dropping it ends the thread, if the other one cannot be started.
        let mut threads =
            Self { starts: Some(starts), supervised, supervisor, threads: vec![watching] };
        let supervised = Arc::clone(&threads.supervised);
        let starting = thread::Builder::new().name("farcall-starter".to_owned());
        let starting = starting.spawn(move || start_all(&receiver, &supervised)).map_err(failed)?;
        threads.threads.push(starting);
        Ok(threads)
    }

    /// Starts a process without waiting for it.
    pub(super) fn begin(&self, start: Start) {
        if let Some(starts) = &self.starts {
            // The other end lives as long as this value.
            let _ = starts.send(start);
        }
    }

    /// Observes a process that was started. Never waits.
    pub(super) fn observe(&self, child: Child, life: Arc<Life>, opener: Arc<LaneOpener>) {
        self.supervised.add(child, life, opener);
    }

    /// True when other code has closed the descriptors by which ends are observed.
    pub(super) fn is_lost(&self) -> bool {
        self.supervised.watch.is_lost()
    }

    /// True on the thread that observes ends: it must not wait for one.
    pub(super) fn is_observer(&self) -> bool {
        self.supervisor == thread::current().id()
    }
}

impl Drop for Supervision {
    fn drop(&mut self) {
        self.starts = None;
        // [SUPERVISION] Release: pairs with the load in `watch`.
        self.supervised.is_over.store(true, Ordering::Release);
        self.supervised.watch.end();
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
fn start_all(starts: &Receiver<Start>, supervised: &Supervised) {
    for Start { program, args, env, socket, at, others, life, opener } in starts {
        let started = socket
            .file()
            .and_then(|socket| Child::spawn(&program, &args, &env, socket, at, others));
        // From here on only the executor has its end of the socket.
        drop(socket);
        match started {
            Ok(child) => supervised.add(child, life, opener),
            Err(error) => {
                life.enter(Stage::Failed(Some(error)));
                end_all(&opener);
                life.tell();
                life.end();
            }
        }
    }
}

impl Supervised {
    /// Observes a process that was started.
    fn add(&self, child: Child, life: Arc<Life>, opener: Arc<LaneOpener>) {
        let number = self.last.fetch_add(1, Ordering::Relaxed) * KINDS;
        let (end, pid) = (child.awaiter(), child.pid());
        life.enter(Stage::Running(child));
        let executor = Arc::new(Executor { end, pid, life, opener });
        self.executors.lock().insert(number, Arc::clone(&executor));
        // The socket first: an end removes both.
        let socket = executor.opener.watched();
        let added = socket.map_or(Ok(()), |socket| self.watch.add(socket, number | SOCKET));
        if let Err(error) =
            added.and_then(|()| self.watch.add(executor.end.as_fd(), number | PROCESS))
        {
            // Its end, or its requests, would not be seen.
            executor.end.kill();
            let _ = executor.end.collect_or_leave();
            self.ended(number, &executor, Stage::Failed(Some(error)), &mut VecDeque::new());
        }
    }

    /// The supervisor's thread.
    fn watch(&self) {
        let mut sweeps = VecDeque::new();
        // [SUPERVISION] Acquire: pairs with the store of the last owner.
        while !self.is_over.load(Ordering::Acquire) && !self.watch.is_lost() {
            let mut deadline = self.end_sweeps(&mut sweeps);
            if uncollected::collect() {
                deadline = deadline.or_after(COLLECT_PAUSE);
            }
            let mut ready = self.watch.wait(deadline);
            // Ends first: what an ended executor has said is read with its end.
            ready.sort_unstable_by_key(|number| std::cmp::Reverse(number % KINDS));
            for number in ready {
                let (of, kind) = (number / KINDS * KINDS, number % KINDS);
                let Some(executor) = self.executors.lock().get(&of).cloned() else { continue };
                match kind {
                    SOCKET if !executor.opener.answer() => {
                        self.forget_socket(&executor);
                        if executor.opener.violation().is_some() {
                            executor.life.kill();
                        }
                    }
                    PROCESS => {
                        let stage = match executor.end.collect_or_leave() {
                            Ok(ended) => {
                                trace::death(executor.pid, &ended);
                                Stage::Ended(ended)
                            }
                            Err(error) => Stage::Failed(Some(error)),
                        };
                        self.ended(of, &executor, stage, &mut sweeps);
                    }
                    SWEEPER => self.finish(of, &executor),
                    _ => {}
                }
            }
        }
        // Those that were killed, and whose ends no thread waits for any more.
        if self.is_over.load(Ordering::Acquire) {
            let left = self.executors.lock();
            left.values().for_each(|executor| uncollected::leave(executor.end.clone()));
        }
    }

    /// Watches the socket of an executor no more.
    fn forget_socket(&self, executor: &Executor) {
        executor.opener.watched().into_iter().for_each(|socket| self.watch.remove(socket));
    }

    /// An executor has ended. Its sweeper may still run.
    fn ended(
        &self,
        number: u64,
        executor: &Executor,
        stage: Stage,
        sweeps: &mut VecDeque<(Deadline, u64)>,
    ) {
        self.watch.remove(executor.end.as_fd());
        self.forget_socket(executor);
        executor.life.enter(stage);
        end_all(&executor.opener);
        executor.life.tell();
        match executor.opener.last_sweeper() {
            Some(sweeper) if self.watch.add(sweeper.as_fd(), number | SWEEPER).is_ok() => {
                sweeps.push_back((Deadline::after(END_TIMEOUT), number));
            }
            _ => self.finish(number, executor),
        }
    }

    /// Nothing of an executor is left to wait for.
    fn finish(&self, number: u64, executor: &Executor) {
        if let Some(sweeper) = executor.opener.last_sweeper() {
            self.watch.remove(sweeper.as_fd());
            let _ = sweeper.collect_or_leave();
        }
        self.executors.lock().remove(&number);
        executor.life.end();
    }

    /// Leaves sweepers that have not ended in time. Returns when the next one is due.
    fn end_sweeps(&self, sweeps: &mut VecDeque<(Deadline, u64)>) -> Deadline {
        while let Some((deadline, number)) = sweeps.front().copied() {
            let executor = self.executors.lock().get(&number).cloned();
            match executor {
                Some(_) if !deadline.has_passed() => return deadline,
                Some(executor) => self.finish(number, &executor),
                None => {}
            }
            sweeps.pop_front();
        }
        Deadline::SESSION_END
    }
}

/// Ends all waits for an executor. That wakes tasks of the host, whose panic must not end this thread.
fn end_all(opener: &LaneOpener) {
    let _ = catch_unwind(AssertUnwindSafe(|| opener.end_all()));
}
