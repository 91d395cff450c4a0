//! The words of measuring: rows and how they are timed, their sizes, their regimes, their spreads, and shares of a run's time.
//!
//! Invariant: knows no row; imports nothing else of this crate.

pub(crate) mod budget;
pub(crate) mod contender;
pub(crate) mod regime;
pub(crate) mod size;
pub(crate) mod spread;
