//! The result of a run: plain data, as a text table, JSON, CSV, `.hgrm` files or a picture.
//!
//! Invariant: ratios come first; each figure is shown with its machine and its regime.

pub(crate) mod changes;
mod csv;
mod hgrm;
mod json;
mod svg;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contest::ROUNDS_MIN;
use crate::{
    Busy, Changes, CpuPair, HotSwap, Idle, InProcess, Judged, Life, LljitReport, LlvmReport, Load,
    Machine, Origin, Regime, Removal, SCHEMA, Section, Start,
};

/// The result of a run. `Display` is the text table, at most 100 columns wide for names of
/// at most 18 characters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program and its flags.
    #[serde(flatten)]
    pub origin: Origin,
    /// True if the run was interrupted, so that parts are missing or short.
    pub is_partial: bool,
    /// Reasons to trust the figures less.
    pub warnings: Vec<String>,
    /// The machine and the moment.
    pub machine: Machine,
    /// Other work on the machine before the start.
    pub load: Load,
    /// The CPUs of the two sides.
    #[serde(flatten)]
    pub cpus: CpuPair,
    /// True when the harness was compiled with optimization; figures are not valid otherwise.
    pub is_optimized: bool,
    /// The length of the whole run in seconds.
    pub elapsed_s: f64,
    /// The cost of the clock read that each sample includes.
    pub clock_read_ns: f64,
    /// The results by regime; only regimes that occurred.
    pub sections: Vec<Section>,
    /// The cost of deallocating memory.
    pub removal: Option<Removal>,
    /// The cost of allocating memory, and of linking and removing code.
    pub life: Option<Life>,
    /// The cost of a hot swap.
    pub hot_swap: Option<HotSwap>,
    /// The cost of a call in the same process.
    #[serde(default)]
    pub in_process: Option<InProcess>,
    /// The time from the start of an executor to its first answer.
    #[serde(default)]
    pub start: Option<Start>,
    /// The CPU time of an idle session.
    pub idle: Option<Idle>,
    /// Calls beside busy loops.
    #[serde(default)]
    pub busy: Option<Busy>,
    /// The comparison with LLVM's command, if it was asked for.
    pub llvm: Option<LlvmReport>,
    /// LLVM's LLJIT by three executors, if that was asked for.
    #[serde(default)]
    pub lljit: Option<LljitReport>,
    /// The figures of operations beside calls that the project has bars for; empty unless the plan asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bars: Vec<Judged>,
    /// The comparison with a saved run, if it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

impl Report {
    /// A report without figures.
    pub(crate) fn new(origin: Origin, machine: Machine, load: Load, cpus: CpuPair) -> Report {
        Report {
            schema: SCHEMA,
            origin,
            is_partial: false,
            warnings: Vec::new(),
            machine,
            load,
            cpus,
            is_optimized: !cfg!(debug_assertions),
            elapsed_s: 0.0,
            clock_read_ns: 0.0,
            sections: Vec::new(),
            removal: None,
            life: None,
            hot_swap: None,
            in_process: None,
            start: None,
            idle: None,
            busy: None,
            llvm: None,
            lljit: None,
            bars: Vec::new(),
            changes: None,
        }
    }

    /// True if nothing was measured.
    pub(crate) fn is_empty(&self) -> bool {
        let Report { sections, removal, life, hot_swap, in_process, start, .. } = self;
        let Report { idle, busy, llvm, lljit, .. } = self;
        sections.is_empty()
            && removal.is_none()
            && life.is_none()
            && hot_swap.is_none()
            && in_process.is_none()
            && start.is_none()
            && idle.is_none()
            && busy.is_none()
            && llvm.is_none()
            && lljit.is_none()
    }

    /// Puts the costs beside the project's bars.
    pub(crate) fn judge(&mut self) {
        let removal = self.removal.iter().flat_map(Removal::judged);
        let life = self.life.iter().flat_map(Life::judged);
        let hot_swap = self.hot_swap.iter().map(HotSwap::judged);
        let in_process = self.in_process.iter().flat_map(InProcess::judged);
        let start = self.start.iter().map(Start::judged);
        let idle = self.idle.iter().flat_map(Idle::judged);
        let lljit = self.lljit.iter().flat_map(LljitReport::judged);
        let costs = removal.chain(life).chain(hot_swap).chain(in_process);
        let costs = costs.chain(start).chain(idle);
        self.bars = costs.chain(lljit).collect();
    }

    /// Adds these warnings, and those that follow from the report itself.
    pub(crate) fn warn(&mut self, warnings: Vec<String>) {
        if self.is_partial {
            self.warnings
                .push("partial: the run was interrupted, parts are missing or short".to_owned());
        }
        if !self.is_optimized {
            let build = "compiled without optimization: build with --release for figures";
            self.warnings.push(build.to_owned());
        }
        let rounds = |regime: Regime| {
            self.sections
                .iter()
                .filter(|one| one.regime == regime)
                .map(|one| one.rounds)
                .sum::<usize>()
        };
        let hot = rounds(Regime::Near) + rounds(Regime::Far);
        if (1..ROUNDS_MIN).contains(&hot) {
            self.warnings.push(format!(
                "few rounds of hot calls: {hot}; fewer than {ROUNDS_MIN} say little"
            ));
        }
        self.warnings.extend(warnings);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "farcall bench: round trips between two processes, all rows in every round")?;
        writeln!(f, "machine  {}", self.machine.processors())?;
        writeln!(f, "moment   {}, {}", self.machine.moment(), self.origin.program())?;
        let CpuPair { caller, server } = self.cpus;
        if self.cpus.is_shared() {
            writeln!(f, "pinning  both sides on CPU {caller}; polls yield")?;
        } else {
            writeln!(f, "pinning  caller on CPU {caller}, server on CPU {server}")?;
        }
        let rounds: usize = self.sections.iter().map(|section| section.rounds).sum();
        writeln!(f, "rounds   {rounds} in {:.1} s, blocks of about 1 ms", self.elapsed_s)?;
        let clock = format!("one read ({:.0} ns) is in each sample", self.clock_read_ns);
        writeln!(f, "clock    {clock}, none in block")?;
        writeln!(
            f,
            "x2, x1   block by the two-line, the one-line floor's of the same round: median"
        )?;
        writeln!(f, "units    block: ns per call; p50 to max: ns of sampled calls")?;
        for warning in &self.warnings {
            writeln!(f, "WARNING  {warning}")?;
        }
        for section in &self.sections {
            write!(f, "\n{section}")?;
        }
        let costs = [
            self.removal.as_ref().map(Removal::to_string),
            self.life.as_ref().map(Life::to_string),
            self.hot_swap.as_ref().map(HotSwap::to_string),
            self.in_process.as_ref().map(InProcess::to_string),
            self.start.as_ref().map(Start::to_string),
            self.idle.as_ref().map(Idle::to_string),
            self.busy.as_ref().map(Busy::to_string),
            self.llvm.as_ref().map(LlvmReport::to_string),
            self.lljit.as_ref().map(LljitReport::to_string),
        ];
        let costs: String = costs.into_iter().flatten().collect();
        let changes = self.changes.as_ref().map(Changes::to_string).unwrap_or_default();
        for block in [costs, Judged::table(&self.bars), changes] {
            if !block.is_empty() {
                write!(f, "\n{block}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::busy::figures::tests::load;
    use crate::figures::samples::new_histogram;
    use crate::{Bar, Made, Regime, Removals, Removed, Row, Spread};

    fn even(value: f64) -> Spread {
        Spread::exact(value)
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
            places: 7,
            samples,
        };
        let missed = Judged::new("a row / another", even(1.25), Bar::AtMost(1.2));
        let cold = Row { two_line_ratio: None, one_line_ratio: None, places: 1, ..row.clone() };
        let met = Judged::new("a row / another", even(1.25), Bar::AtLeast(1.25));
        let machine = Machine {
            cpu_model: "Some CPU".to_owned(),
            cpus: 2,
            is_virtual: true,
            kernel: "6.18".to_owned(),
            load: "0.25".to_owned(),
            date: "2026-11-20 00:00 UTC".to_owned(),
        };
        let section = |regime, places, row, judged| Section {
            regime,
            rounds: 10,
            places,
            rows: vec![row],
            bars: vec![judged],
        };
        let removed = Removed {
            count: 1000,
            together_ns: even(132.6),
            single_ns: even(2_652.0),
            ratio: even(20.0),
        };
        let removals = Removals { regions: removed, slabs: Removed { count: 100, ..removed } };
        let work = Load { average_per_cpu: 0.1, busy_percent: 1.0, steal_percent: 0.0 };
        let origin = Origin {
            version: "0.1.0".to_owned(),
            commit: Some("0123abc".to_owned()),
            flags: vec!["--bars".to_owned()],
        };
        let mut report = Report {
            is_optimized: true,
            elapsed_s: 1.5,
            clock_read_ns: 24.0,
            sections: vec![
                section(Regime::Far, 7, row, missed),
                section(Regime::Cold, 1, cold, met),
            ],
            removal: Some(Removal { stream: removals, lane: removals, kernel: removed }),
            life: Some(Life {
                memory: Made { each_ns: even(63.0), messages: 0 },
                link: Made { each_ns: even(11_001.0), messages: 2_000 },
                null_ns: 100.0,
                removal: Made { each_ns: even(700.0), messages: 1 },
                single_removal: Made { each_ns: even(1_400.0), messages: 1_000 },
            }),
            hot_swap: Some(HotSwap { count: 10_000, each_ns: even(12.6) }),
            in_process: Some(InProcess {
                count: 20_000,
                native_ns: even(1.5),
                pointer_ns: even(1.5),
                pointer_by_native: even(1.0),
                call_ns: even(13.0),
                one_object_ms: even(1.8),
                many_objects_ms: even(12.5),
            }),
            start: Some(Start { count: 110, each_us: even(1_234.4) }),
            idle: Some(Idle {
                after_ms: 100,
                window_ms: 300,
                caller_percent: 0.01,
                executor_percent: 0.51,
            }),
            busy: Some(Busy { loads: vec![load("each-1", &[("null call", 9_000_000)])] }),
            llvm: Some(LlvmReport::Absent),
            lljit: Some(LljitReport::NotBuilt),
            ..Report::new(origin, machine, work, cpus)
        };
        report.judge();
        report
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
            "moment   Linux 6.18, load 0.25, 2026-11-20 00:00 UTC, farcall 0.1.0 (0123abc)\n",
            "a row / another    1.25  1.25..1.25  at most 1.2  MISSED\n",
            "cold (one call after 5 ms of rest): 10 rounds\n",
            "  -         -   -  27123 ",
            "at least 1.25  met\n",
            "1000 regions, stream: 133 ns each together, 2652 alone: 20.0 times\n",
            "remove   100 slabs, stream: ",
            "1000 regions, lane: 133 ns each together, 2652 alone: 20.0 times\n",
            "remove   100 slabs, lane: ",
            "4 KiB data: 63 ns beyond writing, 0 messages\n",
            "looked up: 11001 ns\n",
            "one tracker: 700 ns each, 1 messages, 1400 alone\n",
            "hot swap a function is redirected 10000 times: 13 ns each\n",
            "LLVM 22: not installed here, no comparison\n",
            "lljit    not beside this command: build examples/llvm, no comparison\n",
            "start    an executor to its first answer, 110 times: 1234 us, quartiles 1234 and 1234\n",
            "busy     each-1, p50/p99.9 ns: null call 9.00M/27.0M\n",
            "100 to 400 ms after a call: caller 0.01 %, executor 0.51 % of a CPU\n",
        ] {
            assert!(text.contains(shown), "{shown:?} is missing in\n{text}");
        }
        assert!(!text.contains("WARNING"));
        for (figure, end) in [
            ("remove slabs, lane: alone / together", "  at least 20     met"),
            ("link, ns", "at most 11.0k  MISSED"),
            ("idle executor, % of a CPU", "at most 0.5  MISSED"),
        ] {
            let is_judged = |line: &str| line.starts_with(figure) && line.ends_with(end);
            assert!(text.lines().any(is_judged), "{figure} is not {end} in\n{text}");
        }
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(100), "{widest:?} columns:\n{text}");
    }

    #[test]
    fn a_shared_cpu_and_warnings_are_said() {
        let mut shared = Report {
            is_optimized: false,
            is_partial: true,
            ..report(CpuPair { caller: 3, server: 3 })
        };
        shared.warn(vec!["the machine is busy".to_owned()]);
        let text = shared.to_string();
        for shown in [
            "both sides on CPU 3;",
            "WARNING  partial: ",
            "WARNING  compiled without optimization",
            "WARNING  few rounds of hot calls: 10; ",
            "WARNING  the machine is busy\n",
        ] {
            assert!(text.contains(shown), "{shown} is missing in\n{text}");
        }
    }

    #[test]
    fn a_report_without_parts_shows_none() {
        let Report { origin, machine, load, cpus, .. } = report(CpuPair { caller: 0, server: 1 });
        let empty = Report::new(origin, machine, load, cpus);
        assert!(empty.is_empty() && !report(cpus).is_empty());
        assert!(empty.to_string().ends_with("sampled calls\n"), "{empty}");
    }
}
