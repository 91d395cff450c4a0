//! A report compared with a saved one: a verdict for each row, regime by regime.
//!
//! A row is compared by its ratio to the two-line floor of the same rounds, which does not move with the machine's
//! speed. Rows without that ratio (the floor itself, cold calls) are compared by their time.
//!
//! A change counts only if it is larger than the noise of both runs. The noise of a median is three standard errors. Then 20
//! rows that did not change are all within the noise in 19 of 20 comparisons. A standard error is 0.93 times the interquartile
//! range, divided by the square root of the count of independent measurements (McGill, Tukey and Larsen 1978). Rounds in one
//! process are not independent, because each process draws its addresses once. So a row at several places counts its places,
//! and a row at one place counts at most [`INDEPENDENT_MAX`] rounds.
//!
//! Invariant: figures of two regimes are never compared.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contest::PLACES_MAX;
use crate::figures::table::{aligned, nanoseconds, ratio};
use crate::transports::floor::TwoLines;
use crate::{Regime, Report, Row, Section, Spread};

/// Three standard errors of a median, in ranges between the quartiles: 3 * 1.253 / 1.349 for normal values.
const MARGIN: f64 = 2.78;
/// Rounds of a row at one place that count as independent.
const INDEPENDENT_MAX: usize = PLACES_MAX;
/// Fewer rounds than this in either run give no verdict.
const ROUNDS_MIN: usize = 5;
/// A smaller change than this is within the noise.
const PERCENT_MIN: f64 = 2.0;

/// The verdict for one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Faster by more than the noise.
    Better,
    /// Slower by more than the noise.
    Worse,
    /// The change is within the noise, or below 2 %.
    WithinNoise,
    /// Fewer than 5 rounds in this regime, now or in the saved run.
    FewRounds,
    /// The saved run does not have this row in this regime.
    New,
}

/// A row in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The regime of both figures.
    pub regime: Regime,
    /// The name of the row.
    pub row: String,
    /// True for ratios to the two-line floor, false for nanoseconds.
    pub is_ratio: bool,
    /// The saved median; `None` if the saved run has no such row.
    pub before: Option<f64>,
    /// The median of this run.
    pub now: f64,
    /// The change in percent of the saved median; below 0 is faster.
    pub change_percent: Option<f64>,
    /// The change that noise alone may make, in percent of the saved median.
    pub noise_percent: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// This run against a saved one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changes {
    /// The program and the moment of the saved run.
    pub saved: String,
    /// Differences between the runs, beside the figures.
    pub notes: Vec<String>,
    /// The rows of this run, by regime.
    pub rows: Vec<Change>,
}

impl Report {
    /// Compares the rows of this report with the rows of a saved one.
    #[must_use]
    pub fn changes_since(&self, saved: &Report) -> Changes {
        let mut notes = differences(self, saved);
        let mut rows = Vec::new();
        for section in &self.sections {
            match saved.sections.iter().find(|other| other.regime == section.regime) {
                Some(before) => {
                    rows.extend(section.rows.iter().map(|row| change(section, row, before)))
                }
                None => notes.push(format!(
                    "{}: the saved run has no rounds in this regime, so its rows are not compared",
                    section.regime.name()
                )),
            }
        }
        for section in &saved.sections {
            if !self.sections.iter().any(|other| other.regime == section.regime) {
                let regime = section.regime.name();
                notes.push(format!("{regime}: only the saved run has rounds in this regime"));
            }
        }
        let saved = format!("{}, {}", saved.machine.date, saved.origin.program());
        Changes { saved, notes, rows }
    }
}

impl Changes {
    /// True if a row is slower by more than the noise. A slower floor is a slower machine and does not count.
    #[must_use]
    pub fn is_worse(&self) -> bool {
        self.count(Verdict::Worse) > 0
    }

    /// The number of rows with this verdict, without the floors.
    fn count(&self, verdict: Verdict) -> usize {
        let is_counted = |row: &&Change| row.verdict == verdict && !row.row.ends_with("floor");
        self.rows.iter().filter(is_counted).count()
    }
}

fn change(section: &Section, row: &Row, saved: &Section) -> Change {
    let before = saved.rows.iter().find(|other| other.name == row.name);
    let is_floor = row.name == TwoLines::NAME;
    let is_ratio = !is_floor
        && row.two_line_ratio.is_some()
        && before.is_none_or(|before| before.two_line_ratio.is_some());
    let figure = |row: &Row| row.two_line_ratio.filter(|_| is_ratio).unwrap_or(row.block_ns);
    let now = figure(row);
    let mut change = Change {
        regime: section.regime,
        row: row.name.clone(),
        is_ratio,
        before: None,
        now: now.median,
        change_percent: None,
        noise_percent: None,
        verdict: Verdict::New,
    };
    if let Some(other) = before {
        let before = figure(other);
        let percent = 100.0 / before.median.max(f64::MIN_POSITIVE);
        let change_percent = (now.median - before.median) * percent;
        let noise = noise(now, row, section).hypot(noise(before, other, saved)) * percent;
        let noise = noise.max(PERCENT_MIN);
        change.before = Some(before.median);
        change.change_percent = Some(change_percent);
        change.noise_percent = Some(noise);
        change.verdict = if section.rounds.min(saved.rounds) < ROUNDS_MIN {
            Verdict::FewRounds
        } else if change_percent < -noise {
            Verdict::Better
        } else if change_percent > noise {
            Verdict::Worse
        } else {
            Verdict::WithinNoise
        };
    }
    change
}

/// How far the median of a row may lie from the median of many runs.
fn noise(figure: Spread, row: &Row, section: &Section) -> f64 {
    let at_one_place = section.rounds.min(INDEPENDENT_MAX);
    let independent = if row.places > 1 { row.places } else { at_one_place };
    MARGIN * (figure.upper_quartile - figure.lower_quartile) / (independent.max(1) as f64).sqrt()
}

/// The differences between the runs that move figures.
fn differences(now: &Report, saved: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let mut differ = |what: &str, before: String, after: String| {
        if before != after {
            notes.push(format!("{what}: {before} in the saved run, {after} now"));
        }
    };
    differ("machine", saved.machine.processors(), now.machine.processors());
    differ("kernel", saved.machine.kernel.clone(), now.machine.kernel.clone());
    let build = |report: &Report| if report.is_optimized { "with" } else { "without" }.to_owned();
    differ("optimization", build(saved), build(now));
    if now.machine.processors() == saved.machine.processors() {
        let cpus = |report: &Report| format!("{},{}", report.cpus.caller, report.cpus.server);
        differ("CPUs", cpus(saved), cpus(now));
    }
    notes.extend(
        saved.warnings.iter().map(|warning| format!("warning in the saved run: {warning}")),
    );
    notes
}

impl Verdict {
    const ALL: [Verdict; 5] =
        [Verdict::Better, Verdict::Worse, Verdict::WithinNoise, Verdict::FewRounds, Verdict::New];

    fn words(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::WithinNoise => "within noise",
            Verdict::FewRounds => "too few rounds",
            Verdict::New => "not in the saved run",
        }
    }
}

impl Change {
    fn cells(&self) -> [String; 7] {
        let show = if self.is_ratio { ratio } else { nanoseconds };
        let percent = |value: Option<f64>, sign: &str| {
            let shown = value.map(|value| {
                if sign.is_empty() {
                    format!("{value:+.1} %")
                } else {
                    format!("{sign}{value:.1} %")
                }
            });
            shown.unwrap_or_else(|| "-".to_owned())
        };
        [
            self.row.clone(),
            if self.is_ratio { "x2" } else { "ns" }.to_owned(),
            self.before.map_or_else(|| "-".to_owned(), show),
            show(self.now),
            percent(self.change_percent, ""),
            percent(self.noise_percent, "±"),
            self.verdict.words().to_owned(),
        ]
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "compared with the saved run of {}", self.saved)?;
        for note in &self.notes {
            writeln!(f, "note     {note}")?;
        }
        for regime in Regime::ALL {
            let rows: Vec<_> = self.rows.iter().filter(|row| row.regime == regime).collect();
            if rows.is_empty() {
                continue;
            }
            writeln!(f)?;
            let heads = [regime.name(), "", "saved", "now", "change", "noise", "verdict"];
            let mut lines = vec![heads.map(str::to_owned)];
            lines.extend(rows.into_iter().map(Change::cells));
            f.write_str(&aligned(&lines))?;
        }
        let counts =
            Verdict::ALL.map(|verdict| format!("{} {}", self.count(verdict), verdict.words()));
        writeln!(f, "\nverdict  {}", counts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuPair;
    use crate::report::tests::report;

    /// A run of one row in one regime, by its ratio and the range between the quartiles.
    fn run(regime: Regime, rounds: usize, places: usize, median: f64, range: f64) -> Report {
        let mut made = report(CpuPair { caller: 0, server: 1 });
        let spread = |median: f64| Spread {
            lower_quartile: median - range / 2.0,
            median,
            upper_quartile: median + range / 2.0,
        };
        made.sections.truncate(1);
        let section = &mut made.sections[0];
        (section.regime, section.rounds) = (regime, rounds);
        let row = &mut section.rows[0];
        (row.places, row.name) = (places, "null call".to_owned());
        // The machine is twice as slow, which the ratio does not show.
        row.block_ns = spread(median * 1_000.0);
        row.two_line_ratio = Some(spread(median));
        made
    }

    fn verdict(now: &Report, saved: &Report) -> Verdict {
        let changes = now.changes_since(saved);
        assert_eq!(changes.rows.len(), 1, "{changes}");
        changes.rows[0].verdict
    }

    #[test]
    fn a_change_beyond_the_noise_of_both_runs_has_a_direction() {
        let near = |median, range| run(Regime::Near, 100, 16, median, range);
        // The noise of either is 2.78 * 0.1 / 4 = 0.07, of both 0.098.
        let saved = near(1.0, 0.1);
        for (median, verdict_due) in [
            (0.89, Verdict::Better),
            (0.91, Verdict::WithinNoise),
            (1.0, Verdict::WithinNoise),
            (1.09, Verdict::WithinNoise),
            (1.11, Verdict::Worse),
        ] {
            assert_eq!(verdict(&near(median, 0.1), &saved), verdict_due, "{median}");
        }
        let changes = near(1.11, 0.1).changes_since(&saved);
        assert!(changes.is_worse() && changes.rows[0].is_ratio);
        assert!((changes.rows[0].change_percent.unwrap() - 11.0).abs() < 1e-9);
        assert!((changes.rows[0].noise_percent.unwrap() - 9.83).abs() < 0.01, "{changes}");
        assert!(!near(0.5, 0.1).changes_since(&saved).is_worse());
    }

    #[test]
    fn noise_grows_with_the_range_and_with_fewer_places() {
        let saved = run(Regime::Far, 100, 16, 1.0, 0.1);
        assert_eq!(verdict(&run(Regime::Far, 100, 16, 1.2, 0.1), &saved), Verdict::Worse);
        assert_eq!(verdict(&run(Regime::Far, 100, 16, 1.2, 0.9), &saved), Verdict::WithinNoise);
        assert_eq!(verdict(&run(Regime::Far, 100, 2, 1.08, 0.1), &saved), Verdict::WithinNoise);
        // Many rounds at one place count as 16.
        let one_place = |rounds| run(Regime::Far, rounds, 1, 1.0, 0.1);
        let noise =
            |rounds| one_place(rounds).changes_since(&one_place(rounds)).rows[0].noise_percent;
        assert_eq!(noise(16), noise(10_000));
        assert!(noise(16) < noise(8));
        // Runs without any range still differ by 2 % for nothing.
        let even = run(Regime::Far, 100, 16, 1.0, 0.0);
        assert_eq!(verdict(&run(Regime::Far, 100, 16, 1.019, 0.0), &even), Verdict::WithinNoise);
        assert_eq!(verdict(&run(Regime::Far, 100, 16, 1.021, 0.0), &even), Verdict::Worse);
    }

    #[test]
    fn few_rounds_give_no_verdict() {
        let saved = run(Regime::Near, 100, 16, 1.0, 0.0);
        assert_eq!(verdict(&run(Regime::Near, 4, 4, 9.0, 0.0), &saved), Verdict::FewRounds);
        assert_eq!(verdict(&run(Regime::Near, 5, 5, 9.0, 0.0), &saved), Verdict::Worse);
    }

    #[test]
    fn regimes_are_kept_apart_and_a_missing_regime_is_said() {
        let (near, far) = (run(Regime::Near, 50, 16, 1.0, 0.1), run(Regime::Far, 50, 16, 9.0, 0.1));
        let changes = near.changes_since(&far);
        assert!(changes.rows.is_empty() && !changes.is_worse());
        let text = changes.to_string();
        assert!(text.contains("near: the saved run has no rounds in this regime"), "{text}");
        assert!(text.contains("far: only the saved run has rounds in this regime"), "{text}");
    }

    #[test]
    fn rows_without_a_ratio_are_compared_by_time() {
        let mut saved = run(Regime::Cold, 50, 1, 1.0, 0.1);
        saved.sections[0].rows[0].two_line_ratio = None;
        let mut now = saved.clone();
        now.sections[0].rows[0].block_ns = Spread::exact(2_000.0);
        let other = Row { name: "futex".to_owned(), ..now.sections[0].rows[0].clone() };
        now.sections[0].rows.push(other);
        let changes = now.changes_since(&saved);
        let verdicts: Vec<_> = changes.rows.iter().map(|row| (row.is_ratio, row.verdict)).collect();
        assert_eq!(verdicts, [(false, Verdict::Worse), (false, Verdict::New)]);
        let text = changes.to_string();
        assert!(text.contains("null call  ns   1000  2000  +100.0 %  ±2.0 %"), "{text}");
        assert!(text.contains("not in the saved run"), "{text}");
    }

    #[test]
    fn a_slower_machine_is_no_slower_program() {
        let mut saved = run(Regime::Near, 50, 16, 1.0, 0.0);
        let row = &mut saved.sections[0].rows[0];
        (row.name, row.block_ns) = ("two-line floor".to_owned(), Spread::exact(50.0));
        let mut now = saved.clone();
        now.sections[0].rows[0].block_ns = Spread::exact(90.0);
        let changes = now.changes_since(&saved);
        assert_eq!((changes.rows[0].is_ratio, changes.rows[0].verdict), (false, Verdict::Worse));
        assert!(!changes.is_worse());
    }

    #[test]
    fn other_machines_and_builds_are_noted() {
        let saved = run(Regime::Near, 50, 16, 1.0, 0.1);
        assert!(saved.changes_since(&saved).notes.is_empty());
        let mut now = saved.clone();
        now.machine.kernel = "7.0".to_owned();
        now.is_optimized = false;
        now.cpus.server = 5;
        let mut partial = saved.clone();
        partial.warnings.push("partial".to_owned());
        let notes = now.changes_since(&partial).notes;
        let due = [
            "kernel: 6.18 in the saved run, 7.0 now",
            "optimization: with in the saved run, without now",
            "CPUs: 0,1 in the saved run, 0,5 now",
            "warning in the saved run: partial",
        ];
        assert_eq!(notes, due);
    }
}
