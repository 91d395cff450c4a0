//! How long the scheduler lets a thread run beside others that want the same CPU.
//!
//! Invariant: the kernel's own figure if it can be read, else a measured one, and the value says which.

use std::fmt;
use std::fs;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::CpuPair;

/// Where the kernel says it, in nanoseconds: since Linux 6.6 (EEVDF), and before (CFS).
const FILES: [&str; 2] =
    ["/sys/kernel/debug/sched/base_slice_ns", "/sys/kernel/debug/sched/min_granularity_ns"];
/// Yields to measure.
const YIELDS: usize = 9;
/// A shorter yield has met no other thread.
const YIELD_MIN: Duration = Duration::from_micros(50);
/// The measurement ends after this time at the latest.
const TIMEOUT: Duration = Duration::from_millis(300);

/// The slice of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Its length.
    pub ms: f64,
    /// True if it is the time of a yield beside a busy loop, and false if the kernel has said it.
    pub is_measured: bool,
}

impl Slice {
    /// The slice on the caller's CPU. Where the kernel does not say it, that CPU is busy for some milliseconds. `None` if no
    /// yield meets the busy loop.
    #[must_use]
    pub fn read(cpus: CpuPair) -> Option<Slice> {
        let said = FILES.iter().find_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
        match said {
            Some(ns) => {
                Some(Slice { ms: Duration::from_nanos(ns).as_secs_f64() * 1e3, is_measured: false })
            }
            None => Some(Slice { ms: measure(cpus)?.as_secs_f64() * 1e3, is_measured: true }),
        }
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = if self.is_measured { "a yield beside a busy loop" } else { "of the kernel" };
        write!(f, "{:.1} ms ({source})", self.ms)
    }
}

/// The median time of a yield while a thread on the same CPU is busy.
fn measure(cpus: CpuPair) -> Option<Duration> {
    let is_over = AtomicBool::new(false);
    let _pinned = cpus.pin_caller().ok()?;
    let mut times = thread::scope(|scope| {
        // It inherits the CPU.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                hint::spin_loop();
            }
        });
        let (mut times, start) = (Vec::new(), Instant::now());
        while times.len() < YIELDS && start.elapsed() < TIMEOUT {
            let before = Instant::now();
            thread::yield_now();
            let took = before.elapsed();
            if took >= YIELD_MIN {
                times.push(took);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        times
    });
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_a_slice_and_it_says_where_that_is_from() {
        let slice = Slice::read(CpuPair::first_two().unwrap()).expect("a yield beside a busy loop");
        assert!(slice.ms > 0.0, "{slice}");
        let said = Slice { ms: 2.8, is_measured: false };
        assert_eq!(said.to_string(), "2.8 ms (of the kernel)");
        let measured = Slice { ms: 3.04, is_measured: true };
        assert_eq!(measured.to_string(), "3.0 ms (a yield beside a busy loop)");
    }
}
