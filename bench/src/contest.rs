//! The contest: every row in every round, block against block.
//!
//! Invariant: each figure of a round is comparable with each other one of it, and with none of another round.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::bars::{bars, least_rate};
use crate::entry::{Entry, ratios};
use crate::rate::Rate;
use crate::{Comparison, Regime, Section};
use crate::{Contender, CpuPair, Result};

/// How much to measure: rounds are run until both are reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// At least this many rounds, and at least one.
    pub rounds_min: usize,
    /// At least this long.
    pub duration_min: Duration,
}

/// What a row does in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// About a millisecond of calls back to back, then as many sampled one by one. The rows entered first and second are
    /// the two-line and the one-line floor.
    Hot,
    /// One call after a rest. There is no floor.
    Cold,
}

/// Contenders that run against each other on two CPUs. Stays on the thread that made it.
pub(crate) struct Contest {
    cpus: CpuPair,
    pace: Pace,
    entries: Vec<Entry>,
    /// Which places the rounds of each regime were at.
    places: [BTreeSet<usize>; Regime::ALL.len()],
}

impl Contest {
    /// A contest without rows.
    pub(crate) fn new(cpus: CpuPair, pace: Pace) -> Contest {
        let places = Regime::ALL.map(|_| BTreeSet::new());
        Contest { cpus, pace, entries: Vec::new(), places }
    }

    /// Adds a row. A contender with a server of its own pins that with [`CpuPair::pin_server`] itself.
    pub(crate) fn enter(&mut self, contender: impl Contender + 'static) {
        self.entries.push(Entry::new(vec![Box::new(contender)]));
    }

    /// Adds a row whose contenders, one for each place, take turns: each round is made by the next one. Those of two
    /// rows with the same index meet in the same rounds when both rows have as many.
    ///
    /// # Errors
    /// The first error of `contenders`.
    ///
    /// # Panics
    /// When there are none.
    pub(crate) fn enter_places<C: Contender + 'static>(
        &mut self,
        contenders: impl IntoIterator<Item = Result<C>>,
    ) -> Result<()> {
        let boxed = contenders.into_iter().map(|made| Ok(Box::new(made?) as Box<dyn Contender>));
        self.entries.push(Entry::new(boxed.collect::<Result<_>>()?));
        Ok(())
    }

    /// Runs the rounds, on a thread that is pinned already; `clock_read_ns` is in each sample. Tells `progress` after each
    /// round how far it is, from 0 to 1.
    ///
    /// # Errors
    /// The first error of a contender, with its name; the contest is of no use then.
    pub(crate) fn run(
        mut self,
        effort: Effort,
        clock_read_ns: f64,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Vec<Section>> {
        if self.pace == Pace::Hot {
            for entry in &mut self.entries {
                entry.named(Entry::calibrate)?;
            }
        }
        let start = Instant::now();
        let mut rounds = 0;
        while rounds == 0 || rounds < effort.rounds_min || start.elapsed() < effort.duration_min {
            self.round(rounds, clock_read_ns)?;
            rounds += 1;
            progress(effort.share(rounds, start.elapsed()));
        }
        Ok(Regime::ALL.into_iter().filter_map(|regime| self.section(regime)).collect())
    }

    /// One block of every row, in an order of its own: a process that has used up its share of a CPU loses it at about
    /// the same place of every round, and that must not be the same row's block.
    fn round(&mut self, number: usize, clock_read_ns: f64) -> Result<()> {
        let step = match self.pace {
            Pace::Hot => Entry::block,
            Pace::Cold => Entry::cold_call,
        };
        for index in shuffled(self.entries.len(), number) {
            self.entries[index].turn(number);
            self.entries[index].named(step)?;
        }
        let regime = self.regime(clock_read_ns);
        let places = self.entries.iter().map(Entry::places).max().unwrap_or(1);
        self.places[regime as usize].insert(number % places);
        for entry in &mut self.entries {
            entry.count(regime);
        }
        Ok(())
    }

    /// Judged by the median of single calls: a preempted block cannot make a near round look far.
    fn regime(&mut self, clock_read_ns: f64) -> Regime {
        if self.pace == Pace::Cold {
            return Regime::Cold;
        }
        if self.cpus.is_shared() {
            return Regime::OneCpu;
        }
        let floor_ns = self.entries[0].sampled_ns().unwrap_or(0);
        if floor_ns as f64 - clock_read_ns <= Regime::NEAR_NS_MAX as f64 {
            Regime::Near
        } else {
            Regime::Far
        }
    }

    /// What was found in `regime`; `None` when no round was in it.
    fn section(&self, regime: Regime) -> Option<Section> {
        let rounds = self.entries.first()?.blocks_ns(regime).len();
        let floors_ns = match (self.pace, &*self.entries) {
            (Pace::Hot, [two_lines, one_line, ..]) => {
                Some([two_lines.blocks_ns(regime), one_line.blocks_ns(regime)])
            }
            _ => None,
        };
        let rows = self.entries.iter().filter_map(|entry| entry.row(regime, floors_ns)).collect();
        (rounds > 0).then(|| Section {
            regime,
            rounds,
            places: self.places[regime as usize].len(),
            rows,
            comparisons: self.comparisons(regime),
            rate: self.rate(regime),
        })
    }

    /// The rate that `regime` has a bar for, if that row is here.
    fn rate(&self, regime: Regime) -> Option<Rate> {
        let (row, least) = least_rate(regime)?;
        let entry = self.entries.iter().find(|entry| entry.name() == row)?;
        Rate::new(row, entry.blocks_ns(regime), least)
    }

    /// The bars of `regime` for rows that are here.
    fn comparisons(&self, regime: Regime) -> Vec<Comparison> {
        let blocks_ns = |name: &str| {
            let entry = self.entries.iter().find(|entry| entry.name() == name)?;
            Some(entry.blocks_ns(regime))
        };
        let compare = |(row, base, bar): (&str, &str, _)| {
            let ratio = ratios(blocks_ns(row)?, blocks_ns(base)?)?;
            Some(Comparison { row: row.to_owned(), base: base.to_owned(), ratio, bar })
        };
        bars(regime).filter_map(compare).collect()
    }
}

impl Effort {
    /// How much of it these rounds in this time are, at most 1.
    fn share(self, rounds: usize, elapsed: Duration) -> f64 {
        let rounds = rounds as f64 / self.rounds_min.max(1) as f64;
        let time = elapsed.as_secs_f64() / self.duration_min.as_secs_f64().max(f64::MIN_POSITIVE);
        rounds.min(time).min(1.0)
    }
}

/// The numbers below `count`, in an order that depends on `seed` alone.
fn shuffled(count: usize, seed: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    order.sort_by_cached_key(|number| {
        let mut hasher = DefaultHasher::new();
        (seed, number).hash(&mut hasher);
        hasher.finish()
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

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

    /// Takes so many microseconds for a call.
    struct Sleeper(&'static str, u64);

    impl Contender for Sleeper {
        fn name(&self) -> &str {
            self.0
        }
        fn call(&mut self) -> Result<()> {
            std::thread::sleep(Duration::from_micros(self.1));
            Ok(())
        }
    }

    /// Notes that its place was called at.
    struct Noter(usize, Rc<RefCell<Vec<usize>>>);

    impl Contender for Noter {
        fn name(&self) -> &str {
            "noter"
        }
        fn call(&mut self) -> Result<()> {
            self.1.borrow_mut().push(self.0);
            Ok(())
        }
    }

    #[test]
    fn rounds_go_from_place_to_place_and_a_section_says_how_many_they_were_at() {
        for (rounds_min, called_at) in [(2, &[0, 1][..]), (7, &[0, 1, 2, 0, 1, 2, 0])] {
            let mut contest = Contest::new(CpuPair { caller: 0, server: 1 }, Pace::Cold);
            let [noted, noted_there] = [0; 2].map(|_| Rc::default());
            contest.enter_places((0..3).map(|place| Ok(Noter(place, Rc::clone(&noted))))).unwrap();
            contest.enter(Noter(9, Rc::clone(&noted_there)));
            let effort = Effort { rounds_min, duration_min: Duration::ZERO };
            let sections = contest.run(effort, 0.0, &mut |_| {}).unwrap();
            let [section] = &*sections else { panic!("{sections:?}") };
            assert_eq!((section.rounds, section.places), (rounds_min, rounds_min.min(3)));
            assert_eq!(section.rows[0].calls, rounds_min as u64);
            assert_eq!(*noted.borrow(), called_at);
            assert_eq!(*noted_there.borrow(), vec![9; rounds_min]);
        }
    }

    #[test]
    fn a_place_that_cannot_be_had_is_an_error() {
        let mut contest = Contest::new(CpuPair { caller: 0, server: 1 }, Pace::Cold);
        let made = [Ok(Sleeper("null call", 1)), Err("no executor".into())];
        assert_eq!(contest.enter_places(made).unwrap_err().to_string(), "no executor");
    }

    #[test]
    fn bars_are_those_of_the_rows_that_are_there() {
        let mut contest = Contest::new(CpuPair { caller: 0, server: 1 }, Pace::Cold);
        contest.enter(Sleeper("Unix stream", 9_000));
        contest.enter(Sleeper("null call", 1_000));
        let effort = Effort { rounds_min: 3, duration_min: Duration::ZERO };
        let mut shares = Vec::new();
        let sections = contest.run(effort, 0.0, &mut |share| shares.push(share)).unwrap();
        assert_eq!(shares, [1.0 / 3.0, 2.0 / 3.0, 1.0]);
        let [section] = &*sections else { panic!("{sections:?}") };
        assert_eq!((section.regime, section.rounds, section.rows.len()), (Regime::Cold, 3, 2));
        let [comparison] = &*section.comparisons else { panic!("{section:?}") };
        assert_eq!((&*comparison.row, &*comparison.base), ("null call", "Unix stream"));
        assert!(comparison.ratio.median < 0.8, "{comparison:?}");
        assert!(comparison.bar.is_met_by(comparison.ratio.median));
    }
}
