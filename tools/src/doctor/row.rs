//! A row of the report: one thing that the machine offers, or does not.

use std::fmt;

/// Columns of the names and of the values. After a longer value the last column starts on the next line.
const NAME_COLUMNS: usize = 18;
const VALUE_COLUMNS: usize = 42;

/// The line above the rows.
pub(super) fn header() -> String {
    format!("    {:NAME_COLUMNS$}{:VALUE_COLUMNS$}  without it", "what", "here")
}

/// The machine's offer in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// All of it.
    Good,
    /// A part of it, or a limit below what farcall needs.
    Less,
    /// Nothing of it.
    Missing,
    /// The system does not say.
    Unknown,
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    mark: Mark,
    value: String,
    /// The loss without it.
    without: &'static str,
}

impl Row {
    pub(super) fn new(
        name: &'static str,
        mark: Mark,
        value: impl Into<String>,
        without: &'static str,
    ) -> Self {
        Self { name, mark, value: value.into(), without }
    }

    /// A row that is [`Mark::Good`] with a value, or [`Mark::Missing`] with a reason.
    pub(super) fn found(
        name: &'static str,
        found: Result<String, String>,
        without: &'static str,
    ) -> Self {
        match found {
            Ok(value) => Self::new(name, Mark::Good, value, without),
            Err(why) => Self::new(name, Mark::Missing, why, without),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.mark {
            Mark::Good => "ok",
            Mark::Less => "--",
            Mark::Missing => "no",
            Mark::Unknown => "? ",
        };
        let Self { name, value, without, .. } = self;
        write!(f, "{mark}  {name:NAME_COLUMNS$}")?;
        if value.chars().count() > VALUE_COLUMNS {
            let indent = "ok  ".len() + NAME_COLUMNS + VALUE_COLUMNS;
            write!(f, "{value}\n{:indent$}  {without}", "")
        } else {
            write!(f, "{value:VALUE_COLUMNS$}  {without}")
        }
    }
}
