//! The plan of a run: which rows, how long, and in which order the contests come.
//!
//! Invariant: the child processes of a contest end with it, and only one contest runs at a time.

pub(crate) mod lineup;
mod selection;
pub(crate) mod versus;

use std::iter;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::busy;
use crate::callers::caller::Caller;
use crate::contest::{Contest, PLACES_MAX, Progress, ROUNDS_MIN, RoundKind};
use crate::costs::{hot_swap, idle, in_process, life, removal, start};
use crate::machine::load::Ticks;
use crate::measure::budget::{Allowance, Budget};
use crate::plan::lineup::{RowKind, Servers};
use crate::plan::selection::{Part, Selection};
use crate::processes::peer::Peer;
use crate::races::{lljit_race, llvm_race};
use crate::{Callee, CpuPair, Effort, Load, Machine, Origin, Report, Result, Size, Versus};

/// Each place takes this much of the run at least. Starting a caller, its peer and its executor takes milliseconds, which must
/// be a small part of the run.
const RUN_PER_PLACE: Duration = Duration::from_millis(100);
/// Rounds of the operations beside calls; more add little.
const COST_ROUNDS_MAX: usize = 11;
/// No run is longer.
const DURATION_MAX: Duration = Duration::from_secs(3600 * 24 * 365);

/// The contents of a run.
///
/// The hot contest on two CPUs has the floors, farcall's null call and the rows asked for. The null call is made in both
/// directions, alone and after new code and new data. Two short contests have their own few rows: calls after a rest, and both
/// sides on one CPU. Then come operations beside calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The CPUs of the two sides.
    pub cpus: CpuPair,
    /// Other transports to measure.
    pub versus: Vec<Versus>,
    /// Payloads that farcall and the byte streams among `versus` carry there and back, besides 8 bytes.
    pub sizes: Vec<Size>,
    /// The number of threads that call at once in a row of their own; no such row below two.
    pub threads: usize,
    /// The number of calls in flight over one pipeline, in a row of their own; no such row below two.
    pub in_flight: usize,
    /// The names of the rows and lines to measure, as printed; all if empty. The floors are always measured with a row.
    pub only: Vec<String>,
    /// True if the report judges the figures by the project's own bars.
    pub has_bars: bool,
    /// The length of the run.
    pub effort: Effort,
    /// The `farcall` command, if its `run` is to be compared with LLVM's.
    pub command: Option<PathBuf>,
    /// The program and its flags, for the report.
    pub origin: Origin,
}

impl Plan {
    /// A plan with pipes and Unix sockets, on the first two CPUs that this process may use.
    ///
    /// # Errors
    /// When the kernel does not return the affinity of this thread.
    pub fn new(effort: Effort) -> Result<Plan> {
        Ok(Plan {
            cpus: CpuPair::first_two()?,
            versus: vec![Versus::PIPE, Versus::UNIX],
            sizes: Vec::new(),
            threads: 1,
            in_flight: 0,
            only: Vec::new(),
            has_bars: false,
            effort,
            command: None,
            origin: Origin::new(None, Vec::new()),
        })
    }

    /// Checks the names in [`only`](Self::only) and the CPUs, without starting anything; [`run`](Self::run) does it too.
    ///
    /// # Errors
    /// For a name that no row has, with all names; for a CPU that this process may not use.
    pub fn check(&self) -> Result<()> {
        self.cpus.check()?;
        Selection::new(self).map(drop)
    }

    /// Runs everything, with the calling thread pinned meanwhile. The host's `main` must have called
    /// [`serve_if_child`](crate::serve_if_child) and [`farcall::executor::run_if_spawned`].
    ///
    /// # Errors
    /// - The errors of [`check`](Self::check).
    /// - A child process, its pipes or its memory cannot be made; the first error of a row, with its name.
    /// - A break before anything was measured.
    pub fn run(&self, progress: &mut Progress<'_>) -> Result<Report> {
        let start = Instant::now();
        self.cpus.check()?;
        let chosen = Selection::new(self)?;
        let machine = Machine::read();
        let load = Load::measure(self.cpus, &machine);
        let mut warnings: Vec<_> = load.warning().into_iter().collect();
        let ticks = Ticks::of(self.cpus);
        let mut pinned = Some(self.cpus.pin_caller()?);
        let clock_read_ns = clock_read_ns();
        let Effort { rounds_min, duration } = self.effort;
        let shares: Vec<_> = chosen.parts.iter().map(|part| part.share()).collect();
        let mut budget = Budget::new(start, duration.min(DURATION_MAX), &shares);

        let mut servers = Some((Peer::start(self.cpus)?, Callee::start(self.cpus)?));
        let mut report = Report::new(self.origin.clone(), machine, load, self.cpus);
        report.clock_read_ns = clock_read_ns;
        for &part in &chosen.parts {
            let allowance = Allowance { until: budget.next(), rounds_max: COST_ROUNDS_MAX };
            // A break ends the part and the run.
            if report.is_partial {
                break;
            }
            let is_partial = &mut report.is_partial;
            let mut step = || {
                let flow = progress(part.title(), budget.share());
                *is_partial |= flow.is_break();
                flow
            };
            if step().is_break() {
                break;
            }
            if let Part::Llvm | Part::Lljit = part {
                // Commands are not pinned, or pin themselves. These parts are the last ones.
                (servers, pinned) = (None, None);
                let Some(farcall) = &self.command else { continue };
                match part {
                    Part::Llvm => {
                        report.llvm = Some(llvm_race::empty_program(farcall, allowance)?);
                    }
                    _ => report.lljit = Some(lljit_race::race(farcall, self.cpus, allowance)?),
                }
                continue;
            }
            let Some((peer, callee)) = &servers else { break };
            let contest = match part {
                Part::Hot => Some((self.hot(&chosen.hot, peer, callee)?, rounds_min)),
                Part::OneCpu => Some((self.one_cpu(&chosen.one_cpu)?, rounds_min.min(ROUNDS_MIN))),
                Part::Cold => {
                    Some((self.cold(&chosen.cold, peer, callee)?, rounds_min.min(ROUNDS_MIN)))
                }
                _ => None,
            };
            if let Some((contest, rounds_min)) = contest {
                let until = allowance.until;
                let sections = contest.run(rounds_min, until, clock_read_ns, &mut step)?;
                report.sections.extend(sections);
                continue;
            }
            match part {
                Part::Hot | Part::OneCpu | Part::Cold | Part::Llvm | Part::Lljit => {}
                Part::Removal => report.removal = Some(removal::measure(callee, peer, allowance)?),
                Part::Life => report.life = Some(life::measure(callee, allowance)?),
                Part::HotSwap => report.hot_swap = Some(hot_swap::measure(callee, allowance)?),
                Part::InProcess => report.in_process = Some(in_process::measure(allowance)?),
                Part::Start => report.start = Some(start::measure(self.cpus, allowance)?),
                Part::Busy => {
                    report.busy = Some(busy::plan::measure_briefly(self.cpus, allowance)?)
                }
                Part::Idle => report.idle = Some(idle::measure(callee, allowance)?),
            }
        }
        drop((servers, pinned));
        if report.is_empty() {
            return Err("interrupted before anything was measured".into());
        }
        warnings.extend(ticks.warning(&Ticks::of(self.cpus)));
        if self.has_bars {
            report.judge();
        }
        report.elapsed_s = start.elapsed().as_secs_f64();
        report.warn(warnings);
        Ok(report)
    }

    /// Calls back to back on two CPUs.
    ///
    /// Rows that poll for a few hundred nanoseconds at most have their callers and servers in many processes; for the others
    /// one pair is enough.
    fn hot(&self, rows: &[RowKind], peer: &Rc<Peer>, callee: &Callee) -> Result<Contest> {
        let callers = iter::repeat_with(|| Caller::start(&self.cpus.into())).take(self.places());
        let callers = callers.collect::<Result<Vec<_>>>()?;
        self.contest(RoundKind::Hot, rows, &Servers { cpus: self.cpus, callers, peer, callee })
    }

    /// The number of caller processes, where the code of the hot contest's rows lies at addresses of its own.
    fn places(&self) -> usize {
        let Effort { rounds_min, duration } = self.effort;
        let by_time = duration.as_millis() / RUN_PER_PLACE.as_millis();
        let by_time = usize::try_from(by_time).unwrap_or(PLACES_MAX);
        rounds_min.max(by_time).clamp(1, PLACES_MAX)
    }

    /// Calls back to back with both sides on the caller's CPU.
    fn one_cpu(&self, rows: &[RowKind]) -> Result<Contest> {
        let cpus = CpuPair { server: self.cpus.caller, ..self.cpus };
        let (peer, callee) = (&Peer::start(cpus)?, &Callee::start(cpus)?);
        self.contest(RoundKind::Hot, rows, &Servers { cpus, callers: Vec::new(), peer, callee })
    }

    /// Single calls after a rest.
    fn cold(&self, rows: &[RowKind], peer: &Rc<Peer>, callee: &Callee) -> Result<Contest> {
        let (cpus, callers) = (self.cpus, Vec::new());
        self.contest(RoundKind::Cold, rows, &Servers { cpus, callers, peer, callee })
    }

    fn contest(
        &self,
        round_kind: RoundKind,
        rows: &[RowKind],
        servers: &Servers<'_>,
    ) -> Result<Contest> {
        let mut contest = Contest::new(servers.cpus, round_kind, self.has_bars);
        for row in rows {
            contest.enter(row.start(servers, self.in_flight)?);
        }
        Ok(contest)
    }
}

/// The cost of one clock read, from many in a row.
fn clock_read_ns() -> f64 {
    const READS: u32 = 20_000;
    let start = Instant::now();
    let mut last = start;
    for _ in 0..READS {
        last = Instant::now();
    }
    (last - start).as_secs_f64() * 1e9 / f64::from(READS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_no_more_places_than_it_uses() {
        for (rounds_min, millis, places) in [
            (0, 0, 1),
            (1, 0, 1),
            (5, 0, 5),
            (20, 500, 16),
            (1, 1_200, 12),
            (200, 0, 16),
            (1, 1 << 40, 16),
        ] {
            let effort = Effort { rounds_min, duration: Duration::from_millis(millis) };
            let plan = Plan::new(effort).unwrap();
            assert_eq!(plan.places(), places, "{rounds_min} rounds, {millis} ms");
        }
    }

    #[test]
    fn a_cpu_that_there_is_not_is_refused_before_anything_starts() {
        let effort = Effort { rounds_min: 1, duration: Duration::ZERO };
        let mut plan = Plan::new(effort).unwrap();
        plan.cpus.server = 999_999;
        assert!(plan.check().unwrap_err().to_string().starts_with("CPU 999999: "));
    }
}
