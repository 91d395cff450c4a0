//! Loads again and again: the scheduler places the processes anew in each run, and the worst run counts.
//!
//! Invariant: each run has processes of its own.

use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::busy::figures::{BusyLoad, rate};
use crate::busy::neighbours::Neighbours;
use crate::busy::plan::{UNITS, chosen, measure, rows};
use crate::callers::calling::Calling;
use crate::contest::Progress;
use crate::figures::table::{aligned, nanoseconds, ratio};
use crate::{CpuPair, NullCall, Origin, Result, SCHEMA};

/// Runs of some loads.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeats {
    /// The CPUs of a machine, for the description of a load.
    pub cpus: CpuPair,
    /// The names of the loads; all unpinned loads with loops if empty.
    pub loads: Vec<String>,
    /// The names of the rows; the null call if empty. The pipe and the futex are always measured.
    pub only: Vec<String>,
    /// The number of runs of each load.
    pub runs: usize,
    /// The length of a run.
    pub run: Duration,
    /// The program and its flags, for the report.
    pub origin: Origin,
}

/// The runs of all loads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatReport {
    /// The version of the form of the JSON, as for [`Report`](crate::Report).
    pub schema: u32,
    /// The program and its flags.
    #[serde(flatten)]
    pub origin: Origin,
    /// True if the runs were interrupted.
    pub is_partial: bool,
    /// The length of a run in seconds.
    pub run_s: f64,
    /// The rows of each load.
    pub rows: Vec<RepeatedRow>,
}

/// A row in all runs of one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepeatedRow {
    /// The name of the load.
    pub load: String,
    /// The name of the row.
    pub row: String,
    /// The number of runs.
    pub runs: usize,
    /// The largest p50 of a run.
    pub worst_p50_ns: u64,
    /// The smallest rate of a run.
    pub least_calls_per_s: f64,
    /// p50 by p50 of the pipe in the same run: the worst run, and the median over the runs. A cold call has a cold pipe.
    pub pipe_ratio: [f64; 2],
    /// p99 by p99 of the pipe in the same run.
    pub pipe_p99_ratio: [f64; 2],
    /// The rate of the pipe by the rate of the row in the same run.
    pub pipe_rate_ratio: [f64; 2],
}

impl Repeats {
    /// Checks the names, without starting anything; [`run`](Self::run) does it too.
    ///
    /// # Errors
    /// For a name that no load and no row has, with all names.
    pub fn check(&self) -> Result<()> {
        let names: Vec<_> = Neighbours::ALL.map(|load| load.name).to_vec();
        chosen(&self.loads, &names, "load")?;
        rows(&self.only).map(drop)
    }

    /// Makes all runs, as [`BusyPlan::run`](crate::BusyPlan::run) makes one.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check), and of [`BusyPlan::run`](crate::BusyPlan::run).
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<RepeatReport> {
        self.check()?;
        let default = [NullCall::NAME.to_owned()];
        let only = if self.only.is_empty() { &default[..] } else { &self.only };
        let (rows, run) = (rows(only)?, self.run);
        let is_named = |load: &Neighbours| {
            self.loads.iter().any(|name| name.trim().eq_ignore_ascii_case(load.name))
        };
        let loads: Vec<_> = if self.loads.is_empty() {
            Neighbours::all_unpinned().collect()
        } else {
            Neighbours::ALL.into_iter().filter(is_named).collect()
        };
        let (all, mut done) = ((loads.len() * self.runs) as f64, 0.0);
        let mut report = RepeatReport {
            schema: SCHEMA,
            origin: self.origin.clone(),
            is_partial: false,
            run_s: run.as_secs_f64(),
            rows: Vec::new(),
        };
        for load in loads {
            let mut runs = Vec::new();
            while runs.len() < self.runs && !report.is_partial {
                let mut step = || ControlFlow::Continue(());
                runs.push(measure(load, self.cpus, &rows, Instant::now() + run, &mut step)?.0);
                done += 1.0;
                report.is_partial = progress(load.name, done / all).is_break();
            }
            let kinds = rows.iter().filter(|&&row| row.units().1 != row && !UNITS.contains(&row));
            report.rows.extend(kinds.filter_map(|&row| RepeatedRow::of(&runs, row)));
        }
        Ok(report)
    }
}

impl RepeatedRow {
    /// The row `kind` in these runs of one load, beside its pipe.
    fn of(runs: &[BusyLoad], kind: Calling) -> Option<RepeatedRow> {
        let (name, pipe) = (kind.name(), kind.units().1.name());
        let mut row = RepeatedRow {
            load: runs.first()?.name.clone(),
            row: name.clone(),
            runs: runs.len(),
            worst_p50_ns: 0,
            least_calls_per_s: f64::INFINITY,
            pipe_ratio: [0.0; 2],
            pipe_p99_ratio: [0.0; 2],
            pipe_rate_ratio: [0.0; 2],
        };
        let mut ratios = [(); 3].map(|()| Vec::new());
        for run in runs {
            let (own, pipe) = (run.row(&name)?, run.row(&pipe)?);
            row.worst_p50_ns = row.worst_p50_ns.max(own.p50_ns);
            row.least_calls_per_s = row.least_calls_per_s.min(own.calls_per_s);
            ratios[0].push(own.ratio_to(Some(pipe))?);
            ratios[1].push(own.p99_ns as f64 / pipe.p99_ns.max(1) as f64);
            ratios[2].push(pipe.calls_per_s / own.calls_per_s);
        }
        let worst_and_median = |mut ratios: Vec<f64>| {
            ratios.sort_by(f64::total_cmp);
            [ratios.last(), ratios.get(ratios.len() / 2)]
                .map(|one| one.copied().unwrap_or_default())
        };
        [row.pipe_ratio, row.pipe_p99_ratio, row.pipe_rate_ratio] = ratios.map(worst_and_median);
        Some(row)
    }
}

impl RepeatReport {
    /// The report as one JSON object on one line, without a final newline.
    ///
    /// # Errors
    /// None is known; the writer of the library could fail.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

impl fmt::Display for RepeatReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "farcall bench --busy --repeat: runs of {:.1} s, each with new processes",
            self.run_s
        )?;
        writeln!(
            f,
            "x pipe: p50 by p50, p99 by p99; pipe's rate: its calls/s by the row's; each of the worst run, then the median"
        )?;
        if self.is_partial {
            writeln!(f, "WARNING  partial: the runs were interrupted")?;
        }
        let heading = [
            "load",
            "row",
            "runs",
            "worst p50",
            "least/s",
            "p50 x pipe",
            "median",
            "p99 x pipe",
            "median",
            "pipe's rate",
            "median",
        ];
        let cells = |row: &RepeatedRow| {
            let [[pipe, pipe_median], [p99, p99_median], [calls, calls_median]] =
                [row.pipe_ratio, row.pipe_p99_ratio, row.pipe_rate_ratio]
                    .map(|pair| pair.map(ratio));
            [
                row.load.clone(),
                row.row.clone(),
                row.runs.to_string(),
                nanoseconds(row.worst_p50_ns as f64),
                rate(row.least_calls_per_s),
                pipe,
                pipe_median,
                p99,
                p99_median,
                calls,
                calls_median,
            ]
        };
        let lines: Vec<_> =
            [heading.map(str::to_owned)].into_iter().chain(self.rows.iter().map(cells)).collect();
        f.write_str(&aligned(&lines))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::busy::figures::tests::load;

    #[test]
    fn the_worst_run_counts() {
        let run = |own, pipe| {
            load("unpinned-2", &[("null call", own), ("futex", 1_000), ("pipe pair", pipe)])
        };
        let runs = [run(100, 1_000), run(4_000, 2_000), run(500, 1_000)];
        let row = RepeatedRow::of(&runs, Calling::Null).unwrap();
        assert_eq!((row.runs, row.worst_p50_ns), (3, 4_000));
        assert_eq!((row.pipe_ratio, row.pipe_p99_ratio), ([2.0, 0.5], [2.0, 0.5]));
        assert_eq!(row.pipe_rate_ratio, [1.0, 1.0]);
        assert_eq!(RepeatedRow::of(&runs, Calling::Typed), None);
        assert_eq!(RepeatedRow::of(&[], Calling::Null), None);
    }
}
