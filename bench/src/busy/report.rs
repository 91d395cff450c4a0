//! The cost of calls beside neighbours: plain data, as text, JSON and CSV.
//!
//! Invariant: a load that was not measured is in the report, with the reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::busy::crowd::CrowdFigures;
use crate::busy::figures::{BusyLoad, BusyRow};
use crate::{CpuPair, Load, Machine, Origin, Result, Slice};

/// The figures of a run beside neighbours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusyReport {
    /// The version of the form of the JSON, as for [`Report`](crate::Report).
    pub schema: u32,
    /// The program and its flags.
    #[serde(flatten)]
    pub origin: Origin,
    /// True if the run was interrupted, so that loads are missing.
    pub is_partial: bool,
    /// The machine and the moment.
    pub machine: Machine,
    /// Other work on the machine before the start.
    pub load: Load,
    /// The CPUs of the two sides.
    #[serde(flatten)]
    pub cpus: CpuPair,
    /// True when the harness was compiled with optimization; figures are not valid otherwise.
    pub is_optimized: bool,
    /// The slice of the scheduler.
    pub slice: Option<Slice>,
    /// The length of the whole run in seconds.
    pub elapsed_s: f64,
    /// The loads, in the order of the run.
    pub loads: Vec<BusyLoad>,
    /// Many threads at once.
    pub crowds: Vec<CrowdFigures>,
}

impl BusyReport {
    /// The report as one JSON object on one line, without a final newline.
    ///
    /// # Errors
    /// None is known; the writer of the library could fail.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// The rows of all loads as CSV with a heading.
    ///
    /// # Errors
    /// None is known; the writer of the library could fail.
    pub fn to_csv(&self) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for load in &self.loads {
            for row in &load.rows {
                writer.serialize(Line::of(load, row))?;
            }
        }
        for crowd in &self.crowds {
            for row in &crowd.rows {
                writer.serialize(Line::of(&crowd.as_load(), &row.row))?;
            }
        }
        Ok(writer.into_inner()?)
    }
}

/// One line of CSV.
#[derive(Debug, PartialEq, Serialize)]
struct Line {
    load: String,
    row: String,
    turns: usize,
    turn_ms: f64,
    calls: u64,
    calls_per_s: f64,
    p50_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    max_ns: u64,
    caller_cpu_ns: f64,
    server_cpu_ns: f64,
    idle_ratio: Option<f64>,
    pipe_ratio: Option<f64>,
    futex_ratio: Option<f64>,
}

impl Line {
    fn of(load: &BusyLoad, row: &BusyRow) -> Line {
        Line {
            load: load.name.clone(),
            row: row.name.clone(),
            turns: load.turns,
            turn_ms: load.turn_ms,
            calls: row.calls,
            calls_per_s: row.calls_per_s,
            p50_ns: row.p50_ns,
            p99_ns: row.p99_ns,
            p99_9_ns: row.p99_9_ns,
            max_ns: row.max_ns,
            caller_cpu_ns: row.caller_cpu_ns,
            server_cpu_ns: row.server_cpu_ns,
            idle_ratio: row.idle_ratio,
            pipe_ratio: row.pipe_ratio,
            futex_ratio: row.futex_ratio,
        }
    }
}

impl fmt::Display for BusyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "farcall bench --busy: calls beside neighbours that want the CPU, all rows in turns"
        )?;
        writeln!(f, "machine  {}", self.machine.processors())?;
        writeln!(f, "moment   {}, {}", self.machine.moment(), self.origin.program())?;
        let slice = self.slice.map_or_else(|| "unknown".to_owned(), |slice| slice.to_string());
        writeln!(f, "slice    {slice}")?;
        writeln!(
            f,
            "units    ns per call; CPU: both processes, user and system; x: p50 by p50, \"x idle\" by"
        )?;
        writeln!(
            f,
            "         that of the same row and CPUs without neighbours; {:.1} s",
            self.elapsed_s
        )?;
        if self.is_partial {
            writeln!(f, "WARNING  partial: the run was interrupted, loads are missing")?;
        }
        if !self.is_optimized {
            writeln!(
                f,
                "WARNING  compiled without optimization: build with --release for figures"
            )?;
        }
        if let Some(warning) = self.load.warning() {
            writeln!(f, "WARNING  {warning}")?;
        }
        for load in &self.loads {
            write!(f, "\n{load}")?;
        }
        for crowd in &self.crowds {
            write!(f, "\n{crowd}")?;
        }
        Ok(())
    }
}
