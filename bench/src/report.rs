//! What a run of the benchmark found: plain data, as a text table.
//!
//! Invariant: ratios come first; a figure is never shown without the machine and the regime it is
//! from.

use std::fmt;
use std::time::Duration;

use crate::{CpuPair, Idle, Life, LlvmReport, Machine, Removal, Section, Swap};

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

pub(crate) fn word(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bars::Bar;
    use crate::entry::new_histogram;
    use crate::spread::Spread;
    use crate::{Comparison, Made, Rate, Regime, Removals, Removed, Row};

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
