//! The steps of `farcall run`, and what each took from the system: a table for people, or a trace that a browser's viewer opens.
//!
//! Invariant: steps of one thread follow each other, and do not overlap.

use std::fmt;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;
use serde_json::{Value, json};

/// The cost of a step.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Step {
    name: &'static str,
    /// The thread that began it: 1 reads and links, 2 opens libraries meanwhile.
    thread: u32,
    start_us: u128,
    time_us: u128,
    /// The processor time of all threads that worked on it. It is more than `time_us` if several did.
    cpu_us: u128,
    page_faults: u64,
    /// The bytes that it read or stored, where they are known.
    bytes: Option<u64>,
}

/// All steps of a run, in the order in which they ended.
#[derive(Debug)]
pub(crate) struct Steps {
    begun: Instant,
    last: Moment,
    pub(crate) all: Vec<Step>,
}

/// The clock and the system's counters.
#[derive(Debug, Clone, Copy)]
struct Moment {
    time: Instant,
    cpu: Duration,
    page_faults: u64,
}

impl Steps {
    /// The first step begins.
    pub(crate) fn begin() -> Self {
        let last = Moment::of(UsageWho::RUSAGE_SELF);
        Self { begun: last.time, last, all: Vec::new() }
    }

    /// Runs a step in which only the calling thread works. Another thread may run one at the same time.
    pub(crate) fn alone<T>(
        &self,
        name: &'static str,
        thread: u32,
        work: impl FnOnce() -> T,
    ) -> (T, Step) {
        let before = Moment::of(UsageWho::RUSAGE_THREAD);
        let result = work();
        let after = Moment::of(UsageWho::RUSAGE_THREAD);
        (result, self.between(name, thread, before, after))
    }

    /// The next step begins now, and not when the one before ended.
    pub(crate) fn restart(&mut self) {
        self.last = Moment::of(UsageWho::RUSAGE_SELF);
    }

    /// Ends a step of all threads.
    pub(crate) fn end(&mut self, name: &'static str) {
        let now = Moment::of(UsageWho::RUSAGE_SELF);
        let step = self.between(name, 1, self.last, now);
        self.last = now;
        self.all.push(step);
    }

    /// Says how many bytes a step read or stored.
    pub(crate) fn set_bytes(&mut self, name: &str, bytes: u64) {
        for step in self.all.iter_mut().filter(|step| step.name == name) {
            step.bytes = Some(bytes);
        }
    }

    /// The time that a step took; 0 if it never ended.
    pub(crate) fn time_us(&self, name: &str) -> u128 {
        self.all.iter().find(|step| step.name == name).map_or(0, |step| step.time_us)
    }

    /// The steps in the Trace Event format.
    pub(crate) fn trace(&self) -> Value {
        let event = |step: &Step| {
            json!({
                "name": step.name, "ph": "X", "ts": step.start_us, "dur": step.time_us,
                "pid": std::process::id(), "tid": step.thread,
                "args": { "cpu_us": step.cpu_us, "page_faults": step.page_faults, "bytes": step.bytes },
            })
        };
        let events: Vec<_> = self.all.iter().map(event).collect();
        json!({ "displayTimeUnit": "ms", "traceEvents": events })
    }

    fn between(&self, name: &'static str, thread: u32, before: Moment, after: Moment) -> Step {
        Step {
            name,
            thread,
            start_us: (before.time - self.begun).as_micros(),
            time_us: (after.time - before.time).as_micros(),
            cpu_us: after.cpu.saturating_sub(before.cpu).as_micros(),
            page_faults: after.page_faults.saturating_sub(before.page_faults),
            bytes: None,
        }
    }
}

impl Moment {
    /// If the system refuses its counters, they are 0.
    fn of(who: UsageWho) -> Self {
        let time = Instant::now();
        let Ok(usage) = getrusage(who) else {
            return Self { time, cpu: Duration::ZERO, page_faults: 0 };
        };
        let cpu_us = (usage.user_time() + usage.system_time()).num_microseconds();
        let cpu = Duration::from_micros(u64::try_from(cpu_us).unwrap_or(0));
        let page_faults = u64::try_from(usage.minor_page_faults()).unwrap_or(0);
        Self { time, cpu, page_faults }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, time_us, cpu_us, page_faults, bytes, .. } = self;
        write!(
            f,
            "{name:<9}{time_us:>10} us {cpu_us:>10} us of CPUs {page_faults:>8} page faults"
        )?;
        bytes.map_or(Ok(()), |bytes| write!(f, " {bytes:>12} bytes"))
    }
}
