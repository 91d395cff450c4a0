//! Data structures for threads of one process, on the asymmetric fence of [`sys`](crate::sys).
//!
//! | type | for |
//! |---|---|
//! | [`hazard::HazardTable`] | values that many threads use without a locked instruction, while any thread may remove one |
//! | [`biased::BiasedMutex`] | a mutex that costs the thread that locks it most no locked instruction |
//!
//! Invariant: each has a loom model, in which a planted fault is found.
#![allow(unsafe_code, reason = "values behind pointers that hazards protect, and behind a lock")]

#[cfg(any(not(model), loom))]
pub(crate) mod biased;
#[cfg(any(not(model), loom))]
pub(crate) mod hazard;
