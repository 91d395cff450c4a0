//! A row of the report: something that the machine offers, or does not.

use std::fmt;

/// Columns for the names, and for the values before the last column starts on a line of its own.
const NAME_COLUMNS: usize = 18;
const VALUE_COLUMNS: usize = 44;

/// How the machine does in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// All of it is there.
    Good,
    /// It is there in part, or with a limit that matters.
    Less,
    /// It is not there.
    Missing,
    /// The system does not say.
    Unknown,
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) mark: Mark,
    pub(super) value: String,
    /// What is lost without it.
    pub(super) without: &'static str,
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

    /// A row about something that is there or not.
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
            let indent = NAME_COLUMNS + VALUE_COLUMNS + "ok  ".len();
            write!(f, "{value}\n{:indent$}  without: {without}", "")
        } else {
            write!(f, "{value:VALUE_COLUMNS$}  without: {without}")
        }
    }
}
