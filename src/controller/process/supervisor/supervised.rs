//! All that the supervisor's thread watches: the executors of this process, their sweepers, and start zygotes.
//!
//! Invariant: that thread never waits for an executor, and reads one message of each in turn. An executor that has ended and that the
//! kernel does not hand over, as it belongs to a tracer, is collected later.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::life::{Life, Stage};
use super::start_zygote::{Change, StartZygote};
use crate::controller::process::lane_opener::LaneOpener;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::limits::END_TIMEOUT;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use crate::sys::io::watch::Watch;
use crate::sys::process::child::uncollected;
use crate::sys::process::child::{Awaiter, Child};
use crate::trace;

/// What the supervisor's thread watches.
#[derive(Debug)]
pub(super) struct Supervised {
    watch: Watch,
    executors: Mutex<HashMap<u64, Arc<Executor>>>,
    zygotes: Mutex<HashMap<u64, Arc<StartZygote>>>,
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

/// Which descriptor of an executor is ready: the lowest bits of its number.
const SOCKET: u64 = 0;
const PROCESS: u64 = 1;
const SWEEPER: u64 = 2;
/// The socket or the process of a start zygote.
const ZYGOTE: u64 = 3;
const KINDS: u64 = 4;

/// The pause between two looks at children that could not be collected.
const COLLECT_PAUSE: Duration = Duration::from_millis(500);

impl Supervised {
    /// Watches nothing yet.
    ///
    /// # Errors
    ///
    /// When descriptors run out, or the system refuses.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            watch: Watch::new()?,
            executors: Mutex::default(),
            zygotes: Mutex::default(),
            last: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        })
    }

    /// Has the supervisor's thread end.
    pub(super) fn end(&self) {
        // [SUPERVISION] Release: pairs with the load in `watch`.
        self.is_over.store(true, Ordering::Release);
        self.watch.end();
    }

    /// The number of one more process.
    pub(super) fn next_number(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) * KINDS
    }

    /// True when other code has closed the descriptors by which ends are observed.
    pub(super) fn is_lost(&self) -> bool {
        self.watch.is_lost()
    }

    /// Watches a start zygote until it has ended.
    pub(super) fn watch_zygote(&self, zygote: &Arc<StartZygote>) {
        self.zygotes.lock().insert(zygote.number, Arc::clone(zygote));
        // Unwatched, it is collected at the next start.
        let _ = self.watch.add(zygote.socket(), zygote.number | ZYGOTE);
    }

    /// Looks what has become of a start zygote, for the starter's thread as well.
    pub(super) fn look_at_zygote(&self, zygote: &StartZygote) {
        match zygote.look() {
            Change::Nothing => {}
            Change::Ready => {
                self.watch.remove(zygote.socket());
                zygote.with_process(|process| {
                    let _ = self.watch.add(process, zygote.number | ZYGOTE);
                });
            }
            Change::Gone => self.forget_zygote(zygote),
        }
    }

    /// Watches a start zygote no more.
    pub(super) fn forget_zygote(&self, zygote: &StartZygote) {
        self.zygotes.lock().remove(&zygote.number);
        self.watch.remove(zygote.socket());
        zygote.with_process(|process| self.watch.remove(process));
    }

    /// Observes a process that was started.
    pub(super) fn add(&self, child: Child, life: Arc<Life>, opener: Arc<LaneOpener>) {
        let number = self.next_number();
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
    pub(super) fn watch(&self) {
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
                if kind == ZYGOTE {
                    let zygote = self.zygotes.lock().get(&of).cloned();
                    zygote.into_iter().for_each(|zygote| self.look_at_zygote(&zygote));
                    continue;
                }
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
pub(super) fn end_all(opener: &LaneOpener) {
    let _ = catch_unwind(AssertUnwindSafe(|| opener.end_all()));
}
