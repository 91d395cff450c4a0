//! The progress line, and when a run is over.

use std::time::{Duration, Instant};

/// How long a run lasts: until one of the two is reached, or for ever.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) executions_max: Option<u64>,
    pub(crate) time_max: Option<Duration>,
}

/// The figures of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) executions: u64,
    pub(crate) corpus: usize,
    pub(crate) edges: usize,
    pub(crate) crashes: usize,
    pub(crate) hangs: usize,
}

/// Writes a line to standard output each second.
#[derive(Debug)]
pub(crate) struct Progress {
    limits: Limits,
    started: Instant,
    /// The time of the last line, and the executions until then.
    last: (Instant, u64),
}

impl Progress {
    pub(crate) fn new(limits: Limits) -> Self {
        let now = Instant::now();
        Self { limits, started: now, last: (now, 0) }
    }

    /// True when the run has had this many executions, or its time.
    pub(crate) fn is_over(&self, executions: u64) -> bool {
        self.limits.executions_max.is_some_and(|most| executions >= most)
            || self.limits.time_max.is_some_and(|most| self.started.elapsed() >= most)
    }

    /// True when a line is due.
    pub(crate) fn is_due(&self) -> bool {
        self.last.0.elapsed() >= Duration::from_secs(1)
    }

    /// Writes a line, with the rate since the last one.
    pub(crate) fn line(&mut self, numbers: Numbers) {
        let (then, before) = self.last;
        self.last = (Instant::now(), numbers.executions);
        let rate = (numbers.executions - before) as f64 / then.elapsed().as_secs_f64();
        println!("{}", self.text(numbers, rate));
    }

    /// Writes the last line, with the rate of the whole run.
    pub(crate) fn end(&self, numbers: Numbers) {
        let rate = numbers.executions as f64 / self.started.elapsed().as_secs_f64();
        println!("fuzz object: {}", self.text(numbers, rate));
    }

    fn text(&self, numbers: Numbers, rate: f64) -> String {
        let Numbers { executions, corpus, edges, crashes, hangs } = numbers;
        let seconds = self.started.elapsed().as_secs();
        format!(
            "{executions} executions, {rate:.0} a second, {seconds} s; {corpus} inputs, {edges} edges; \
             {crashes} crashes, {hangs} hangs"
        )
    }
}
