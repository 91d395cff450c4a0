//! A report as JSON, and back.
//!
//! Invariant: what is written reads back as an equal report.

use serde::Deserialize;

use crate::{Report, Result, SCHEMA};

impl Report {
    /// The report as one JSON object on one line, without a final newline. Spreads are objects of `lower_quartile`, `median`
    /// and `upper_quartile`. A ratio to floors that did not run is `null`. `histogram_ns` is pairs of nanoseconds and a number
    /// of samples.
    ///
    /// # Errors
    /// None is known; the writer of the library could fail.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// Reads what [`to_json`](Self::to_json) has made.
    ///
    /// # Errors
    /// For text that is no report, and for a report of another [`SCHEMA`].
    pub fn from_json(text: &str) -> Result<Report> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let no_report = |error| format!("not a saved report of farcall bench: {error}");
        let Head { schema } = serde_json::from_str(text).map_err(no_report)?;
        if schema != SCHEMA {
            return Err(format!("a report of schema {schema}; this farcall reads {SCHEMA}").into());
        }
        Ok(serde_json::from_str(text).map_err(no_report)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuPair;
    use crate::report::tests::report;

    #[test]
    fn json_reads_back_as_an_equal_report() {
        let mut report = report(CpuPair { caller: 0, server: 1 });
        report.changes = Some(report.changes_since(&report.clone()));
        let json = report.to_json().unwrap();
        assert_eq!(Report::from_json(&json).unwrap(), report);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let row = &value["sections"][0]["rows"][0];
        assert_eq!(
            (value["schema"].as_u64(), value["commit"].as_str()),
            (Some(1), Some("0123abc"))
        );
        assert_eq!(value["flags"][0], "--bars");
        assert_eq!(value["server_cpu"], 1);
        assert_eq!(row["name"], "a \"long\" name: 18");
        assert_eq!(row["two_line_ratio"]["median"], 271.4);
        assert_eq!((&row["samples"], &row["p50_ns"]), (&1000.into(), &27_007.into()));
        assert_eq!(row["histogram_ns"][0], serde_json::json!([27_007, 989]));
        assert!(value["sections"][1]["rows"][0]["two_line_ratio"].is_null());
        assert_eq!(value["sections"][0]["bars"][0]["bar"]["at_most"], 1.2);
    }

    #[test]
    fn texts_that_are_no_report_of_this_schema_are_refused() {
        for (text, complaint) in [
            ("", "not a saved report"),
            ("{}", "missing field `schema`"),
            (r#"{"schema":1}"#, "not a saved report"),
            (r#"{"schema":7,"new":1}"#, "a report of schema 7; this farcall reads 1"),
        ] {
            let error = Report::from_json(text).unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }
}
