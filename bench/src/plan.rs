//! The plan of a run: which rows, how long, and in which order the contests come.
//!
//! Invariant: the child processes of a contest end with it, and only one contest runs at a time.

use std::iter;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::caller::{Caller, Calling};
use crate::contest::{Contest, Effort, Pace};
use crate::copy::BareCopy;
use crate::eventfd::Eventfd;
use crate::floor::{OneLine, TwoLines};
use crate::futex::Futex;
use crate::in_flight::InFlight;
use crate::kernel::Echo;
use crate::local::Local;
use crate::peer::Peer;
use crate::threads::Threads;
use crate::{
    Callee, CpuPair, EchoCall, Machine, Report, Result, Size, Versus, idle, life, llvm_race,
    removal, swap,
};

/// Rounds of a contest that says something.
const ROUNDS_MIN: usize = 20;
/// More places than this add little.
const PLACES_MAX: usize = 16;
/// How much of a run there is for each place beyond those that its least rounds have: starting a caller, its peer and its
/// executor, which takes some milliseconds, is to be a small part of it.
const RUN_PER_PLACE: Duration = Duration::from_millis(100);

/// What a run measures.
///
/// The hot contest on two CPUs has the floors, the null call of farcall in both directions, alone and after new code and
/// new data, and the rows asked for. A short contest of calls after a rest, and one with both sides on one CPU, have their own few rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Where the two sides run.
    pub cpus: CpuPair,
    /// What else makes round trips.
    pub versus: Vec<Versus>,
    /// Payloads that farcall and the byte streams among `versus` carry there and back, besides 8 bytes.
    pub sizes: Vec<Size>,
    /// How many threads call at once in a row of their own; no such row below two.
    pub threads: usize,
    /// How many calls are under way at a time in a row of their own, over a pipeline; no such row below two.
    pub in_flight: usize,
    /// How many rounds the hot contest has at least, and how long the run takes about.
    pub effort: Effort,
    /// The `farcall` command, if its `run` is to be compared with LLVM's.
    pub command: Option<PathBuf>,
}

impl Plan {
    /// A plan with pipes and Unix sockets.
    ///
    /// # Errors
    /// When the kernel does not tell which CPUs there are.
    pub fn new(effort: Effort) -> Result<Plan> {
        let (versus, sizes) = (vec![Versus::Pipe, Versus::Unix], Vec::new());
        let (cpus, command) = (CpuPair::first_two()?, None);
        Ok(Plan { cpus, versus, sizes, threads: 1, in_flight: 0, effort, command })
    }

    /// Runs everything, with the calling thread pinned meanwhile. Tells `progress` what is being measured and how much of
    /// the run is over, from 0 to 1. The host's `main` must have called [`serve_if_child`](crate::serve_if_child) and
    /// [`farcall::executor::run_if_spawned`].
    ///
    /// # Errors
    /// When a child process, its pipes or its memory cannot be made; the first error of a row, with its name.
    pub fn run(&self, progress: &mut dyn FnMut(&'static str, f64)) -> Result<Report> {
        let machine = Machine::read();
        let start = Instant::now();
        let pinned = self.cpus.pin_caller()?;
        let clock_read_ns = clock_read_ns();
        let Effort { rounds_min, duration_min } = self.effort;
        let mut run = |contest: Contest, name, (from, to): (f64, f64), rounds_min| {
            let duration_min = duration_min.mul_f64(to - from);
            let mut progress = |share: f64| progress(name, from + share * (to - from));
            contest.run(Effort { rounds_min, duration_min }, clock_read_ns, &mut progress)
        };

        let peer = Peer::start(self.cpus)?;
        let callee = Callee::start(self.cpus)?;
        let mut sections = run(self.hot(&peer, &callee)?, "hot calls", (0.0, 0.8), rounds_min)?;
        let few = rounds_min.min(ROUNDS_MIN);
        if !self.cpus.is_shared() {
            sections.extend(run(self.one_cpu()?, "one CPU", (0.8, 0.9), few)?);
        }
        sections.extend(run(self.cold(&peer, &callee)?, "cold calls", (0.9, 1.0), few)?);
        progress("removal", 1.0);
        let removal = removal::look(&callee, &peer)?;
        progress("links", 1.0);
        let life = life::look(&callee)?;
        progress("swap", 1.0);
        let swap = swap::look(&callee)?;
        progress("idle CPU", 1.0);
        let idle = idle::look(&callee)?;
        // Commands run where they like.
        drop((callee, peer, pinned));
        progress("LLVM", 1.0);
        let race = |farcall: &PathBuf| llvm_race::empty_program(farcall, ROUNDS_MIN);
        let llvm = self.command.as_ref().map(race).transpose()?;
        Ok(Report {
            machine,
            cpus: self.cpus,
            is_optimized: !cfg!(debug_assertions),
            elapsed: start.elapsed(),
            clock_read_ns,
            sections,
            removal,
            life,
            swap,
            idle,
            llvm,
        })
    }

    /// Calls back to back on two CPUs.
    ///
    /// Rows that poll for a few hundred nanoseconds at most have their callers and servers in many processes; for the others
    /// one pair says enough.
    fn hot(&self, peer: &Rc<Peer>, callee: &Callee) -> Result<Contest> {
        let callers = iter::repeat_with(|| Caller::start(self.cpus)).take(self.places());
        let callers = callers.collect::<Result<Vec<_>>>()?;
        let mut contest = Contest::new(self.cpus, Pace::Hot);
        let everywhere = |contest: &mut Contest, calling| {
            contest.enter_places(callers.iter().map(|caller| caller.row(calling)))
        };
        everywhere(&mut contest, Calling::TwoLines)?;
        everywhere(&mut contest, Calling::OneLine)?;
        everywhere(&mut contest, Calling::Null)?;
        everywhere(&mut contest, Calling::CallBack)?;
        everywhere(&mut contest, Calling::NestedRound)?;
        if self.threads > 1 {
            contest.enter(Threads::new(callee, self.threads)?);
        }
        if self.in_flight > 1 {
            contest.enter(InFlight::new(callee, self.in_flight)?);
        }
        everywhere(&mut contest, Calling::Code)?;
        everywhere(&mut contest, Calling::Data)?;
        for &size in &self.sizes {
            if size <= Size::PAGE {
                everywhere(&mut contest, Calling::Echo(size))?;
            } else {
                contest.enter(EchoCall::new(callee, size)?);
            }
            contest.enter(BareCopy::new(peer, size)?);
        }
        for &versus in &self.versus {
            match versus {
                // As the null call that it is compared with.
                Versus::Spin => everywhere(&mut contest, Calling::Spin)?,
                other => self.enter(&mut contest, other, peer)?,
            }
        }
        Ok(contest)
    }

    /// At how many places the code of the hot contest's rows lies, as far as it lies at more than one.
    fn places(&self) -> usize {
        let Effort { rounds_min, duration_min } = self.effort;
        let by_time = duration_min.as_millis() / RUN_PER_PLACE.as_millis();
        let by_time = usize::try_from(by_time).unwrap_or(PLACES_MAX);
        rounds_min.max(by_time).clamp(1, PLACES_MAX)
    }

    fn enter(&self, contest: &mut Contest, versus: Versus, peer: &Rc<Peer>) -> Result<()> {
        match versus {
            Versus::Pipe => self.enter_stream(contest, |size| Echo::over_pipes(peer, size))?,
            Versus::Unix => {
                self.enter_stream(contest, |size| Echo::over_unix_stream(peer, size))?
            }
            Versus::Tcp => self.enter_stream(contest, |size| Echo::over_tcp(peer, size))?,
            Versus::Futex => contest.enter(Futex::new(peer)?),
            Versus::Eventfd => contest.enter(Eventfd::new(peer)?),
            Versus::Local => contest.enter(Local::new(self.cpus)?),
            // In the caller processes.
            Versus::Spin => {}
            #[cfg(feature = "iceoryx2")]
            Versus::Iceoryx => contest.enter(crate::iceoryx::Iceoryx::new(peer)?),
            #[cfg(feature = "shaq")]
            Versus::Shaq => contest.enter(crate::shaq::Shaq::new(peer, self.in_flight.max(1))?),
        }
        Ok(())
    }

    /// A byte stream carries every size.
    fn enter_stream(
        &self,
        contest: &mut Contest,
        echo: impl Fn(Size) -> Result<Echo>,
    ) -> Result<()> {
        for size in [&[Size::WORD], &*self.sizes].concat() {
            contest.enter(echo(size)?);
        }
        Ok(())
    }

    /// Calls back to back with both sides on the caller's CPU.
    fn one_cpu(&self) -> Result<Contest> {
        let cpus = CpuPair { server: self.cpus.caller, ..self.cpus };
        let peer = Peer::start(cpus)?;
        let mut contest = Contest::new(cpus, Pace::Hot);
        contest.enter(TwoLines::new(&peer)?);
        contest.enter(OneLine::new(&peer)?);
        contest.enter(Callee::start(cpus)?.null_call());
        contest.enter(Futex::new(&peer)?);
        contest.enter(Echo::over_pipes(&peer, Size::WORD)?);
        Ok(contest)
    }

    /// Single calls after a rest.
    fn cold(&self, peer: &Rc<Peer>, callee: &Callee) -> Result<Contest> {
        let mut contest = Contest::new(self.cpus, Pace::Cold);
        contest.enter(callee.null_call());
        contest.enter(Futex::new(peer)?);
        contest.enter(Echo::over_pipes(peer, Size::WORD)?);
        contest.enter(Echo::over_unix_stream(peer, Size::WORD)?);
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
    fn a_long_run_has_many_places_and_a_short_one_no_more_than_it_uses() {
        for (rounds_min, millis, places) in [
            (0, 0, 1),
            (1, 0, 1),
            (5, 0, 5),
            (20, 500, 16),
            (1, 1_200, 12),
            (200, 0, 16),
            (1, 1 << 40, 16),
        ] {
            let effort = Effort { rounds_min, duration_min: Duration::from_millis(millis) };
            let plan = Plan::new(effort).unwrap();
            assert_eq!(plan.places(), places, "{rounds_min} rounds, {millis} ms");
        }
    }
}
