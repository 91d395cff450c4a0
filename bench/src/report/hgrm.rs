//! Distributions of latencies as `.hgrm` files, the text form that plotters of HdrHistograms read.
//!
//! Invariant: one file for each row of each regime; values are nanoseconds.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use hdrhistogram::Histogram;

use crate::report::Report;
use crate::{Result, Row};

/// Lines between two halvings of the distance to 100 %.
const TICKS_PER_HALF: u32 = 5;

impl Report {
    /// Writes `near-null-call.hgrm` and so on to a directory, which is made when it is missing.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write_hgrm(&self, directory: &Path) -> Result<()> {
        let refused = |what: &Path, error| format!("writing {}: {error}", what.display());
        fs::create_dir_all(directory).map_err(|error| refused(directory, error))?;
        for section in &self.sections {
            for row in &section.rows {
                let path = directory.join(file_name(section.regime.name(), row));
                fs::write(&path, hgrm(&row.samples)).map_err(|error| refused(&path, error))?;
            }
        }
        Ok(())
    }
}

/// Letters and digits stay; each run of other characters becomes one hyphen.
fn file_name(regime: &str, row: &Row) -> String {
    let text = format!("{regime} {}", row.name).to_lowercase();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    format!("{}.hgrm", words.collect::<Vec<_>>().join("-"))
}

fn hgrm(samples: &Histogram<u64>) -> String {
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut count = 0;
    for step in samples.iter_quantiles(TICKS_PER_HALF) {
        count += step.count_since_last_iteration();
        let (value, share) = (step.value_iterated_to() as f64, step.quantile_iterated_to());
        // Writing to a String cannot fail.
        let _ = write!(text, "{value:12.3} {share:2.12} {count:10}");
        let _ = if share < 1.0 {
            writeln!(text, " {:14.2}", 1.0 / (1.0 - share))
        } else {
            writeln!(text)
        };
    }
    let (mean, deviation) = (samples.mean(), samples.stdev());
    let (max, total) = (samples.max() as f64, samples.len());
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {total:12}]");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuPair;
    use crate::report::tests::report;

    #[test]
    fn every_row_has_a_file_with_its_percentiles() {
        let directory = std::env::temp_dir().join(format!("hgrm-{}", std::process::id()));
        report(CpuPair { caller: 0, server: 1 }).write_hgrm(&directory).unwrap();
        let mut names: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let text = fs::read_to_string(directory.join("far-a-long-name-18.hgrm"));
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(names, ["cold-a-long-name-18.hgrm", "far-a-long-name-18.hgrm"]);
        let text = text.unwrap();
        for line in [
            "       Value     Percentile TotalCount 1/(1-Percentile)",
            "   27007.000 0.500000000000        989           2.00",
            " 8003583.000 1.000000000000       1000",
            "#[Max     =  8003583.000, Total count    =         1000]",
        ] {
            assert!(text.lines().any(|other| other == line), "{line:?} is missing in\n{text}");
        }
    }
}
