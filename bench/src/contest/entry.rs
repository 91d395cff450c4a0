//! One row of a contest while it runs: its contenders, its block of the current round, and its counters.
//!
//! Invariant: in a hot block a timed or sampled call follows at least one warm-up call. So no figure includes the wake of
//! a server or an order to it, except in the cold contest.

use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::figures::samples::new_histogram;
use crate::measure::spread::{Spread, median_ns};
use crate::{Contender, Regime, Result, Row};

/// The intended length of a block.
const BLOCK: Duration = Duration::from_millis(1);
/// Calls of a block at most, for rows that take almost no time.
const CALLS_MAX: u32 = 1 << 18;
/// How long both sides rest after a block. A side polls for 50 us before it sleeps, and would do so beside the next row.
const PAUSE: Duration = Duration::from_micros(200);
/// How long both sides rest before a cold call.
pub(crate) const REST: Duration = Duration::from_millis(5);

/// One row.
pub(crate) struct Entry {
    /// One for each place, all alike except for the processes that they run in; not empty.
    contenders: Vec<Box<dyn Contender>>,
    /// The index of the contender of this round.
    place: usize,
    calls: u32,
    pub(crate) block_ns: f64,
    samples_ns: Vec<u64>,
    counters: [Counters; Regime::ALL.len()],
}

impl Entry {
    /// A row of these contenders, which take turns.
    ///
    /// # Panics
    /// When there are none.
    pub(crate) fn new(contenders: Vec<Box<dyn Contender>>) -> Entry {
        assert!(!contenders.is_empty(), "a row without a contender");
        let counters = Regime::ALL.map(|_| Counters::default());
        let (samples_ns, block_ns) = (Vec::new(), 0.0);
        Entry { contenders, place: 0, calls: 1, block_ns, samples_ns, counters }
    }

    /// The row's name.
    pub(crate) fn name(&self) -> &str {
        self.contenders[self.place].name()
    }

    /// The number of places that the row has.
    pub(crate) fn places(&self) -> usize {
        self.contenders.len()
    }

    /// Gives the turn to the contender of this round.
    pub(crate) fn turn(&mut self, round: usize) {
        self.place = round % self.contenders.len();
    }

    /// Finds the number of calls of the first block.
    pub(crate) fn calibrate(&mut self) -> Result<()> {
        loop {
            let (calls, contender) = (self.calls, &mut self.contenders[self.place]);
            contender.prepare(1 + calls)?;
            contender.run(1)?;
            let took = contender.run(calls)?;
            contender.rest()?;
            if took >= BLOCK / 2 || calls >= CALLS_MAX {
                self.fit(took.as_secs_f64() * 1e9 / f64::from(calls));
                return Ok(());
            }
            self.calls = calls * 2;
        }
    }

    /// Sets the calls of the next block to as many as fit if one takes `call_ns`.
    fn fit(&mut self, call_ns: f64) {
        let calls = BLOCK.as_secs_f64() * 1e9 / call_ns;
        #[expect(clippy::cast_possible_truncation, reason = "clamped to 1..=CALLS_MAX")]
        let calls = calls.clamp(1.0, f64::from(CALLS_MAX)) as u32;
        self.calls = calls;
        // The vector must not grow between two samples.
        self.samples_ns.clear();
        self.samples_ns.reserve(calls as usize);
    }

    /// Warm-up, one timed block, one sampled block.
    pub(crate) fn block(&mut self) -> Result<()> {
        let (calls, warm_up) = (self.calls, self.calls / 8 + 1);
        let contender = &mut self.contenders[self.place];
        contender.prepare(warm_up + calls + calls)?;
        contender.run(warm_up)?;
        self.block_ns = contender.run(calls)?.as_secs_f64() * 1e9 / f64::from(calls);
        contender.sample(calls, &mut self.samples_ns)?;
        contender.rest()?;
        thread::sleep(PAUSE);
        Ok(())
    }

    /// One call after both sides have slept; it is timed block and sample in one.
    pub(crate) fn cold_call(&mut self) -> Result<()> {
        self.samples_ns.clear();
        let contender = &mut self.contenders[self.place];
        contender.prepare(1)?;
        thread::sleep(REST);
        contender.sample(1, &mut self.samples_ns)?;
        self.block_ns = self.samples_ns.first().map_or(0.0, |&ns| ns as f64);
        contender.rest()
    }

    /// The median of the sampled calls of this round.
    pub(crate) fn sampled_ns(&mut self) -> Option<u64> {
        median_ns(&mut self.samples_ns)
    }

    /// Adds the block of this round to the counters of `regime` and fits the next one.
    pub(crate) fn count(&mut self, regime: Regime) {
        let counters = &mut self.counters[regime as usize];
        counters.calls += u64::from(self.calls);
        counters.total_ns += self.block_ns * f64::from(self.calls);
        counters.block_ns.push(self.block_ns);
        let samples = counters.samples.get_or_insert_with(new_histogram);
        for &sample_ns in &self.samples_ns {
            samples.saturating_record(sample_ns);
        }
        // The faster of the two, because a preempted block says nothing about a call.
        let sampled_ns = self.sampled_ns().map_or(f64::INFINITY, |ns| ns as f64);
        if regime != Regime::Cold {
            self.fit(self.block_ns.min(sampled_ns));
        }
    }

    /// Times per call of the timed blocks of `regime`, one for each round.
    pub(crate) fn blocks_ns(&self, regime: Regime) -> &[f64] {
        &self.counters[regime as usize].block_ns
    }

    /// The row's figures in `regime`; `None` when no round was in it. `floors_ns`: the blocks of the two-line floor and of
    /// the one-line floor in the same rounds.
    pub(crate) fn row(&self, regime: Regime, floors_ns: Option<[&[f64]; 2]>) -> Option<Row> {
        let counters = &self.counters[regime as usize];
        let ratio = |floor: usize| ratios(&counters.block_ns, floors_ns?[floor]);
        Some(Row {
            name: self.name().to_owned(),
            two_line_ratio: ratio(0),
            one_line_ratio: ratio(1),
            block_ns: Spread::of(counters.block_ns.clone())?,
            mean_ns: counters.total_ns / counters.calls as f64,
            calls: counters.calls,
            places: self.contenders.len().min(counters.block_ns.len()),
            samples: counters.samples.clone()?,
        })
    }

    /// Runs `step` with the row's name in front of its errors.
    pub(crate) fn named(&mut self, step: fn(&mut Entry) -> Result<()>) -> Result<()> {
        let done = step(self);
        done.map_err(|error| format!("row \"{}\": {error}", self.name()).into())
    }
}

/// The spread of the ratios of one row's blocks to another row's blocks, round by round; `None` without rounds.
pub(crate) fn ratios(row_ns: &[f64], base_ns: &[f64]) -> Option<Spread> {
    Spread::of(row_ns.iter().zip(base_ns).map(|(row, base)| row / base).collect())
}

/// The figures of one row in the rounds of one regime.
#[derive(Default)]
struct Counters {
    calls: u64,
    total_ns: f64,
    block_ns: Vec<f64>,
    samples: Option<Histogram<u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counter {
        announced: u32,
        made: u32,
        is_resting: bool,
    }

    impl Contender for Counter {
        fn name(&self) -> &str {
            "counter"
        }

        fn prepare(&mut self, calls: u32) -> Result<()> {
            (self.announced, self.made, self.is_resting) = (calls, 0, false);
            Ok(())
        }

        fn call(&mut self) -> Result<()> {
            assert!(!self.is_resting, "a call without an announcement");
            self.made += 1;
            thread::sleep(Duration::from_micros(200));
            Ok(())
        }

        fn rest(&mut self) -> Result<()> {
            self.is_resting = true;
            if self.made == self.announced {
                return Ok(());
            }
            Err(format!("{} calls of {} made", self.made, self.announced).into())
        }
    }

    #[test]
    fn blocks_take_about_a_millisecond_and_make_the_announced_calls() {
        let mut entry = Entry::new(vec![Box::new(Counter::default())]);
        entry.calibrate().unwrap();
        assert!((1..=5).contains(&entry.calls), "{} calls", entry.calls);
        for _ in 0..2 {
            entry.block().unwrap();
            assert_eq!(entry.samples_ns.len(), entry.calls as usize);
            assert!(entry.block_ns >= 200_000.0);
            assert!(entry.samples_ns.iter().all(|&ns| ns >= 200_000));
            entry.count(Regime::Near);
        }
    }

    #[test]
    fn a_cold_call_comes_after_a_rest_and_is_the_block() {
        let mut entry = Entry::new(vec![Box::new(Counter::default())]);
        for round in 1..=3 {
            let start = std::time::Instant::now();
            entry.cold_call().unwrap();
            assert!(start.elapsed() >= REST + Duration::from_micros(200));
            entry.count(Regime::Cold);
            let row = entry.row(Regime::Cold, None).unwrap();
            assert_eq!((row.calls, row.samples.len()), (round, round));
            assert_eq!(row.two_line_ratio, None);
            assert!(row.block_ns.median >= 200_000.0 && row.block_ns.median < 5e6);
        }
    }

    #[test]
    fn the_next_block_follows_the_speed_of_this_one() {
        let mut entry = Entry::new(vec![Box::new(Counter::default())]);
        for (block_ns, samples_ns, calls) in [
            (100.0, vec![150, 150], 10_000),
            (400.0, vec![450, 450], 2_500),
            (9_000.0, vec![450, 500, 70_000], 2_000),
            (5e6, vec![5_000_000], 1),
            (0.5, vec![1], CALLS_MAX),
        ] {
            (entry.block_ns, entry.samples_ns) = (block_ns, samples_ns);
            entry.count(Regime::Far);
            assert_eq!(entry.calls, calls, "after blocks of {block_ns} ns a call");
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let [mut row, mut two_lines, mut one_line] =
            [0; 3].map(|_| Entry::new(vec![Box::new(Counter::default())]));
        for blocks_ns in [[100.0, 100.0, 50.0], [800.0, 400.0, 200.0], [90.0, 30.0, 45.0]] {
            for (entry, block_ns) in
                [&mut row, &mut two_lines, &mut one_line].into_iter().zip(blocks_ns)
            {
                (entry.calls, entry.block_ns, entry.samples_ns) = (5, block_ns, vec![7]);
                entry.count(Regime::Far);
            }
        }
        let floors_ns = [two_lines, one_line].map(|floor| floor.blocks_ns(Regime::Far).to_vec());
        let floors_ns = Some([&*floors_ns[0], &*floors_ns[1]]);
        let found = row.row(Regime::Far, floors_ns).unwrap();
        assert_eq!(found.two_line_ratio.unwrap().median, 2.0);
        assert_eq!(found.one_line_ratio.unwrap().median, 2.0);
        assert_eq!(found.block_ns.median, 100.0);
        assert_eq!(found.mean_ns, 330.0);
        assert_eq!((found.calls, found.samples.len(), found.samples.max()), (15, 3, 7));
        assert!(row.row(Regime::Near, floors_ns).is_none());
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
        let mut entry = Entry::new(vec![Box::new(Broken)]);
        let error = entry.named(Entry::block).unwrap_err();
        assert_eq!(error.to_string(), "row \"broken\": no answer");
    }
}
