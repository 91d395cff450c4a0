//! An LLVM program whose code runs by three executors in turns: farcall's, LLVM's own, and the program itself.
//!
//! Invariant: one process makes all figures of a round, by the same operations; ratios are taken round by round.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::figures::table::ratio;
use crate::measure::budget::Allowance;
use crate::races::llvm_race::end;
use crate::{Bar, CpuPair, Judged, Result, Spread};

/// The comparison of LLVM's LLJIT by three executors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum LljitReport {
    /// LLVM 22 is not installed on this machine.
    Absent,
    /// LLVM is installed, but the program is not beside the `farcall` command.
    NotBuilt,
    /// The program has failed.
    Refused {
        /// Its complaint.
        why: String,
    },
    /// The program has measured all three.
    Ran {
        /// Processes, each with one round of every executor.
        rounds: usize,
        /// The operations.
        rows: Vec<LljitRow>,
    },
}

/// An operation of LLVM's classes, over the rounds' p50.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LljitRow {
    /// Its name.
    pub name: String,
    /// Microseconds over farcall.
    pub farcall_us: Spread,
    /// Microseconds in the process of the compiler.
    pub in_process_us: Spread,
    /// Microseconds over LLVM's executor, by pipes.
    pub llvm_us: Spread,
    /// farcall's divided by those in process.
    pub by_in_process: Spread,
    /// LLVM's divided by farcall's.
    pub llvm_by_farcall: Spread,
}

/// The program, beside the `farcall` command: `examples/llvm/lljit.cpp`.
const PROGRAM: &str = "lljit";
/// The headers of LLVM 22, without which the program cannot be built.
const HEADERS: &str = "/usr/lib/llvm-22/include/llvm";
/// The executors, in the order of [`Found::us`].
const EXECUTORS: [&str; 3] = ["farcall", "in-process", "llvm"];

/// An operation in one round.
#[derive(Debug, PartialEq)]
struct Found {
    name: String,
    us: [f64; 3],
}

/// Runs the program while `time` allows. `farcall` is the path of the command.
///
/// # Errors
/// When the program cannot be started, or prints no table.
pub(crate) fn race(farcall: &Path, cpus: CpuPair, time: Allowance) -> Result<LljitReport> {
    let program = farcall.with_file_name(PROGRAM);
    if !program.is_file() {
        let is_installed = Path::new(HEADERS).is_dir();
        return Ok(if is_installed { LljitReport::NotBuilt } else { LljitReport::Absent });
    }
    let mut rounds: Vec<Vec<Found>> = Vec::new();
    let mut longest = Duration::ZERO;
    while rounds.is_empty()
        || rounds.len() < time.rounds_max && Instant::now() + longest < time.until
    {
        let started = Instant::now();
        match round(&program, cpus)? {
            Ok(found) => rounds.push(found),
            Err(why) => return Ok(LljitReport::Refused { why }),
        }
        longest = longest.max(started.elapsed());
    }
    let rows = (0..rounds[0].len()).map(|at| row(rounds.iter().filter_map(|round| round.get(at))));
    Ok(LljitReport::Ran { rounds: rounds.len(), rows: rows.collect::<Result<_>>()? })
}

/// One round, in a process of its own; or its complaint.
fn round(program: &Path, cpus: CpuPair) -> Result<std::result::Result<Vec<Found>, String>> {
    // Not pipes: a process that it leaves behind would keep them open.
    let path = |name: &str| {
        std::env::temp_dir().join(format!("farcall-lljit-{name}-{}", std::process::id()))
    };
    let [said, complaint] = ["said", "complaint"].map(path);
    let mut command = Command::new(program);
    command.args(["--rounds", "1", "--calls", "200"]);
    command.args(["--cpus".to_owned(), format!("{},{}", cpus.caller, cpus.server)]);
    command.stdin(Stdio::null());
    command.stdout(std::fs::File::create(&said)?).stderr(std::fs::File::create(&complaint)?);
    let status = end(&mut command);
    let texts = [&said, &complaint].map(std::fs::read_to_string);
    for file in [&said, &complaint] {
        std::fs::remove_file(file)?;
    }
    let [said, complaint] = texts;
    match status? {
        Some(status) if status.success() => read(&said?).map(Ok),
        Some(status) => {
            let complaint = complaint?;
            Ok(Err(complaint.lines().next().map_or_else(|| status.to_string(), str::to_owned)))
        }
        None => Ok(Err("it has not ended in time".to_owned())),
    }
}

/// The table in what the program has printed.
fn read(text: &str) -> Result<Vec<Found>> {
    let mut lines = text.lines().filter(|line| line.starts_with('|')).map(cells);
    let names = lines.next().ok_or("lljit prints no table")?;
    let places = EXECUTORS.map(|name| names.iter().position(|cell| *cell == name));
    // A line of dashes stands below the names.
    lines
        .skip(1)
        .map(|cells| {
            let us = places.map(|place| {
                let (_, median) = cells.get(place?)?.split_once(" / ")?;
                median.parse::<f64>().ok()
            });
            match us {
                [Some(farcall), Some(in_process), Some(llvm)] => {
                    Ok(Found { name: cells[0].to_owned(), us: [farcall, in_process, llvm] })
                }
                _ => Err(format!("lljit prints {cells:?}").into()),
            }
        })
        .collect()
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

fn row<'f>(rounds: impl Iterator<Item = &'f Found> + Clone) -> Result<LljitRow> {
    let spread = |value: fn(&[f64; 3]) -> f64| {
        Spread::of(rounds.clone().map(|found| value(&found.us)).collect()).ok_or("no rounds")
    };
    Ok(LljitRow {
        name: rounds.clone().next().ok_or("no rounds")?.name.clone(),
        farcall_us: spread(|us| us[0])?,
        in_process_us: spread(|us| us[1])?,
        llvm_us: spread(|us| us[2])?,
        by_in_process: spread(|us| us[0] / us[1])?,
        llvm_by_farcall: spread(|us| us[2] / us[0])?,
    })
}

impl LljitReport {
    /// The figures that have bars.
    pub(crate) fn judged(&self) -> Vec<Judged> {
        let LljitReport::Ran { rows, .. } = self else { return Vec::new() };
        rows.iter().flat_map(LljitRow::judged).collect()
    }
}

impl LljitRow {
    fn judged(&self) -> Vec<Judged> {
        let by_in_process = |limit| {
            Judged::new(
                format!("lljit, {} / in process", self.name),
                self.by_in_process,
                Bar::AtMost(limit),
            )
        };
        match self.name.as_str() {
            "callWrapper" => vec![
                by_in_process(3.0),
                Judged::new(
                    "lljit, callWrapper: LLVM's / farcall",
                    self.llvm_by_farcall,
                    Bar::AtLeast(30.0),
                ),
            ],
            "finalize 4K + 4K" => {
                let limit = f64::max(4.0, 1.2 * self.in_process_us.median);
                let name = format!("lljit, {}, us", self.name);
                vec![Judged::new(name, self.farcall_us, Bar::AtMost(limit))]
            }
            "finalize 512K + 512K" => vec![by_in_process(1.2)],
            "link and look up" => vec![by_in_process(1.3)],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for LljitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LljitReport::Absent => {
                writeln!(f, "lljit    LLVM 22: not installed here, no comparison")
            }
            LljitReport::NotBuilt => {
                writeln!(f, "lljit    not beside this command: build examples/llvm, no comparison")
            }
            LljitReport::Refused { why } => writeln!(f, "lljit    fails, no comparison: {why}"),
            LljitReport::Ran { rounds, rows } => {
                writeln!(
                    f,
                    "lljit    LLVM 22's LLJIT by three executors in turns, {rounds} times, us; \
                     / in process; LLVM's / farcall"
                )?;
                for row in rows {
                    let LljitRow { farcall_us, in_process_us, llvm_us, .. } = row;
                    let [by_in_process, llvm_by_farcall] =
                        [row.by_in_process, row.llvm_by_farcall].map(|one| ratio(one.median));
                    writeln!(
                        f,
                        "lljit    {:<29} farcall {:>6.2}, in process {:>6.2}, LLVM's {:>7.2}; \
                         {by_in_process}; {llvm_by_farcall}",
                        row.name, farcall_us.median, in_process_us.median, llvm_us.median
                    )?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
in-process: 3 + 4 = 7
| us, least / median of the rounds' p50 | in-process | llvm | farcall |
|---|--:|--:|--:|
| callWrapper | 0.30 / 0.33 | 60.0 / 64.6 | 0.44 / 0.46 |
| finalize 512K + 512K | 500.00 / 520.00 | 2700.00 / 2800.00 | 50.00 / 60.00 |
";

    #[test]
    fn the_programs_table_is_read_by_the_names_of_executors() {
        let found = read(TABLE).unwrap();
        let first = Found { name: "callWrapper".to_owned(), us: [0.46, 0.33, 64.6] };
        assert_eq!((found.len(), &found[0]), (2, &first));
        assert!(read("no table").is_err());
        assert!(read(&TABLE.replace("farcall", "another")).is_err());
        assert!(read(&TABLE.replace("0.44 / 0.46", "fast")).is_err());
    }

    #[test]
    fn each_operation_is_a_row_with_its_bars() {
        let found = read(TABLE).unwrap();
        let rows = found.iter().map(|found| row([found, found].into_iter()).unwrap()).collect();
        let report = LljitReport::Ran { rounds: 2, rows };
        let text = report.to_string();
        let row = "lljit    callWrapper                   farcall   0.46, in process   0.33, LLVM's   64.60; 1.39; 140\n";
        assert!(text.contains(row), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let judged = report.judged();
        let met: Vec<bool> = judged.iter().map(|one| one.is_met).collect();
        assert_eq!(met, [true; 3], "{judged:?}");
        let json = serde_json::to_string(&report).unwrap();
        let read: LljitReport = serde_json::from_str(&json).unwrap();
        assert_eq!(read.to_string(), text);
    }

    #[test]
    fn a_machine_without_the_program_says_so() {
        let allowance = Allowance { until: Instant::now(), rounds_max: 1 };
        let nowhere = Path::new("/nowhere/farcall");
        let report = race(nowhere, CpuPair { caller: 0, server: 0 }, allowance).unwrap();
        assert!(matches!(report, LljitReport::Absent | LljitReport::NotBuilt), "{report:?}");
        assert!(report.to_string().ends_with(", no comparison\n"), "{report}");
        assert!(report.judged().is_empty());
    }
}
