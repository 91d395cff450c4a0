//! The plan of a run beside neighbours: which loads, which rows, how long.
//!
//! Invariant: one load at a time, and its processes are gone before the next one starts.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::busy::crowd::Crowd;
use crate::busy::figures::{Busy, BusyLoad, BusyRow};
use crate::busy::neighbours::Neighbours;
use crate::busy::report::BusyReport;
use crate::callers::caller::Caller;
use crate::callers::calling::Calling;
use crate::callers::turn::Turn;
use crate::contest::{Progress, shuffled};
use crate::measure::budget::{Allowance, Budget, Share};
use crate::{CpuPair, Load, Machine, Origin, Result, SCHEMA, Size, Slice};

/// The rows under each load.
const ROWS: [Calling; 11] = [
    Calling::Null,
    Calling::Typed,
    Calling::NestedRound,
    Calling::Echo(Size::PAGE),
    Calling::Burst,
    Calling::Cold,
    Calling::ColdPipe,
    Calling::Futex,
    Calling::Pipe,
    Calling::Unix,
    Calling::TwoLines,
];
/// The rows that others are compared with under the same load.
pub(crate) const UNITS: [Calling; 2] = [Calling::Futex, Calling::Pipe];
/// Turns of each row, if the time allows it.
const TURNS: u32 = 4;
/// A turn of this length has met several slices; a longer one adds little.
const TURN_MAX: Duration = Duration::from_millis(250);
/// A turn is at least this long, however short the run is.
const TURN_MIN: Duration = Duration::from_millis(2);
/// The start of a load's processes, and their end.
const START: Duration = Duration::from_millis(60);

/// A run beside neighbours.
#[derive(Debug, Clone, PartialEq)]
pub struct BusyPlan {
    /// The CPUs of the two sides.
    pub cpus: CpuPair,
    /// The names of the loads; all if empty.
    pub loads: Vec<String>,
    /// The names of the rows; all if empty. The pipe and the futex are always measured, as they are the units.
    pub only: Vec<String>,
    /// The length of the whole run.
    pub duration: Duration,
    /// The program and its flags, for the report.
    pub origin: Origin,
}

/// A part of a run.
#[derive(Debug, Clone, Copy)]
enum Part {
    Load(Neighbours),
    Crowd(Crowd),
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Load(load) => load.name,
            Part::Crowd(crowd) => crowd.name,
        }
    }
}

impl BusyPlan {
    /// All loads and rows, on the first two CPUs that this process may use.
    ///
    /// # Errors
    /// When the kernel does not return the affinity of this thread.
    pub fn new(duration: Duration) -> Result<BusyPlan> {
        Ok(BusyPlan {
            cpus: CpuPair::first_two()?,
            loads: Vec::new(),
            only: Vec::new(),
            duration,
            origin: Origin::new(None, Vec::new()),
        })
    }

    /// Checks the names and the CPUs, without starting anything; [`run`](Self::run) does it too.
    ///
    /// # Errors
    /// For a name that no load or row has, with all names; for a CPU that this process may not use.
    pub fn check(&self) -> Result<()> {
        self.cpus.check()?;
        self.parts()?;
        rows(&self.only).map(drop)
    }

    fn parts(&self) -> Result<Vec<Part>> {
        let all = Neighbours::ALL.map(Part::Load).into_iter().chain(Crowd::ALL.map(Part::Crowd));
        let all: Vec<_> = all.collect();
        let names: Vec<_> = all.iter().map(|part| part.name()).collect();
        chosen(&self.loads, &names, "load")?;
        let is_wanted = |part: &Part| self.loads.is_empty() || is_among(&self.loads, part.name());
        Ok(all.into_iter().filter(is_wanted).collect())
    }

    /// Runs each load in turn. The host's `main` must have called [`serve_if_child`](crate::serve_if_child) and
    /// [`farcall::executor::run_if_spawned`].
    ///
    /// # Errors
    /// - The errors of [`check`](Self::check).
    /// - A child process cannot be made; the first error of a row, with its name.
    /// - A break before anything was measured.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<BusyReport> {
        let start = Instant::now();
        self.cpus.check()?;
        let (parts, rows) = (self.parts()?, rows(&self.only)?);
        let machine = Machine::read();
        let load = Load::measure(self.cpus, &machine);
        let slice = Slice::read(self.cpus);
        let shares = vec![Share { least: START, weight: 1.0 }; parts.len()];
        let mut budget = Budget::new(start, self.duration, &shares);
        let mut report = BusyReport {
            schema: SCHEMA,
            origin: self.origin.clone(),
            is_partial: false,
            machine,
            load,
            cpus: self.cpus,
            is_optimized: !cfg!(debug_assertions),
            slice,
            elapsed_s: 0.0,
            loads: Vec::new(),
            crowds: Vec::new(),
        };
        for part in parts {
            let until = budget.next();
            let mut step = || progress(part.name(), budget.share());
            let flow = match part {
                Part::Load(load) => {
                    let (figures, flow) = measure(load, self.cpus, &rows, until, &mut step)?;
                    report.loads.push(figures);
                    flow
                }
                Part::Crowd(crowd) => {
                    report.crowds.push(crowd.measure(self.cpus, until)?);
                    step()
                }
            };
            if flow.is_break() {
                report.is_partial = true;
                break;
            }
        }
        compare_with_idle(&mut report.loads);
        report.elapsed_s = start.elapsed().as_secs_f64();
        Ok(report)
    }
}

/// A few rows beside a busy loop on each CPU, and beside one on a single CPU, for the report of all parts.
///
/// # Errors
/// A process cannot be made; the first error of a row, with its name.
pub(crate) fn measure_briefly(cpus: CpuPair, time: Allowance) -> Result<Busy> {
    let rows = [&[Calling::Null], &UNITS[..]].concat();
    let mut step = || ControlFlow::Continue(());
    let loads = [(Neighbours::EACH, 2), (Neighbours::ONE_CPU, 1)];
    let loads = loads
        .map(|(load, left)| Ok(measure(load, cpus, &rows, time.part(left).until, &mut step)?.0));
    Ok(Busy { loads: loads.into_iter().collect::<Result<_>>()? })
}

/// The rows with these names, and the units; all rows if there is no name.
///
/// # Errors
/// For a name that no row has, with all names.
pub(crate) fn rows(only: &[String]) -> Result<Vec<Calling>> {
    let names: Vec<_> = ROWS.iter().map(|row| row.name()).collect();
    chosen(only, &names, "row")?;
    let is_named = |row: &Calling| only.is_empty() || is_among(only, &row.name());
    let is_unit = |row: &Calling| ROWS.iter().any(|one| is_named(one) && one.units().1 == *row);
    let is_wanted = |row: &Calling| is_named(row) || UNITS.contains(row) || is_unit(row);
    Ok(ROWS.into_iter().filter(is_wanted).collect())
}

fn is_among(wanted: &[String], name: &str) -> bool {
    wanted.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(name))
}

/// An error with all `names` for a wanted name that is not among them.
pub(crate) fn chosen(wanted: &[String], names: &[impl AsRef<str>], kind: &str) -> Result<()> {
    let names: Vec<_> = names.iter().map(AsRef::as_ref).collect();
    let is_known = |one: &&String| names.iter().any(|name| name.eq_ignore_ascii_case(one.trim()));
    match wanted.iter().find(|one| !is_known(one)) {
        None => Ok(()),
        Some(wrong) => {
            let names = names.join(", ");
            Err(format!("{wrong}: no {kind} has this name; there are: {names}").into())
        }
    }
}

/// The figures of `rows` under one load, in turns until `until`, with one round at least. A break ends the rounds.
///
/// # Errors
/// A process cannot be made; the first error of a row, with its name.
pub(crate) fn measure(
    load: Neighbours,
    cpus: CpuPair,
    rows: &[Calling],
    until: Instant,
    progress: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<(BusyLoad, ControlFlow<()>)> {
    let description = load.description(cpus);
    let mut figures = BusyLoad {
        name: load.name.to_owned(),
        description,
        skipped: None,
        turns: 0,
        turn_ms: 0.0,
        rows: Vec::new(),
    };
    let neighbourhood = match load.start(cpus) {
        Ok(neighbourhood) => neighbourhood,
        Err(why) => {
            figures.skipped = Some(why);
            return Ok((figures, progress()));
        }
    };
    let caller = Caller::start(&neighbourhood.placement)?;
    let started = rows.iter().map(|&row| caller.row(row)).collect::<Result<Vec<_>>>()?;
    let count = u32::try_from(rows.len())?;
    let left = until.saturating_duration_since(Instant::now());
    let length = (left / (count * TURNS).max(1)).clamp(TURN_MIN, TURN_MAX);
    let mut turns = vec![Turn::none(); rows.len()];
    let mut flow = ControlFlow::Continue(());
    while flow.is_continue() && (figures.turns == 0 || Instant::now() + length * count <= until) {
        for index in shuffled(rows.len(), figures.turns) {
            turns[index].add(&started[index].turn(length)?);
        }
        figures.turns += 1;
        flow = progress();
    }
    figures.turn_ms = length.as_secs_f64() * 1e3;
    figures.rows = rows.iter().zip(&turns).map(|(&row, turn)| BusyRow::of(row, turn)).collect();
    let measured = figures.clone();
    for (kind, row) in rows.iter().zip(&mut figures.rows) {
        let (futex, pipe) = kind.units();
        row.futex_ratio = row.ratio_to(futex.and_then(|unit| measured.row(&unit.name())));
        row.pipe_ratio = row.ratio_to(measured.row(&pipe.name()));
    }
    Ok((figures, flow))
}

/// Compares each row with the same row under the load without neighbours, if that was measured.
fn compare_with_idle(loads: &mut [BusyLoad]) {
    let kind = |load: &BusyLoad| Neighbours::ALL.into_iter().find(|one| one.name == load.name);
    let idle: Vec<_> = loads.iter().filter_map(|load| Some((kind(load)?, load.clone()))).collect();
    for load in loads {
        let Some(of) = kind(load) else { continue };
        let found = idle.iter().find(|(one, _)| one.is_idle_of(of));
        for row in &mut load.rows {
            row.idle_ratio = row.ratio_to(found.and_then(|(_, idle)| idle.row(&row.name)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::busy::figures::tests::load;

    fn plan(loads: &[&str], only: &[&str]) -> BusyPlan {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let plan = BusyPlan::new(Duration::ZERO).unwrap();
        BusyPlan { loads: owned(loads), only: owned(only), ..plan }
    }

    #[test]
    fn all_loads_run_unless_some_are_named() {
        assert_eq!(plan(&[], &[]).parts().unwrap().len(), Neighbours::ALL.len() + Crowd::ALL.len());
        let some = plan(&["Idle", "threads-8"], &[]).parts().unwrap();
        assert_eq!(some.iter().map(|part| part.name()).collect::<Vec<_>>(), ["idle", "threads-8"]);
        let error = plan(&["each-3"], &[]).check().unwrap_err().to_string();
        let due = "each-3: no load has this name; there are: idle, caller-1, executor-1, each-1, ";
        assert!(error.starts_with(due), "{error}");
    }

    #[test]
    fn the_units_are_measured_with_each_row() {
        let names = |only: &[&str]| {
            let rows = rows(&plan(&[], only).only).unwrap();
            rows.into_iter().map(Calling::name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]).len(), ROWS.len());
        assert_eq!(names(&["Null Call"]), ["null call", "futex", "pipe pair"]);
        let error = plan(&[], &["fax"]).check().unwrap_err().to_string();
        assert!(error.starts_with("fax: no row has this name; there are: null call, "), "{error}");
    }

    #[test]
    fn a_row_is_compared_with_itself_without_neighbours() {
        let mut loads = [
            load("idle", &[("null call", 200), ("futex", 40_000)]),
            load("each-1", &[("null call", 1_000), ("pipe pair", 40_000)]),
            load("one-cpu-1", &[("null call", 3_000)]),
        ];
        compare_with_idle(&mut loads);
        let ratios =
            |load: &BusyLoad| load.rows.iter().map(|row| row.idle_ratio).collect::<Vec<_>>();
        assert_eq!(ratios(&loads[0]), [Some(1.0), Some(1.0)]);
        assert_eq!(ratios(&loads[1]), [Some(5.0), None]);
        assert_eq!(ratios(&loads[2]), [None]);
    }
}
