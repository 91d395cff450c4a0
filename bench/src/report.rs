//! What a run of the benchmark found: plain data, as a text table.
//!
//! Invariant: ratios come first; a figure is never shown without the machine and the regime it is
//! from.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::bars::{Bar, IDLE_PERCENT_MAX};
use crate::spread::Spread;
use crate::table::{aligned, count, nanoseconds, ratio};
use crate::{CpuPair, Life, LlvmReport, Machine, Rate, Removal, Swap};

/// Where the two sides of a round were, and how warm.
///
/// A hypervisor moves CPUs between caches while a contest runs, and every figure moves with them;
/// so rounds are reported by regime and never mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regime {
    /// Half of the floor's calls took at most [`Regime::NEAR_NS_MAX`]: the CPUs share a cache.
    Near,
    /// Half of the floor's calls took longer: the CPUs are in different complexes or packages.
    Far,
    /// Both sides have one CPU: the floor is the cost of changing processes.
    OneCpu,
    /// Two CPUs, and both sides have slept before each call.
    Cold,
}

impl Regime {
    /// All of them, in the order in which they are reported.
    pub(crate) const ALL: [Regime; 4] = [Regime::Near, Regime::Far, Regime::OneCpu, Regime::Cold];

    /// The border between near and far.
    pub const NEAR_NS_MAX: u64 = 200;

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Regime::Near => "near",
            Regime::Far => "far",
            Regime::OneCpu => "one CPU",
            Regime::Cold => "cold",
        }
    }

    /// What makes a round one of this regime.
    pub(crate) fn description(self) -> String {
        let limit = Regime::NEAR_NS_MAX;
        match self {
            Regime::Near => format!("half of the two-line floor's calls up to {limit} ns"),
            Regime::Far => format!("half of the two-line floor's calls above {limit} ns"),
            Regime::OneCpu => "both sides take turns on it".to_owned(),
            Regime::Cold => "one call after 5 ms of rest".to_owned(),
        }
    }
}

/// Everything a run found. `Display` is the text table, at most 100 columns wide for names of
/// at most 18 characters.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// Where the two sides were pinned.
    pub cpus: CpuPair,
    /// True when the harness was compiled with optimization; figures are not valid otherwise.
    pub is_optimized: bool,
    /// How long it took altogether.
    pub elapsed: Duration,
    /// The cost of the clock read that each sample includes.
    pub clock_read_ns: f64,
    /// The results by regime; only regimes that occurred.
    pub sections: Vec<Section>,
    /// What it costs to take memory back.
    pub removal: Removal,
    /// What making, linking and removing code costs.
    pub life: Life,
    /// What it costs to replace a function.
    pub swap: Swap,
    /// What the two sides of a session take while nothing is called.
    pub idle: Idle,
    /// The comparison with LLVM's command, if it was asked for.
    pub llvm: Option<LlvmReport>,
}

/// The rounds of one regime.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Which.
    pub regime: Regime,
    /// How many rounds of the contest were in it.
    pub rounds: usize,
    /// How many callers of their own, with servers of their own, the floors and most rows of farcall had in these rounds.
    pub places: usize,
    /// One row per contender, in the order of their entry; the floors first.
    pub rows: Vec<Row>,
    /// Rows against each other.
    pub comparisons: Vec<Comparison>,
    /// How many calls came back in a second, where many were under way.
    pub rate: Option<Rate>,
}

/// One contender in one regime.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The contender's name.
    pub name: String,
    /// Over the rounds: this row's time per call by that of the two-line floor in the same round.
    pub two_line_ratio: Option<Spread>,
    /// Over the rounds: this row's time per call by that of the one-line floor in the same round.
    pub one_line_ratio: Option<Spread>,
    /// Over the rounds: nanoseconds per call of a timed block.
    pub block_ns: Spread,
    /// Mean of all calls in timed blocks, preemption of the process included.
    pub mean_ns: f64,
    /// Calls in timed blocks.
    pub calls: u64,
    /// Nanoseconds of the calls in sampled blocks, which the percentiles are of.
    pub samples: Histogram<u64>,
}

/// One row against another.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The row.
    pub row: String,
    /// The row that is 1.
    pub base: String,
    /// Over the rounds: the time per call of the one by that of the other in the same round.
    pub ratio: Spread,
    /// What the ratio ought to be.
    pub bar: Bar,
}

/// What the two sides of a session take while nothing is called.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Idle {
    /// How long after the last call the look began.
    pub after: Duration,
    /// How long the look was.
    pub window: Duration,
    /// What the calling process took, in percent of one CPU.
    pub caller_percent: f64,
    /// What the executor took, in percent of one CPU.
    pub executor_percent: f64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "farcall bench: round trips between two processes, all rows in every round")?;
        writeln!(f, "machine  {}", self.machine.processors())?;
        writeln!(f, "moment   {}", self.machine.moment())?;
        let CpuPair { caller, server } = self.cpus;
        if self.cpus.is_shared() {
            writeln!(f, "pinning  both sides on CPU {caller}, the only one allowed; polls yield")?;
        } else {
            writeln!(f, "pinning  caller on CPU {caller}, server on CPU {server}")?;
        }
        let rounds: usize = self.sections.iter().map(|section| section.rounds).sum();
        let seconds = self.elapsed.as_secs_f64();
        writeln!(f, "rounds   {rounds} in {seconds:.1} s, blocks of about 1 ms")?;
        let clock = format!("one read ({:.0} ns) is in each sample", self.clock_read_ns);
        writeln!(f, "clock    {clock}, none in block")?;
        writeln!(
            f,
            "x2, x1   block by the two-line, the one-line floor's of the same round: median"
        )?;
        writeln!(f, "units    block: ns per call; p50 to max: ns of sampled calls")?;
        if !self.is_optimized {
            writeln!(
                f,
                "WARNING  compiled without optimization: build with --release for figures"
            )?;
        }
        for section in &self.sections {
            write!(f, "\n{section}")?;
        }
        write!(f, "\n{}{}{}{}", self.removal, self.life, self.swap, self.idle)?;
        self.llvm.iter().try_for_each(|llvm| write!(f, "{llvm}"))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (regime, rounds) = (self.regime, self.rounds);
        write!(f, "{} ({}): {rounds} rounds", regime.name(), regime.description())?;
        if self.places > 1 {
            write!(f, " at {} places", self.places)?;
        }
        writeln!(f)?;
        let heads = [
            "row", "x2", "mid half", "x1", "block", "calls/s", "p50", "p99", "p99.9", "max",
            "samples",
        ];
        let mut lines = vec![heads.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        f.write_str(&aligned(&lines))?;
        if !self.comparisons.is_empty() {
            writeln!(f)?;
            let heads = ["row / base", "ratio", "mid half", "bar", ""];
            let mut lines = vec![heads.map(str::to_owned)];
            lines.extend(self.comparisons.iter().map(Comparison::cells));
            f.write_str(&aligned(&lines))?;
        }
        self.rate.iter().try_for_each(|rate| write!(f, "\n{rate}"))
    }
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (after, window) = (self.after.as_millis(), self.window.as_millis());
        let (caller, executor) = (self.caller_percent, self.executor_percent);
        writeln!(
            f,
            "idle     {after} to {} ms after a call: caller {caller:.2} %, executor {executor:.2} % of a CPU \
             (at most {IDLE_PERCENT_MAX}: {})",
            after + window,
            word(self.is_met())
        )
    }
}

impl Idle {
    /// True when both sides are below the bar.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.caller_percent <= IDLE_PERCENT_MAX && self.executor_percent <= IDLE_PERCENT_MAX
    }
}

impl Row {
    /// Nanoseconds that so many of the sampled calls, from 0 to 1, took at most.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.samples.value_at_quantile(share)
    }

    fn cells(&self) -> [String; 11] {
        let shown = |spread: Option<Spread>, show: fn(Spread) -> String| {
            spread.map_or_else(|| "-".to_owned(), show)
        };
        let quantile = |share| nanoseconds(self.quantile_ns(share) as f64);
        [
            self.name.clone(),
            shown(self.two_line_ratio, |spread| ratio(spread.median)),
            shown(self.two_line_ratio, mid_half),
            shown(self.one_line_ratio, |spread| ratio(spread.median)),
            nanoseconds(self.block_ns.median),
            count(per_second(self.mean_ns)),
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            nanoseconds(self.samples.max() as f64),
            count(self.samples.len()),
        ]
    }
}

impl Comparison {
    /// True when the median is on the right side of the bar.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.bar.is_met_by(self.ratio.median)
    }

    fn cells(&self) -> [String; 5] {
        [
            format!("{} / {}", self.row, self.base),
            ratio(self.ratio.median),
            mid_half(self.ratio),
            self.bar.to_string(),
            word(self.is_met()).to_owned(),
        ]
    }
}

/// Calls in a second when one takes so long.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
#[expect(clippy::cast_sign_loss, reason = "a time is positive")]
pub(crate) fn per_second(mean_ns: f64) -> u64 {
    (1e9 / mean_ns).round() as u64
}

fn mid_half(spread: Spread) -> String {
    format!("{}..{}", ratio(spread.lower_quartile), ratio(spread.upper_quartile))
}

pub(crate) fn word(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::entry::new_histogram;
    use crate::{Made, Removals, Removed};

    fn even(value: f64) -> Spread {
        Spread { lower_quartile: value, median: value, upper_quartile: value }
    }

    pub(crate) fn report(cpus: CpuPair) -> Report {
        let mut samples = new_histogram();
        samples.record_n(27_007, 989).unwrap();
        samples.record_n(43_007, 10).unwrap();
        samples.record(8_000_004).unwrap();
        let row = Row {
            name: "a \"long\" name: 18".to_owned(),
            two_line_ratio: Some(even(271.4)),
            one_line_ratio: Some(even(540.0)),
            block_ns: even(27_123.4),
            mean_ns: 31_000.6,
            calls: 40_000,
            samples,
        };
        let comparison = Comparison {
            row: "a row".to_owned(),
            base: "another".to_owned(),
            ratio: even(1.25),
            bar: Bar::AtMost(1.2),
        };
        let cold = Row { two_line_ratio: None, one_line_ratio: None, ..row.clone() };
        let met = Comparison { bar: Bar::AtLeast(1.25), ..comparison.clone() };
        let machine = Machine {
            cpu_model: "Some CPU".to_owned(),
            cpus: 2,
            is_virtual: true,
            kernel: "6.18".to_owned(),
            load: "0.25".to_owned(),
            date: "2026-11-20 00:00 UTC".to_owned(),
        };
        let section = |regime, places, row, comparison| Section {
            regime,
            rounds: 10,
            places,
            rows: vec![row],
            comparisons: vec![comparison],
            rate: Rate::new("64 in flight", &[50.0], 20e6),
        };
        let removed = Removed {
            count: 1000,
            together_ns: even(132.6),
            single_ns: even(2_652.0),
            ratio: even(20.0),
        };
        let removals = Removals { regions: removed, slabs: Removed { count: 100, ..removed } };
        Report {
            machine,
            cpus,
            is_optimized: true,
            elapsed: Duration::from_millis(1_500),
            clock_read_ns: 24.0,
            sections: vec![
                section(Regime::Far, 7, row, comparison),
                section(Regime::Cold, 1, cold, met),
            ],
            removal: Removal { stream: removals, lane: removals, kernel: removed },
            life: Life {
                memory: Made { each_ns: even(63.0), messages: 0 },
                link: Made { each_ns: even(11_001.0), messages: 2_000 },
                null_ns: 100.0,
                removal: Made { each_ns: even(700.0), messages: 1 },
                single_removal: Made { each_ns: even(1_400.0), messages: 1_000 },
            },
            swap: Swap { count: 10_000, each_ns: even(12.6) },
            idle: Idle {
                after: Duration::from_millis(100),
                window: Duration::from_millis(300),
                caller_percent: 0.01,
                executor_percent: 0.51,
            },
            llvm: Some(LlvmReport::Absent),
        }
    }

    #[test]
    fn the_table_shows_every_figure_in_100_columns() {
        let text = report(CpuPair { caller: 0, server: 1 }).to_string();
        for shown in [
            "machine  Some CPU, 2 virtual CPUs\nmoment   Linux 6.18, load 0.25, 2026-11-20",
            "caller on CPU 0, server on CPU 1",
            "rounds   20 in 1.5 s",
            "far (half of the two-line floor's calls above 200 ns): 10 rounds at 7 places\n",
            "a \"long\" name: 18",
            " 271  271..271 ",
            " 540 ",
            " 27123    32.2k  27007  43007  43007  8.00M    1.00k\n",
            "a row / another   1.25  1.25..1.25  at most 1.2  MISSED\n",
            "cold (one call after 5 ms of rest): 10 rounds\n",
            "  -         -   -  27123 ",
            "at least 1.25  met\n",
            "1000 regions, stream: 133 ns each together, 2652 alone: 20.0 times (at least 20: met)",
            "remove   100 slabs, stream: ",
            "1000 regions, lane: 133 ns each together, 2652 alone: 20.0 times (at least 20: met)\n",
            "remove   100 slabs, lane: ",
            "4 KiB data: 63 ns beyond writing, 0 messages (at most 2000, 0: met)\n",
            "looked up: 11001 ns (at most 11000: MISSED)\n",
            "one tracker: 700 ns each, 1 messages (1: met), 1400 alone\n",
            "swap     a function is replaced 10000 times: 13 ns each (below 1000: met)",
            "64 in flight: 20.0M calls/s, mid half 20.0M..20.0M (at least 20.0M: met)",
            "LLVM 22: not installed here, no comparison\n",
            "100 to 400 ms after a call: caller 0.01 %, executor 0.51 % of a CPU (at most 0.5: MISSED)",
        ] {
            assert!(text.contains(shown), "{shown:?} is missing in\n{text}");
        }
        assert!(!text.contains("WARNING"));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{widest:?} columns:\n{text}");
    }

    #[test]
    fn a_shared_cpu_and_a_debug_build_are_said() {
        let shared = Report { is_optimized: false, ..report(CpuPair { caller: 3, server: 3 }) };
        let text = shared.to_string();
        assert!(text.contains("both sides on CPU 3"), "{text}");
        assert!(text.contains("without optimization"), "{text}");
    }
}
