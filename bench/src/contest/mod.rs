//! The contest: every row in every round, block against block.
//!
//! Invariant: figures are compared only within one round.

pub(crate) mod entry;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::contest::entry::{Entry, ratios};
use crate::figures::bars;
use crate::{Contender, CpuPair, Judged, Regime, Result, Section, Spread};

/// A contest of fewer rounds says little.
pub(crate) const ROUNDS_MIN: usize = 20;
/// More places than this add little.
pub(crate) const PLACES_MAX: usize = 16;

/// A callback that receives a run's progress: the part that is measured, and the share of the run that is over (0 to 1). The
/// calling thread calls it before each part and after each round of a contest. If it returns a break, measuring ends and the
/// report is partial.
pub type Progress<'a> = dyn FnMut(&'static str, f64) -> ControlFlow<()> + 'a;

/// How much to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// At least this many rounds of calls back to back, however long they take; at least one.
    pub rounds_min: usize,
    /// The length of the whole run, the start and the end of its processes included.
    pub duration: Duration,
}

/// The work of a row in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundKind {
    /// About a millisecond of calls back to back, then as many sampled one by one. The rows entered first and second are
    /// the two-line and the one-line floor.
    Hot,
    /// One call after a rest. There is no floor.
    Cold,
}

/// Contenders that run against each other on two CPUs. Stays on the thread that made it.
pub(crate) struct Contest {
    cpus: CpuPair,
    round_kind: RoundKind,
    entries: Vec<Entry>,
    /// The places of the rounds of each regime.
    places: [BTreeSet<usize>; Regime::ALL.len()],
    /// True if the sections judge their rows by the project's own bars.
    has_bars: bool,
}

impl Contest {
    /// A contest without rows.
    pub(crate) fn new(cpus: CpuPair, round_kind: RoundKind, has_bars: bool) -> Contest {
        let places = Regime::ALL.map(|_| BTreeSet::new());
        Contest { cpus, round_kind, entries: Vec::new(), places, has_bars }
    }

    /// Adds a row whose contenders, one for each place, take turns: each round is made by the next one. The contenders of
    /// two rows with the same index meet in the same rounds if both rows have as many. A contender with a server of its
    /// own pins that with [`CpuPair::pin_server`] itself.
    ///
    /// # Panics
    /// When there are no contenders.
    pub(crate) fn enter(&mut self, contenders: Vec<Box<dyn Contender>>) {
        self.entries.push(Entry::new(contenders));
    }

    /// Runs the rounds until `until` and for at least `rounds_min`, on a thread that is pinned already; `clock_read_ns` is
    /// in each sample. Calls `progress` after each round; a break ends the rounds.
    ///
    /// # Errors
    /// The first error of a contender, with its name; the contest is over then.
    pub(crate) fn run(
        mut self,
        rounds_min: usize,
        until: Instant,
        clock_read_ns: f64,
        progress: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Vec<Section>> {
        if self.round_kind == RoundKind::Hot {
            for entry in &mut self.entries {
                entry.named(Entry::calibrate)?;
            }
        }
        let mut rounds = 0;
        while rounds == 0 || rounds < rounds_min || Instant::now() < until {
            self.round(rounds, clock_read_ns)?;
            rounds += 1;
            if progress().is_break() {
                break;
            }
        }
        Ok(Regime::ALL.into_iter().filter_map(|regime| self.section(regime)).collect())
    }

    /// One block of every row, in an order of its own. A process that has used up its share of a CPU loses it at about the same
    /// place of every round. That must not be the same row's block.
    fn round(&mut self, number: usize, clock_read_ns: f64) -> Result<()> {
        let step = match self.round_kind {
            RoundKind::Hot => Entry::block,
            RoundKind::Cold => Entry::cold_call,
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
        if self.round_kind == RoundKind::Cold {
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

    /// The figures of `regime`; `None` when no round was in it.
    fn section(&self, regime: Regime) -> Option<Section> {
        let rounds = self.entries.first()?.blocks_ns(regime).len();
        let floors_ns = match (self.round_kind, &*self.entries) {
            (RoundKind::Hot, [two_lines, one_line, ..]) => {
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
            bars: if self.has_bars { self.bars(regime) } else { Vec::new() },
        })
    }

    /// The rows of this contest that `regime` has bars for.
    fn bars(&self, regime: Regime) -> Vec<Judged> {
        let blocks_ns = |name: &str| {
            let entry = self.entries.iter().find(|entry| entry.name() == name)?;
            Some(entry.blocks_ns(regime))
        };
        let ratio = |(row, base, bar): (&str, &str, _)| {
            let ratio = ratios(blocks_ns(row)?, blocks_ns(base)?)?;
            Some(Judged::new(format!("{row} / {base}"), ratio, bar))
        };
        let rate = |(row, bar): (&str, _)| {
            let per_second = blocks_ns(row)?.iter().map(|ns| 1e9 / ns).collect();
            Some(Judged::new(format!("{row}, calls/s"), Spread::of(per_second)?, bar))
        };
        let ratios = bars::of_ratios(regime).filter_map(ratio);
        ratios.chain(bars::of_rate(regime).and_then(rate)).collect()
    }
}

/// The numbers below `count`, in an order that depends on `seed` alone.
pub(crate) fn shuffled(count: usize, seed: usize) -> Vec<usize> {
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

    fn may_go_on() -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Takes this many microseconds for a call.
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

    /// Records its place at each call.
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
    fn rounds_go_from_place_to_place_and_are_counted() {
        for (rounds_min, called_at) in [(2, &[0, 1][..]), (7, &[0, 1, 2, 0, 1, 2, 0])] {
            let mut contest =
                Contest::new(CpuPair { caller: 0, server: 1 }, RoundKind::Cold, false);
            let [noted, noted_there] = [0; 2].map(|_| Rc::default());
            let noter = |place, notes: &Rc<_>| -> Box<dyn Contender> {
                Box::new(Noter(place, Rc::clone(notes)))
            };
            contest.enter((0..3).map(|place| noter(place, &noted)).collect());
            contest.enter(vec![noter(9, &noted_there)]);
            let sections = contest.run(rounds_min, Instant::now(), 0.0, &mut may_go_on).unwrap();
            let [section] = &*sections else { panic!("{sections:?}") };
            assert_eq!((section.rounds, section.places), (rounds_min, rounds_min.min(3)));
            assert_eq!(section.rows[0].calls, rounds_min as u64);
            assert_eq!([section.rows[0].places, section.rows[1].places], [rounds_min.min(3), 1]);
            assert!(section.bars.is_empty(), "{section:?}");
            assert_eq!(*noted.borrow(), called_at);
            assert_eq!(*noted_there.borrow(), vec![9; rounds_min]);
        }
    }

    #[test]
    fn only_rows_that_were_measured_have_bars() {
        let mut contest = Contest::new(CpuPair { caller: 0, server: 1 }, RoundKind::Cold, true);
        contest.enter(vec![Box::new(Sleeper("Unix stream", 9_000))]);
        contest.enter(vec![Box::new(Sleeper("null call", 1_000))]);
        let sections = contest.run(3, Instant::now(), 0.0, &mut may_go_on).unwrap();
        let [section] = &*sections else { panic!("{sections:?}") };
        assert_eq!((section.regime, section.rounds, section.rows.len()), (Regime::Cold, 3, 2));
        let [judged] = &*section.bars else { panic!("{section:?}") };
        assert_eq!(judged.what, "null call / Unix stream");
        assert!(judged.value.median < 0.8 && judged.is_met, "{judged:?}");
    }

    #[test]
    fn a_break_ends_the_rounds_and_keeps_what_was_measured() {
        let mut contest = Contest::new(CpuPair { caller: 0, server: 1 }, RoundKind::Cold, false);
        contest.enter(vec![Box::new(Sleeper("null call", 1))]);
        let mut left = 2;
        let sections = contest.run(1_000_000, Instant::now(), 0.0, &mut || {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(sections.unwrap()[0].rounds, 2);
    }
}
