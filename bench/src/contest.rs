//! The contest: every row in every round, block against block.
//!
//! Invariant: a call that is timed or sampled follows at least one warm-up call of the same block,
//! so no sleeper's wake and no order to a server lies inside a figure (except where the wake is the
//! call).

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::floor::{OneLine, TwoLines};
use crate::kernel::Echo;
use crate::peer::Peer;
use crate::report::{Regime, Report, Row, Section};
use crate::spread::{Spread, median_ns};
use crate::{Callee, Contender, CpuPair, Machine, Result};

/// How long a block is meant to take.
const BLOCK: Duration = Duration::from_millis(1);
/// Calls of a block at most, for rows that hardly take any time.
const CALLS_MAX: u32 = 1 << 18;
/// Samples above this are recorded as this.
const SAMPLE_NS_MAX: u64 = 60_000_000_000;
const REGIMES: [Regime; 3] = [Regime::Near, Regime::Far, Regime::OneCpu];

/// How much to measure: rounds are run until both are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// At least this many rounds, and at least one.
    pub rounds_min: usize,
    /// At least this long.
    pub duration_min: Duration,
}

/// Contenders that run against each other on two CPUs. Stays on the thread that made it.
///
/// Seven rows are always there: the two-line and the one-line floor, to which all rows are reported
/// as ratios; the null call of farcall, alone and after new code and new data; a pipe pair and a
/// Unix stream socket. Their servers live in two child processes, the executor and the peer for all
/// others, which end with the contest.
pub struct Contest {
    cpus: CpuPair,
    entries: Vec<Entry>,
}

impl Contest {
    /// A contest with the standard rows. The host's `main` must have called
    /// [`serve_if_child`](crate::serve_if_child) and [`farcall::executor::serve_if_asked`].
    ///
    /// # Errors
    /// When a child process, its pipes or its memory cannot be made.
    pub fn new(cpus: CpuPair) -> Result<Contest> {
        let peer = Peer::start(cpus)?;
        let mut contest = Contest { cpus, entries: Vec::new() };
        contest.enter(TwoLines::new(&peer)?);
        contest.enter(OneLine::new(&peer)?);
        let callee = Callee::start(cpus)?;
        contest.enter(callee.null_call());
        contest.enter(callee.code_call());
        contest.enter(callee.data_call());
        contest.enter(Echo::over_pipes(&peer)?);
        contest.enter(Echo::over_unix_stream(&peer)?);
        Ok(contest)
    }

    /// Adds a row. A contender with a server of its own pins that with [`CpuPair::pin_server`]
    /// itself.
    pub fn enter(&mut self, contender: impl Contender + 'static) {
        self.entries.push(Entry::new(Box::new(contender)));
    }

    /// Runs the rounds, with the calling thread pinned meanwhile, and reports them.
    ///
    /// # Errors
    /// The first error of a contender, with its name; the contest is of no use then.
    pub fn run(mut self, effort: Effort) -> Result<Report> {
        let machine = Machine::read();
        let _pinned = self.cpus.pin_caller()?;
        let clock_read_ns = clock_read_ns();
        for entry in &mut self.entries {
            entry.named(Entry::calibrate)?;
        }
        let start = Instant::now();
        let mut rounds = 0;
        while rounds == 0 || rounds < effort.rounds_min || start.elapsed() < effort.duration_min {
            self.round(rounds, clock_read_ns)?;
            rounds += 1;
        }
        let elapsed = start.elapsed();
        let section = |regime: Regime| {
            let tallies = self.entries.iter().map(|entry| (entry, &entry.tallies[regime as usize]));
            let rows: Vec<Row> =
                tallies.filter_map(|(entry, tally)| tally.row(entry.contender.name())).collect();
            let rounds = self.entries.first()?.tallies[regime as usize].block_ns.len();
            (rounds > 0).then_some(Section { regime, rounds, rows })
        };
        Ok(Report {
            machine,
            cpus: self.cpus,
            is_optimized: !cfg!(debug_assertions),
            rounds,
            elapsed,
            clock_read_ns,
            sections: REGIMES.into_iter().filter_map(section).collect(),
        })
    }

    /// One block of every row, in an order of its own: a process that has used up its share of a CPU loses it at about
    /// the same place of every round, and that must not be the same row's block.
    fn round(&mut self, number: usize, clock_read_ns: f64) -> Result<()> {
        for turn in shuffled(self.entries.len(), number) {
            self.entries[turn].named(Entry::block)?;
        }
        let regime = self.regime(clock_read_ns);
        let floors_ns = [self.entries[0].block_ns, self.entries[1].block_ns];
        for entry in &mut self.entries {
            entry.count(regime, floors_ns);
        }
        Ok(())
    }

    /// Judged by the median of single calls: a preempted block cannot make a near round look far.
    fn regime(&mut self, clock_read_ns: f64) -> Regime {
        if self.cpus.is_shared() {
            return Regime::OneCpu;
        }
        let floor_ns = median_ns(&mut self.entries[0].samples_ns).unwrap_or(0);
        if floor_ns as f64 - clock_read_ns <= Regime::NEAR_NS_MAX as f64 {
            Regime::Near
        } else {
            Regime::Far
        }
    }
}

impl std::fmt::Debug for Contest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rows: Vec<_> = self.entries.iter().map(|entry| entry.contender.name()).collect();
        f.debug_struct("Contest").field("cpus", &self.cpus).field("rows", &rows).finish()
    }
}

/// The numbers below `count`, in an order that depends on `seed` alone.
fn shuffled(count: usize, seed: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    let mut state = seed as u64;
    for last in (1..count).rev() {
        // One step of SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let other = usize::try_from(mixed >> 33).unwrap_or(0) % (last + 1);
        order.swap(last, other);
    }
    order
}

/// One row: the contender, its block of the current round, and its tally per regime.
struct Entry {
    contender: Box<dyn Contender>,
    calls: u32,
    block_ns: f64,
    samples_ns: Vec<u64>,
    tallies: [Tally; REGIMES.len()],
}

impl Entry {
    fn new(contender: Box<dyn Contender>) -> Entry {
        let tallies = REGIMES.map(|_| Tally::default());
        Entry { contender, calls: 1, block_ns: 0.0, samples_ns: Vec::new(), tallies }
    }

    /// Finds how many calls make a first block.
    fn calibrate(&mut self) -> Result<()> {
        loop {
            let calls = self.calls;
            self.contender.prepare(1 + calls)?;
            self.contender.run(1)?;
            let took = self.contender.run(calls)?;
            if took >= BLOCK / 2 || calls >= CALLS_MAX {
                self.fit(took.as_secs_f64() * 1e9 / f64::from(calls));
                return Ok(());
            }
            self.calls = calls * 2;
        }
    }

    /// Makes the next block as many calls as fit when one takes `call_ns`.
    fn fit(&mut self, call_ns: f64) {
        let calls = BLOCK.as_secs_f64() * 1e9 / call_ns;
        #[expect(clippy::cast_possible_truncation, reason = "clamped to 1..=CALLS_MAX")]
        let calls = calls.clamp(1.0, f64::from(CALLS_MAX)) as u32;
        self.calls = calls;
        // Growing the samples would lie between two of them.
        self.samples_ns.clear();
        self.samples_ns.reserve(calls as usize);
    }

    /// Warm-up, one timed block, one sampled block.
    fn block(&mut self) -> Result<()> {
        let (calls, warm_up) = (self.calls, self.calls / 8 + 1);
        self.contender.prepare(warm_up + calls + calls)?;
        self.contender.run(warm_up)?;
        self.block_ns = self.contender.run(calls)?.as_secs_f64() * 1e9 / f64::from(calls);
        self.contender.sample(calls, &mut self.samples_ns)
    }

    /// Adds the block of this round to the tally of `regime` and fits the next one; `floors_ns`:
    /// two lines, one line.
    fn count(&mut self, regime: Regime, floors_ns: [f64; 2]) {
        let tally = &mut self.tallies[regime as usize];
        tally.calls += u64::from(self.calls);
        tally.total_ns += self.block_ns * f64::from(self.calls);
        tally.block_ns.push(self.block_ns);
        for (ratios, floor_ns) in tally.ratios.iter_mut().zip(floors_ns) {
            ratios.push(self.block_ns / floor_ns);
        }
        let samples = tally.samples.get_or_insert_with(new_histogram);
        for &sample_ns in &self.samples_ns {
            samples.saturating_record(sample_ns);
        }
        // The faster of the two, because a preempted block says nothing about a call.
        let sampled_ns = median_ns(&mut self.samples_ns).map_or(f64::INFINITY, |ns| ns as f64);
        self.fit(self.block_ns.min(sampled_ns));
    }

    /// Runs `step` with the row's name in front of its errors.
    fn named(&mut self, step: fn(&mut Entry) -> Result<()>) -> Result<()> {
        let done = step(self);
        done.map_err(|error| format!("row \"{}\": {error}", self.contender.name()).into())
    }
}

/// What one row did in the rounds of one regime.
#[derive(Default)]
struct Tally {
    calls: u64,
    total_ns: f64,
    block_ns: Vec<f64>,
    ratios: [Vec<f64>; 2],
    samples: Option<Histogram<u64>>,
}

impl Tally {
    /// The row of this tally; `None` when no round was in its regime.
    fn row(&self, name: &str) -> Option<Row> {
        let samples = self.samples.as_ref()?;
        let [two_line, one_line] = &self.ratios;
        Some(Row {
            name: name.to_owned(),
            two_line_ratio: Spread::of(two_line.clone())?,
            one_line_ratio: Spread::of(one_line.clone())?,
            block_ns: Spread::of(self.block_ns.clone())?,
            mean_ns: self.total_ns / self.calls as f64,
            calls: self.calls,
            samples: samples.len(),
            p50_ns: samples.value_at_quantile(0.5),
            p99_ns: samples.value_at_quantile(0.99),
            p99_9_ns: samples.value_at_quantile(0.999),
            max_ns: samples.max(),
        })
    }
}

/// Three digits between 1 ns and [`SAMPLE_NS_MAX`].
fn new_histogram() -> Histogram<u64> {
    let made = Histogram::new_with_bounds(1, SAMPLE_NS_MAX, 3);
    made.expect("1 and SAMPLE_NS_MAX are bounds that a histogram accepts")
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

    #[derive(Default)]
    struct Counter {
        announced: u32,
        made: u32,
    }

    impl Contender for Counter {
        fn name(&self) -> &str {
            "counter"
        }

        fn prepare(&mut self, calls: u32) -> Result<()> {
            if self.made != self.announced {
                return Err(format!("{} calls of {} made", self.made, self.announced).into());
            }
            (self.announced, self.made) = (calls, 0);
            Ok(())
        }

        fn call(&mut self) -> Result<()> {
            self.made += 1;
            std::thread::sleep(Duration::from_micros(200));
            Ok(())
        }
    }

    #[test]
    fn blocks_take_about_a_millisecond_and_make_the_announced_calls() {
        let mut entry = Entry::new(Box::new(Counter::default()));
        entry.calibrate().unwrap();
        assert!((1..=5).contains(&entry.calls), "{} calls", entry.calls);
        for _ in 0..2 {
            entry.block().unwrap();
            assert_eq!(entry.samples_ns.len(), entry.calls as usize);
            assert!(entry.block_ns >= 200_000.0);
            assert!(entry.samples_ns.iter().all(|&ns| ns >= 200_000));
            entry.count(Regime::Near, [1.0, 1.0]);
        }
        entry.contender.prepare(0).unwrap();
    }

    #[test]
    fn the_next_block_follows_the_speed_of_this_one() {
        let mut entry = Entry::new(Box::new(Counter::default()));
        for (block_ns, samples_ns, calls) in [
            (100.0, vec![150, 150], 10_000),
            (400.0, vec![450, 450], 2_500),
            (9_000.0, vec![450, 500, 70_000], 2_000),
            (5e6, vec![5_000_000], 1),
            (0.5, vec![1], CALLS_MAX),
        ] {
            (entry.block_ns, entry.samples_ns) = (block_ns, samples_ns);
            entry.count(Regime::Far, [1.0, 1.0]);
            assert_eq!(entry.calls, calls, "after blocks of {block_ns} ns a call");
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut entry = Entry::new(Box::new(Counter::default()));
        for (block_ns, floors_ns) in
            [(100.0, [100.0, 50.0]), (800.0, [400.0, 200.0]), (90.0, [30.0, 45.0])]
        {
            (entry.calls, entry.block_ns, entry.samples_ns) = (5, block_ns, vec![7]);
            entry.count(Regime::Far, floors_ns);
        }
        let row = entry.tallies[Regime::Far as usize].row("row").unwrap();
        assert_eq!(row.two_line_ratio.median, 2.0);
        assert_eq!(row.one_line_ratio.median, 2.0);
        assert_eq!(row.block_ns.median, 100.0);
        assert_eq!(row.mean_ns, 330.0);
        assert_eq!((row.calls, row.samples, row.max_ns), (15, 3, 7));
        assert!(entry.tallies[Regime::Near as usize].row("row").is_none());
    }

    #[test]
    fn every_row_runs_once_a_round_and_after_every_other_one() {
        let count = 7;
        let mut pairs = std::collections::HashSet::new();
        for round in 0..100 {
            let order = shuffled(count, round);
            pairs.extend(order.windows(2).map(|pair| (pair[0], pair[1])));
            let mut rows = order;
            rows.sort_unstable();
            assert_eq!(rows, (0..count).collect::<Vec<_>>());
        }
        assert_eq!(pairs.len(), count * (count - 1));
    }

    #[test]
    fn an_error_names_its_row() {
        struct Broken;
        impl Contender for Broken {
            fn name(&self) -> &str {
                "broken"
            }
            fn call(&mut self) -> Result<()> {
                Err("no answer".into())
            }
        }
        let mut entry = Entry::new(Box::new(Broken));
        let error = entry.named(Entry::block).unwrap_err();
        assert_eq!(error.to_string(), "row \"broken\": no answer");
    }
}
