//! The figures of rows under one load: plain data and its tables.
//!
//! Invariant: figures of two rows are compared only under the same load, or for the same row under two loads.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::callers::calling::Calling;
use crate::callers::turn::Turn;
use crate::figures::table::{aligned, count, nanoseconds, ratio};

/// The rows under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusyLoad {
    /// Its name.
    pub name: String,
    /// Where the sides and their neighbours are.
    pub description: String,
    /// The reason why this machine cannot make the load; there are no rows then.
    pub skipped: Option<String>,
    /// The turns of each row.
    pub turns: usize,
    /// The length of a turn in milliseconds.
    pub turn_ms: f64,
    /// The rows.
    pub rows: Vec<BusyRow>,
}

/// A row under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusyRow {
    /// Its name.
    pub name: String,
    /// All calls of all turns.
    pub calls: u64,
    /// Calls by the time that they took together.
    pub calls_per_s: f64,
    /// Half of the samples took at most this long. A sample is a call, or a burst of calls in flight.
    pub p50_ns: u64,
    /// 99 % of the samples took at most this long.
    pub p99_ns: u64,
    /// 99.9 % of the samples took at most this long.
    pub p99_9_ns: u64,
    /// The longest sample.
    pub max_ns: u64,
    /// CPU time of the calling process for each call, user and system.
    pub caller_cpu_ns: f64,
    /// CPU time of the server's process for each call.
    pub server_cpu_ns: f64,
    /// p50 by the p50 of the same row on the same CPUs without neighbours.
    pub idle_ratio: Option<f64>,
    /// p50 by the p50 of the pipe under the same load.
    pub pipe_ratio: Option<f64>,
    /// p50 by the p50 of the futex under the same load.
    pub futex_ratio: Option<f64>,
}

/// The short form, for the report of all parts: a few rows under a few loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Busy {
    /// The loads.
    pub loads: Vec<BusyLoad>,
}

impl BusyLoad {
    /// The row with this name.
    pub(crate) fn row(&self, name: &str) -> Option<&BusyRow> {
        self.rows.iter().find(|row| row.name == name)
    }
}

impl BusyRow {
    /// The figures of the turns of one row, without ratios.
    pub(crate) fn of(row: Calling, turn: &Turn) -> BusyRow {
        let calls = turn.samples.len() * u64::from(row.calls_of_sample());
        let each_ns = |time: Duration| time.as_secs_f64() * 1e9 / calls.max(1) as f64;
        BusyRow {
            name: row.name(),
            calls,
            calls_per_s: calls as f64 / turn.elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
            p50_ns: turn.samples.value_at_quantile(0.5),
            p99_ns: turn.samples.value_at_quantile(0.99),
            p99_9_ns: turn.samples.value_at_quantile(0.999),
            max_ns: turn.samples.max(),
            caller_cpu_ns: each_ns(turn.caller_cpu),
            server_cpu_ns: each_ns(turn.server_cpu),
            idle_ratio: None,
            pipe_ratio: None,
            futex_ratio: None,
        }
    }

    /// p50 by the p50 of another row or load.
    pub(crate) fn ratio_to(&self, other: Option<&BusyRow>) -> Option<f64> {
        Some(self.p50_ns as f64 / other?.p50_ns.max(1) as f64)
    }

    fn cells(&self) -> [String; 10] {
        let ratio_or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), ratio);
        let ns = |value: u64| nanoseconds(value as f64);
        [
            self.name.clone(),
            ns(self.p50_ns),
            ns(self.p99_ns),
            ns(self.p99_9_ns),
            ns(self.max_ns),
            rate(self.calls_per_s),
            nanoseconds(self.caller_cpu_ns + self.server_cpu_ns),
            ratio_or_dash(self.idle_ratio),
            ratio_or_dash(self.pipe_ratio),
            ratio_or_dash(self.futex_ratio),
        ]
    }
}

/// Calls per second.
pub(crate) fn rate(calls_per_s: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a number of calls")]
    #[expect(clippy::cast_sign_loss, reason = "a number of calls")]
    let whole = calls_per_s.round() as u64;
    count(whole)
}

impl fmt::Display for BusyLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BusyLoad { name, description, skipped, turns, turn_ms, rows } = self;
        if let Some(why) = skipped {
            return writeln!(f, "{name} ({description}): skipped: {why}");
        }
        writeln!(f, "{name} ({description}): {turns} turns of {turn_ms:.0} ms")?;
        let heading =
            ["row", "p50", "p99", "p99.9", "max", "calls/s", "CPU", "x idle", "x pipe", "x futex"];
        let lines = [heading.map(str::to_owned)].into_iter().chain(rows.iter().map(BusyRow::cells));
        f.write_str(&aligned(&lines.collect::<Vec<_>>()))
    }
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for load in &self.loads {
            if let Some(why) = &load.skipped {
                writeln!(f, "busy     {}: skipped: {why}", load.name)?;
                continue;
            }
            let row = |row: &BusyRow| {
                let [p50, tail] = [row.p50_ns, row.p99_9_ns].map(|ns| nanoseconds(ns as f64));
                format!("{} {p50}/{tail}", row.name)
            };
            let rows: Vec<_> = load.rows.iter().map(row).collect();
            writeln!(f, "busy     {}, p50/p99.9 ns: {}", load.name, rows.join("; "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn load(name: &str, rows: &[(&str, u64)]) -> BusyLoad {
        let row = |&(name, p50_ns): &(&str, u64)| BusyRow {
            name: name.to_owned(),
            calls: 1_000,
            calls_per_s: 12_345.6,
            p50_ns,
            p99_ns: 2 * p50_ns,
            p99_9_ns: 3 * p50_ns,
            max_ns: 4 * p50_ns,
            caller_cpu_ns: 100.0,
            server_cpu_ns: 23.0,
            idle_ratio: Some(1.5),
            pipe_ratio: None,
            futex_ratio: Some(0.25),
        };
        BusyLoad {
            name: name.to_owned(),
            description: "both sides on CPU 3; no neighbours".to_owned(),
            skipped: None,
            turns: 4,
            turn_ms: 50.0,
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn a_load_is_a_table_or_the_reason_why_there_is_none() {
        let shown = load("one-cpu-0", &[("null call", 2_000)]).to_string();
        assert_eq!(
            shown,
            "one-cpu-0 (both sides on CPU 3; no neighbours): 4 turns of 50 ms\n\
             row         p50   p99  p99.9   max  calls/s  CPU  x idle  x pipe  x futex\n\
             null call  2000  4000   6000  8000    12.3k  123    1.50       -     0.25\n"
        );
        let skipped = BusyLoad { skipped: Some("no cc".to_owned()), ..load("build", &[]) };
        let shown = skipped.to_string();
        assert_eq!(shown, "build (both sides on CPU 3; no neighbours): skipped: no cc\n");
        let busy = Busy { loads: vec![load("each-1", &[("null call", 9_000_000)]), skipped] };
        let due = "busy     each-1, p50/p99.9 ns: null call 9.00M/27.0M\nbusy     build: skipped: no cc\n";
        assert_eq!(busy.to_string(), due);
    }

    #[test]
    fn a_burst_counts_all_of_its_calls() {
        let mut turn = Turn::none();
        turn.elapsed = Duration::from_millis(1);
        turn.caller_cpu = Duration::from_nanos(6_400);
        turn.samples.record_n(1_000, 10).unwrap();
        let burst = BusyRow::of(Calling::Burst, &turn);
        assert_eq!((burst.calls, burst.caller_cpu_ns), (640, 10.0));
        assert!((burst.calls_per_s - 640_000.0).abs() < 1e-3);
        assert_eq!(BusyRow::of(Calling::Null, &turn).calls, 10);
    }
}
