//! A report as CSV: one line for each row of each regime, for spreadsheets and data frames.
//!
//! Invariant: names of columns end in their unit, and a figure that a row lacks is an empty cell.

use serde::{Deserialize, Serialize};

use crate::figures::section::per_second;
use crate::{Report, Result, Row, Section, Spread};

/// One line.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    regime: String,
    row: String,
    rounds: usize,
    places: usize,
    x2: Option<f64>,
    x2_lower_quartile: Option<f64>,
    x2_upper_quartile: Option<f64>,
    x1: Option<f64>,
    block_ns: f64,
    block_lower_quartile_ns: f64,
    block_upper_quartile_ns: f64,
    mean_ns: f64,
    calls_per_s: u64,
    calls: u64,
    samples: u64,
    p50_ns: u64,
    p99_ns: u64,
    p99_9_ns: u64,
    max_ns: u64,
}

impl Report {
    /// The rows of all regimes as CSV with a heading.
    ///
    /// # Errors
    /// None is known; the writer of the library could fail.
    pub fn to_csv(&self) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for section in &self.sections {
            for row in &section.rows {
                writer.serialize(Line::of(section, row))?;
            }
        }
        Ok(writer.into_inner()?)
    }
}

impl Line {
    fn of(section: &Section, row: &Row) -> Line {
        let x2 = |part: fn(Spread) -> f64| row.two_line_ratio.map(part);
        Line {
            regime: section.regime.name().to_owned(),
            row: row.name.clone(),
            rounds: section.rounds,
            places: row.places,
            x2: x2(|spread| spread.median),
            x2_lower_quartile: x2(|spread| spread.lower_quartile),
            x2_upper_quartile: x2(|spread| spread.upper_quartile),
            x1: row.one_line_ratio.map(|spread| spread.median),
            block_ns: row.block_ns.median,
            block_lower_quartile_ns: row.block_ns.lower_quartile,
            block_upper_quartile_ns: row.block_ns.upper_quartile,
            mean_ns: row.mean_ns,
            calls_per_s: per_second(row.mean_ns),
            calls: row.calls,
            samples: row.samples.len(),
            p50_ns: row.quantile_ns(0.5),
            p99_ns: row.quantile_ns(0.99),
            p99_9_ns: row.quantile_ns(0.999),
            max_ns: row.samples.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuPair;
    use crate::report::tests::report;

    #[test]
    fn every_row_is_read_back_with_its_figures() {
        let report = report(CpuPair { caller: 0, server: 1 });
        let text = report.to_csv().unwrap();
        let mut reader = csv::Reader::from_reader(&*text);
        let lines: Vec<Line> = reader.deserialize().collect::<std::result::Result<_, _>>().unwrap();
        let rows =
            report.sections.iter().flat_map(|one| one.rows.iter().map(move |row| (one, row)));
        assert_eq!(lines, rows.map(|(section, row)| Line::of(section, row)).collect::<Vec<_>>());
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].x2, lines[1].x2), (Some(271.4), None));
        assert_eq!((lines[0].regime.as_str(), lines[0].p50_ns), ("far", 27_007));
    }
}
