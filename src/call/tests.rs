//! One conformance suite for calls both ways, run over every transport.
//!
//! Invariant: what the suite asks of one transport it asks of all.

mod closing;
mod conformance;
mod nonsense;
mod ways;
