//! The figures of every run, whatever it measures: tables, bars, rows of samples, and the version of their form.
//!
//! Invariant: knows no row and no process; what is measured and how it is started is said elsewhere.

pub(crate) mod bars;
pub(crate) mod origin;
pub(crate) mod output;
pub(crate) mod samples;
pub(crate) mod section;
pub(crate) mod table;

/// The version of the form of a report in JSON. It grows when a member is removed or changes its meaning.
pub const SCHEMA: u32 = 1;
