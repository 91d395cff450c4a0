//! One turn of a row: calls for a given time, and the CPU time that both sides take for them.
//!
//! A turn lasts for several slices of the scheduler. A block of a millisecond would be over before a process that has just
//! woken up has to share its CPU.
//!
//! Invariant: every call is in the samples, however long it takes; so the calls and their time belong to the same interval.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use crate::costs::idle::taken;
use crate::figures::samples::new_histogram;
use crate::{Contender, Result};

/// A server of the peer process gets orders for about this long.
const ORDER_NS: f64 = 1e6;
/// Calls of an order at most.
const ORDERED_MAX: u32 = 1024;
/// Calls between two looks at the clock of a row that needs no orders. Each of them may take a whole slice.
const UNORDERED_MAX: u32 = 16;
/// An order has at most this many times the calls of the last one.
const GROWTH_MAX: u32 = 8;

/// The findings of one or more turns of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    /// The time of all calls together.
    pub(crate) elapsed: Duration,
    /// The CPU time of the calling process, user and system.
    pub(crate) caller_cpu: Duration,
    /// The CPU time of the server's process.
    pub(crate) server_cpu: Duration,
    /// Nanoseconds of each call.
    pub(crate) samples: Histogram<u64>,
}

impl Turn {
    /// No calls.
    pub(crate) fn none() -> Turn {
        let [elapsed, caller_cpu, server_cpu] = [Duration::ZERO; 3];
        Turn { elapsed, caller_cpu, server_cpu, samples: new_histogram() }
    }

    /// Calls `row` for about `length`, which the process `server` answers. A row that `is_ordered` makes exactly as many calls
    /// as it announces. Its server has the next order before it needs it, so it never waits for one.
    ///
    /// # Errors
    /// The first error of a call.
    pub(crate) fn measure(
        row: &mut dyn Contender,
        length: Duration,
        server: Pid,
        is_ordered: bool,
    ) -> Result<Turn> {
        let most = if is_ordered { ORDERED_MAX } else { UNORDERED_MAX };
        let mut turn = Turn::none();
        let mut samples_ns = Vec::with_capacity(ORDERED_MAX as usize);
        let server = clock_getcpuclockid(server)?;
        // Wakes the server, and is no sample.
        row.prepare(1)?;
        row.sample(1, &mut samples_ns)?;
        let cpu = || -> Result<[Duration; 2]> {
            Ok([taken(ClockId::CLOCK_PROCESS_CPUTIME_ID)?, taken(server)?])
        };
        let before = cpu()?;
        let start = Instant::now();
        let (mut calls, mut next) = (1, 1);
        row.prepare(calls)?;
        while calls > 0 {
            next = if start.elapsed() < length { next } else { 0 };
            if next > 0 {
                row.prepare(next)?;
            }
            samples_ns.clear();
            let began = Instant::now();
            row.sample(calls, &mut samples_ns)?;
            let call_ns = began.elapsed().as_secs_f64() * 1e9 / f64::from(calls);
            for &sample_ns in &samples_ns {
                turn.samples.saturating_record(sample_ns);
            }
            calls = next;
            next = fitting(call_ns, most.min(GROWTH_MAX * next));
        }
        turn.elapsed = start.elapsed();
        let after = cpu()?;
        row.rest()?;
        [turn.caller_cpu, turn.server_cpu] =
            [0, 1].map(|side| after[side].saturating_sub(before[side]));
        Ok(turn)
    }

    /// Adds the calls of another turn of the same row.
    pub(crate) fn add(&mut self, other: &Turn) {
        self.elapsed += other.elapsed;
        self.caller_cpu += other.caller_cpu;
        self.server_cpu += other.server_cpu;
        self.samples += &other.samples;
    }

    /// The turn as words: three times in nanoseconds, then pairs of nanoseconds and a number of calls.
    pub(crate) fn encode(&self) -> Vec<u64> {
        let times = [self.elapsed, self.caller_cpu, self.server_cpu];
        let times = times.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let pairs = self.samples.iter_recorded();
        let pairs = pairs.flat_map(|step| [step.value_iterated_to(), step.count_at_value()]);
        times.into_iter().chain(pairs).collect()
    }

    /// Reads what [`encode`](Self::encode) has made.
    ///
    /// # Errors
    /// For words that are no turn.
    pub(crate) fn decode(mut words: impl Iterator<Item = u64>) -> Result<Turn> {
        let mut time = || words.next().map(Duration::from_nanos).ok_or("a turn without its times");
        let (elapsed, caller_cpu, server_cpu) = (time()?, time()?, time()?);
        let mut samples = new_histogram();
        while let (Some(ns), Some(count)) = (words.next(), words.next()) {
            samples.saturating_record_n(ns, count);
        }
        Ok(Turn { elapsed, caller_cpu, server_cpu, samples })
    }
}

/// The calls of an order if one takes `call_ns`.
#[expect(clippy::cast_possible_truncation, reason = "between 1 and the largest order")]
#[expect(clippy::cast_sign_loss, reason = "between 1 and the largest order")]
fn fitting(call_ns: f64, most: u32) -> u32 {
    (ORDER_NS / call_ns).min(f64::from(most)).max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// Counts the announced and the made calls; each call takes this long.
    #[derive(Default)]
    struct Counter {
        call: Duration,
        announced: u32,
        made: u32,
    }

    impl Contender for Counter {
        fn name(&self) -> &str {
            "counter"
        }
        fn prepare(&mut self, calls: u32) -> Result<()> {
            self.announced += calls;
            Ok(())
        }
        fn call(&mut self) -> Result<()> {
            self.made += 1;
            assert!(self.made <= self.announced, "a call that was not announced");
            thread::sleep(self.call);
            Ok(())
        }
        fn rest(&mut self) -> Result<()> {
            assert_eq!(self.made, self.announced, "an announced call was not made");
            Ok(())
        }
    }

    #[test]
    fn a_turn_makes_the_announced_calls_and_samples_each() {
        for call in [Duration::ZERO, Duration::from_millis(3)] {
            let mut row = Counter { call, ..Counter::default() };
            let length = Duration::from_millis(20);
            let turn = Turn::measure(&mut row, length, Pid::this(), true).unwrap();
            assert!(turn.elapsed >= length);
            // The first call wakes the server.
            assert_eq!(turn.samples.len(), u64::from(row.made) - 1);
            assert!(turn.samples.min() >= u64::try_from(call.as_nanos()).unwrap() * 99 / 100);
        }
    }

    #[test]
    fn turns_are_read_as_written_and_added_up() {
        let mut turn = Turn::none();
        turn.elapsed = Duration::from_nanos(10_007);
        turn.server_cpu = Duration::from_nanos(7);
        turn.samples.record_n(1_000, 5).unwrap();
        turn.samples.record(9_000_000).unwrap();
        let mut read = Turn::decode(turn.encode().into_iter()).unwrap();
        assert_eq!(read.elapsed, turn.elapsed);
        assert_eq!(
            (read.samples.len(), read.samples.value_at_quantile(0.5)),
            (6, turn.samples.value_at_quantile(0.5))
        );
        read.add(&turn);
        assert_eq!((read.samples.len(), read.server_cpu), (12, Duration::from_nanos(14)));
        assert!(Turn::decode([1, 2].into_iter()).is_err());
    }

    #[test]
    fn an_order_grows_step_by_step_and_has_one_call_at_least() {
        assert_eq!(fitting(100.0, 8), 8);
        assert_eq!(fitting(100_000.0, 1024), 10);
        assert_eq!(fitting(5e6, 1024), 1);
        assert_eq!(fitting(0.0, 1024), 1024);
    }
}
