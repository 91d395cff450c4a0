//! Many calling threads on two CPUs, beside as many pipes.
//!
//! Invariant: all threads of a row call during the same turn; the threads of the other row sleep meanwhile.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::busy::figures::{BusyLoad, BusyRow, rate};
use crate::callers::calling::Calling;
use crate::callers::turn::Turn;
use crate::costs::idle::taken;
use crate::figures::table::{aligned, nanoseconds, ratio};
use crate::processes::busy_loop::BusyLoops;
use crate::processes::peer::Peer;
use crate::transports::kernel::Echo;
use crate::{Callee, Contender, CpuPair, Result, Size};

const THREADS: usize = 8;
/// Turns of each row, if the time allows it.
const TURNS: u32 = 4;
const TURN_MIN: Duration = Duration::from_millis(2);
const TURN_MAX: Duration = Duration::from_secs(1);

/// Eight threads that call at the same time, with busy loops beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crowd {
    pub(crate) name: &'static str,
    /// Busy loops on each of the two CPUs.
    loops: usize,
}

/// The figures of both rows of a crowd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrowdFigures {
    /// The name of the load.
    pub name: String,
    /// Threads and neighbours, in words.
    pub description: String,
    /// The turns of each row.
    pub turns: usize,
    /// The length of a turn in milliseconds.
    pub turn_ms: f64,
    /// Calls of all threads, then messages through a pipe of each thread.
    pub rows: Vec<CrowdRow>,
}

/// One row of a crowd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CrowdRow {
    /// All threads together.
    #[serde(flatten)]
    pub row: BusyRow,
    /// Calls per second of the slowest thread.
    pub least_per_s: f64,
    /// Calls per second of the fastest thread.
    pub most_per_s: f64,
}

/// A calling thread, which ends when this is dropped.
struct Worker {
    /// The lengths of turns; `None` at the end only.
    orders: Option<Sender<Duration>>,
    turns: Receiver<Result<Turn>>,
    /// The process that answers.
    server: Pid,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        // A thread that has panicked has sent no turn, which is an error already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Crowd {
    /// All of them, in the order of a report.
    pub(crate) const ALL: [Crowd; 2] =
        [Crowd { name: "threads-8", loops: 0 }, Crowd { name: "threads-8-each-1", loops: 1 }];

    /// Measures both rows in turns until `until`, with one turn at least.
    ///
    /// # Errors
    /// A process or thread cannot be made; the first error of a call.
    pub(crate) fn measure(self, cpus: CpuPair, until: Instant) -> Result<CrowdFigures> {
        let CpuPair { caller, server } = cpus;
        let beside = [Some(caller), Some(server)].map(|cpu| vec![cpu; self.loops]).concat();
        let _loops = BusyLoops::start(&beside)?;
        // Threads and processes that are started from here on inherit the CPUs.
        let _pinned = cpus.pin_to_both()?;
        let callee = Callee::start_unpinned()?;
        let workers = |row: Calling| {
            (0..THREADS).map(|_| Worker::start(row, &callee)).collect::<Result<Vec<_>>>()
        };
        let crowds =
            [(Calling::Null, workers(Calling::Null)?), (Calling::Pipe, workers(Calling::Pipe)?)];
        let left = until.saturating_duration_since(Instant::now());
        let length = (left / (2 * TURNS)).clamp(TURN_MIN, TURN_MAX);
        let mut threads = [(); 2].map(|()| vec![Turn::none(); THREADS]);
        let mut cpu = [[Duration::ZERO; 2]; 2];
        let mut turns = 0;
        while turns == 0 || Instant::now() + 2 * length <= until {
            for (at, (_, workers)) in crowds.iter().enumerate() {
                let before = times(workers)?;
                for worker in workers {
                    worker.orders.as_ref().ok_or("a thread that has ended")?.send(length)?;
                }
                for (worker, sum) in workers.iter().zip(&mut threads[at]) {
                    sum.add(&worker.turns.recv()??);
                }
                for (sum, (before, after)) in
                    cpu[at].iter_mut().zip(before.into_iter().zip(times(workers)?))
                {
                    *sum += after.saturating_sub(before);
                }
            }
            turns += 1;
        }
        let rows = crowds.iter().zip(&threads).zip(cpu);
        Ok(CrowdFigures {
            name: self.name.to_owned(),
            description: format!(
                "{THREADS} threads and their servers on CPUs {caller} and {server}; busy loops on each: {}",
                self.loops
            ),
            turns,
            turn_ms: length.as_secs_f64() * 1e3,
            rows: rows.map(|(((row, _), turns), cpu)| CrowdRow::of(*row, turns, cpu)).collect(),
        })
    }
}

/// The CPU times of this process and of all servers.
fn times(workers: &[Worker]) -> Result<[Duration; 2]> {
    let mut servers: Vec<_> = workers.iter().map(|worker| worker.server).collect();
    // One executor answers all calls.
    servers.dedup();
    let mut sum = Duration::ZERO;
    for server in servers {
        sum += taken(clock_getcpuclockid(server)?)?;
    }
    Ok([taken(ClockId::CLOCK_PROCESS_CPUTIME_ID)?, sum])
}

impl Worker {
    /// Starts a thread that calls `callee`, or a peer process of its own over a pipe.
    fn start(row: Calling, callee: &Callee) -> Result<Worker> {
        let (orders, received) = channel();
        let (reports, turns) = channel();
        let (ready, is_ready) = channel();
        let callee = callee.clone();
        let thread = thread::Builder::new().name("crowd".to_owned()).spawn(move || {
            let made = || -> Result<(Box<dyn Contender>, Pid)> {
                if row == Calling::Pipe {
                    // The peer process ends with this thread.
                    let peer = Peer::start_unpinned()?;
                    return Ok((Box::new(Echo::over_pipes(&peer, Size::WORD)?), peer.pid()));
                }
                let executor = Pid::from_raw(callee.process().pid());
                Ok((Box::new(callee.null_call()), executor))
            };
            let (mut contender, server) = match made() {
                Ok(made) => made,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(server));
            while let Ok(length) = received.recv() {
                let turn = Turn::measure(&mut *contender, length, server, row.is_of_peer());
                if reports.send(turn).is_err() {
                    break;
                }
            }
        })?;
        let server = is_ready.recv()??;
        Ok(Worker { orders: Some(orders), turns, server, thread: Some(thread) })
    }
}

impl CrowdRow {
    /// From the sums of each thread, and the CPU time of both sides.
    fn of(row: Calling, threads: &[Turn], cpu: [Duration; 2]) -> CrowdRow {
        let per_s = |turn: &Turn| {
            turn.samples.len() as f64 / turn.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
        };
        let rates: Vec<_> = threads.iter().map(per_s).collect();
        let mut all = Turn::none();
        threads.iter().for_each(|turn| all.add(turn));
        [all.caller_cpu, all.server_cpu] = cpu;
        let row = BusyRow {
            name: format!("{} x {THREADS}", row.name()),
            calls_per_s: rates.iter().sum(),
            ..BusyRow::of(row, &all)
        };
        CrowdRow {
            row,
            least_per_s: rates.iter().copied().fold(f64::INFINITY, f64::min),
            most_per_s: rates.iter().copied().fold(0.0, f64::max),
        }
    }

    /// The rate of the fastest thread by the rate of the slowest.
    #[must_use]
    pub fn spread(&self) -> f64 {
        self.most_per_s / self.least_per_s
    }
}

impl CrowdFigures {
    /// Without its rows, for reports of loads.
    pub(crate) fn as_load(&self) -> BusyLoad {
        BusyLoad {
            name: self.name.clone(),
            description: self.description.clone(),
            skipped: None,
            turns: self.turns,
            turn_ms: self.turn_ms,
            rows: Vec::new(),
        }
    }
}

impl fmt::Display for CrowdFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrowdFigures { name, description, turns, turn_ms, rows } = self;
        writeln!(f, "{name} ({description}): {turns} turns of {turn_ms:.0} ms")?;
        let heading =
            ["row", "calls/s", "slowest", "fastest", "spread", "p50", "p99", "p99.9", "CPU"];
        let cells = |one: &CrowdRow| {
            let ns = |value: u64| nanoseconds(value as f64);
            [
                one.row.name.clone(),
                rate(one.row.calls_per_s),
                rate(one.least_per_s),
                rate(one.most_per_s),
                ratio(one.spread()),
                ns(one.row.p50_ns),
                ns(one.row.p99_ns),
                ns(one.row.p99_9_ns),
                nanoseconds(one.row.caller_cpu_ns + one.row.server_cpu_ns),
            ]
        };
        let lines: Vec<_> =
            [heading.map(str::to_owned)].into_iter().chain(rows.iter().map(cells)).collect();
        f.write_str(&aligned(&lines))?;
        if let [calls, pipes] = &rows[..] {
            let times = calls.row.calls_per_s / pipes.row.calls_per_s;
            writeln!(f, "rate by that of the pipes: {}", ratio(times))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_of_threads_add_up_and_their_spread_is_shown() {
        let turn = |calls| {
            let mut turn = Turn::none();
            turn.elapsed = Duration::from_millis(100);
            turn.samples.record_n(1_000, calls).unwrap();
            turn
        };
        let row =
            CrowdRow::of(Calling::Null, &[turn(100), turn(400)], [Duration::from_micros(5); 2]);
        assert_eq!((row.least_per_s, row.most_per_s, row.spread()), (1_000.0, 4_000.0, 4.0));
        assert_eq!((row.row.calls, row.row.calls_per_s), (500, 5_000.0));
        assert_eq!(row.row.caller_cpu_ns, 10.0);
        let figures = CrowdFigures {
            name: "threads-8".to_owned(),
            description: "here".to_owned(),
            turns: 3,
            turn_ms: 100.0,
            rows: vec![row.clone(), row],
        };
        let text = figures.to_string();
        assert!(text.starts_with("threads-8 (here): 3 turns of 100 ms\nrow "), "{text}");
        assert!(text.contains("  5.00k    1.00k    4.00k    4.00  "), "{text}");
        assert!(text.ends_with("rate by that of the pipes: 1.00\n"), "{text}");
    }
}
