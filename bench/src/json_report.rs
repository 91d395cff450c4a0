//! A report as JSON.
//!
//! Invariant: the same figures as in the table, and their spreads; names of members end in their unit.

use crate::json::{array, number, object, string};
use crate::life::{Life, Made};
use crate::removal::{Removals, Removed};
use crate::section::per_second;
use crate::spread::Spread;
use crate::swap::Swap;
use crate::{Comparison, Report, Row, Section};
use crate::{LlvmReport, Rate};

impl Report {
    /// The report as one JSON object on one line, without a final newline. Spreads are objects of `lower_quartile`,
    /// `median` and `upper_quartile`; a ratio to floors that did not run is `null`.
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
        let idle = object(&[
            ("after_ms", self.idle.after.as_millis().to_string()),
            ("window_ms", self.idle.window.as_millis().to_string()),
            ("caller_percent", number(self.idle.caller_percent)),
            ("executor_percent", number(self.idle.executor_percent)),
            ("is_met", self.idle.is_met().to_string()),
        ]);
        object(&[
            ("machine", machine),
            ("caller_cpu", self.cpus.caller.to_string()),
            ("server_cpu", self.cpus.server.to_string()),
            ("is_optimized", self.is_optimized.to_string()),
            ("elapsed_s", number(self.elapsed.as_secs_f64())),
            ("clock_read_ns", number(self.clock_read_ns)),
            ("sections", array(self.sections.iter().map(section))),
            ("stream_removal", removals(&self.removal.stream)),
            ("lane_removal", removals(&self.removal.lane)),
            ("kernel_removal", removed(&self.removal.kernel)),
            ("life", life(&self.life)),
            ("swap", swap(&self.swap)),
            ("idle", idle),
            ("llvm", self.llvm.as_ref().map_or_else(|| "null".to_owned(), LlvmReport::to_json)),
        ])
    }
}

fn removals(removals: &Removals) -> String {
    object(&[("regions", removed(&removals.regions)), ("slabs", removed(&removals.slabs))])
}

fn removed(removed: &Removed) -> String {
    object(&[
        ("count", removed.count.to_string()),
        ("together_ns", spread(removed.together_ns)),
        ("single_ns", spread(removed.single_ns)),
        ("ratio", spread(removed.ratio)),
        ("is_met", removed.is_met().to_string()),
    ])
}

fn life(life: &Life) -> String {
    let made = |made: &Made| {
        object(&[("each_ns", spread(made.each_ns)), ("messages", made.messages.to_string())])
    };
    object(&[
        ("memory", made(&life.memory)),
        ("memory_is_met", life.memory_is_met().to_string()),
        ("link", made(&life.link)),
        ("link_is_met", life.link_is_met().to_string()),
        ("null_ns", number(life.null_ns)),
        ("removal", made(&life.removal)),
        ("removal_is_met", life.removal_is_met().to_string()),
        ("single_removal", made(&life.single_removal)),
    ])
}

fn swap(swap: &Swap) -> String {
    object(&[
        ("count", swap.count.to_string()),
        ("each_ns", spread(swap.each_ns)),
        ("is_met", swap.is_met().to_string()),
    ])
}

fn section(section: &Section) -> String {
    object(&[
        ("regime", string(section.regime.name())),
        ("rounds", section.rounds.to_string()),
        ("places", section.places.to_string()),
        ("rows", array(section.rows.iter().map(row))),
        ("comparisons", array(section.comparisons.iter().map(comparison))),
        ("rate", section.rate.as_ref().map_or_else(|| "null".to_owned(), rate)),
    ])
}

fn rate(rate: &Rate) -> String {
    object(&[
        ("row", string(&rate.row)),
        ("calls_per_s", spread(rate.per_second)),
        ("least_per_s", number(rate.least)),
        ("is_met", rate.is_met().to_string()),
    ])
}

fn row(row: &Row) -> String {
    let ratio = |ratio: Option<Spread>| ratio.map_or_else(|| "null".to_owned(), spread);
    let quantile = |share| row.quantile_ns(share).to_string();
    object(&[
        ("name", string(&row.name)),
        ("two_line_ratio", ratio(row.two_line_ratio)),
        ("one_line_ratio", ratio(row.one_line_ratio)),
        ("block_ns", spread(row.block_ns)),
        ("mean_ns", number(row.mean_ns)),
        ("calls_per_s", per_second(row.mean_ns).to_string()),
        ("calls", row.calls.to_string()),
        ("samples", row.samples.len().to_string()),
        ("p50_ns", quantile(0.5)),
        ("p99_ns", quantile(0.99)),
        ("p99_9_ns", quantile(0.999)),
        ("max_ns", row.samples.max().to_string()),
    ])
}

fn comparison(comparison: &Comparison) -> String {
    object(&[
        ("row", string(&comparison.row)),
        ("base", string(&comparison.base)),
        ("ratio", spread(comparison.ratio)),
        ("bar", string(&comparison.bar.to_string())),
        ("is_met", comparison.is_met().to_string()),
    ])
}

fn spread(spread: Spread) -> String {
    object(&[
        ("lower_quartile", number(spread.lower_quartile)),
        ("median", number(spread.median)),
        ("upper_quartile", number(spread.upper_quartile)),
    ])
}

#[cfg(test)]
mod tests {
    use crate::CpuPair;
    use crate::report::tests::report;

    #[test]
    fn json_has_the_same_figures() {
        let json = report(CpuPair { caller: 0, server: 1 }).to_json();
        for member in [
            r#""server_cpu":1"#,
            r#""elapsed_s":1.5"#,
            r#""regime":"far","rounds":10,"places":7,"rows":[{"name":"a \"long\" name: 18","#,
            r#""two_line_ratio":{"lower_quartile":271.4,"median":271.4,"upper_quartile":271.4}"#,
            r#""two_line_ratio":null,"one_line_ratio":null"#,
            r#""calls_per_s":32257,"calls":40000,"samples":1000,"p50_ns":27007"#,
            r#""row":"a row","base":"another","ratio":{"lower_quartile":1.25,"#,
            r#""bar":"at most 1.2","is_met":false"#,
            r#""executor_percent":0.51,"is_met":false"#,
            r#""swap":{"count":10000,"each_ns":{"lower_quartile":12.6,"#,
        ] {
            assert!(json.contains(member), "{member} is missing in {json}");
        }
    }
}
