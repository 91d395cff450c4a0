//! What a contest found: plain data, as a text table and as JSON.
//!
//! Invariant: ratios come first; a figure is never shown without the machine and the regime it is
//! from.

use std::fmt;
use std::time::Duration;

use crate::json::{array, number, object, string};
use crate::spread::Spread;
use crate::table::{aligned, count, nanoseconds, ratio};
use crate::{CpuPair, Machine};

/// The distance of the two CPUs during a round, as the two-line floor of that round shows it.
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
}

impl Regime {
    /// The border between near and far.
    pub const NEAR_NS_MAX: u64 = 200;

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Regime::Near => "near",
            Regime::Far => "far",
            Regime::OneCpu => "one CPU",
        }
    }
}

/// Everything a contest found. `Display` is the text table, at most 100 columns wide for names of
/// at most 18 characters.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Where and when.
    pub machine: Machine,
    /// Where the two sides were pinned.
    pub cpus: CpuPair,
    /// True when the harness was compiled with optimization; figures are not valid otherwise.
    pub is_optimized: bool,
    /// Rounds run; each row ran one timed and one sampled block in each.
    pub rounds: usize,
    /// How long the rounds took together.
    pub elapsed: Duration,
    /// The cost of the clock read that each sample includes.
    pub clock_read_ns: f64,
    /// The results by regime; only regimes that occurred.
    pub sections: Vec<Section>,
}

/// The rounds of one regime.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Which.
    pub regime: Regime,
    /// How many rounds of the contest were in it.
    pub rounds: usize,
    /// One row per contender, in the order of their entry; the floors first.
    pub rows: Vec<Row>,
}

/// One contender in one regime.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The contender's name.
    pub name: String,
    /// Over the rounds: this row's time per call by that of the two-line floor in the same round.
    pub two_line_ratio: Spread,
    /// Over the rounds: this row's time per call by that of the one-line floor in the same round.
    pub one_line_ratio: Spread,
    /// Over the rounds: nanoseconds per call of a timed block.
    pub block_ns: Spread,
    /// Mean of all calls in timed blocks, preemption of the process included.
    pub mean_ns: f64,
    /// Calls in timed blocks.
    pub calls: u64,
    /// Calls in sampled blocks, which the percentiles are of.
    pub samples: u64,
    /// Half of the sampled calls took at most this.
    pub p50_ns: u64,
    /// 99 of 100 sampled calls took at most this.
    pub p99_ns: u64,
    /// 999 of 1,000 sampled calls took at most this.
    pub p99_9_ns: u64,
    /// The slowest sampled call.
    pub max_ns: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "farcall bench: round trips between two processes, all rows in every round")?;
        writeln!(f, "machine  {}", self.machine)?;
        let CpuPair { caller, server } = self.cpus;
        if self.cpus.is_shared() {
            writeln!(f, "pinning  both sides on CPU {caller}, the only one allowed; polls yield")?;
        } else {
            writeln!(f, "pinning  caller on CPU {caller}, server on CPU {server}")?;
        }
        let seconds = self.elapsed.as_secs_f64();
        writeln!(f, "rounds   {} in {seconds:.1} s, blocks of about 1 ms", self.rounds)?;
        let clock = format!("one read ({:.0} ns) is in each sample", self.clock_read_ns);
        writeln!(f, "clock    {clock}, none in block and mean")?;
        writeln!(
            f,
            "x2, x1   block by the two-line, the one-line floor's of the same round: median"
        )?;
        writeln!(f, "units    block and mean: ns per call; p50 to max: ns of sampled calls")?;
        if !self.is_optimized {
            writeln!(
                f,
                "WARNING  compiled without optimization: build with --release for figures"
            )?;
        }
        for section in &self.sections {
            write!(f, "\n{section}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = Regime::NEAR_NS_MAX;
        let title = match self.regime {
            Regime::Near => format!("near (half of the two-line floor's calls up to {limit} ns)"),
            Regime::Far => format!("far (half of the two-line floor's calls above {limit} ns)"),
            Regime::OneCpu => "one CPU (both sides take turns on it)".to_owned(),
        };
        writeln!(f, "{title}: {} rounds", self.rounds)?;
        let heads = [
            "row", "x2", "mid half", "x1", "block", "mean", "p50", "p99", "p99.9", "max", "samples",
        ];
        let mut lines = vec![heads.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::cells));
        f.write_str(&aligned(&lines))
    }
}

impl Report {
    /// The same as one JSON object on one line, without a final newline. Names of members end in
    /// their unit; spreads are objects of `lower_quartile`, `median` and `upper_quartile`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let machine = object(&[
            ("cpu_model", string(&self.machine.cpu_model)),
            ("cpus", self.machine.cpus.to_string()),
            ("is_virtual", self.machine.is_virtual.to_string()),
            ("kernel", string(&self.machine.kernel)),
            ("load", string(&self.machine.load)),
            ("date", string(&self.machine.date)),
        ]);
        object(&[
            ("machine", machine),
            ("caller_cpu", self.cpus.caller.to_string()),
            ("server_cpu", self.cpus.server.to_string()),
            ("is_optimized", self.is_optimized.to_string()),
            ("rounds", self.rounds.to_string()),
            ("elapsed_s", number(self.elapsed.as_secs_f64())),
            ("clock_read_ns", number(self.clock_read_ns)),
            ("sections", array(self.sections.iter().map(Section::to_json))),
        ])
    }
}

impl Section {
    fn to_json(&self) -> String {
        object(&[
            ("regime", string(self.regime.name())),
            ("rounds", self.rounds.to_string()),
            ("rows", array(self.rows.iter().map(Row::to_json))),
        ])
    }
}

impl Row {
    fn cells(&self) -> [String; 11] {
        let Spread { lower_quartile, upper_quartile, median } = self.two_line_ratio;
        [
            self.name.clone(),
            ratio(median),
            format!("{}..{}", ratio(lower_quartile), ratio(upper_quartile)),
            ratio(self.one_line_ratio.median),
            nanoseconds(self.block_ns.median),
            nanoseconds(self.mean_ns),
            nanoseconds(self.p50_ns as f64),
            nanoseconds(self.p99_ns as f64),
            nanoseconds(self.p99_9_ns as f64),
            nanoseconds(self.max_ns as f64),
            count(self.samples),
        ]
    }

    fn to_json(&self) -> String {
        object(&[
            ("name", string(&self.name)),
            ("two_line_ratio", spread_json(self.two_line_ratio)),
            ("one_line_ratio", spread_json(self.one_line_ratio)),
            ("block_ns", spread_json(self.block_ns)),
            ("mean_ns", number(self.mean_ns)),
            ("calls", self.calls.to_string()),
            ("samples", self.samples.to_string()),
            ("p50_ns", self.p50_ns.to_string()),
            ("p99_ns", self.p99_ns.to_string()),
            ("p99_9_ns", self.p99_9_ns.to_string()),
            ("max_ns", self.max_ns.to_string()),
        ])
    }
}

fn spread_json(spread: Spread) -> String {
    object(&[
        ("lower_quartile", number(spread.lower_quartile)),
        ("median", number(spread.median)),
        ("upper_quartile", number(spread.upper_quartile)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(value: f64) -> Spread {
        Spread { lower_quartile: value, median: value, upper_quartile: value }
    }

    fn report(cpus: CpuPair) -> Report {
        let row = Row {
            name: "a \"long\" name: 18".to_owned(),
            two_line_ratio: even(271.4),
            one_line_ratio: even(540.0),
            block_ns: even(27_123.4),
            mean_ns: 31_000.6,
            calls: 40_000,
            samples: 39_999,
            p50_ns: 27_001,
            p99_ns: 43_002,
            p99_9_ns: 99_003,
            max_ns: 8_000_004,
        };
        let machine = Machine {
            cpu_model: "Some CPU".to_owned(),
            cpus: 2,
            is_virtual: true,
            kernel: "6.18".to_owned(),
            load: "0.25".to_owned(),
            date: "2026-11-20 00:00 UTC".to_owned(),
        };
        Report {
            machine,
            cpus,
            is_optimized: true,
            rounds: 10,
            elapsed: Duration::from_millis(1_500),
            clock_read_ns: 24.0,
            sections: vec![Section { regime: Regime::Far, rounds: 10, rows: vec![row] }],
        }
    }

    #[test]
    fn the_table_shows_every_figure_in_100_columns() {
        let text = report(CpuPair { caller: 0, server: 1 }).to_string();
        for shown in [
            "Some CPU, 2 virtual CPUs, Linux 6.18, load 0.25, 2026-11-20",
            "caller on CPU 0, server on CPU 1",
            "far (half of the two-line floor's calls above 200 ns): 10 rounds",
            "a \"long\" name: 18",
            " 271  271..271 ",
            " 540 ",
            " 27123  31001  27001  43002  99003  8.00M  ",
            "39.9k",
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

    #[test]
    fn json_has_the_same_figures() {
        let json = report(CpuPair { caller: 0, server: 1 }).to_json();
        for member in [
            r#""server_cpu":1"#,
            r#""elapsed_s":1.5"#,
            r#""regime":"far","rounds":10,"rows":[{"name":"a \"long\" name: 18","#,
            r#""two_line_ratio":{"lower_quartile":271.4,"median":271.4,"upper_quartile":271.4}"#,
            r#""samples":39999,"p50_ns":27001"#,
        ] {
            assert!(json.contains(member), "{member} is missing in {json}");
        }
    }
}
