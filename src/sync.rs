//! The only door to atomics: the standard library's, or loom's when the rings are model-checked.
//!
//! Invariant: no other file names an atomic type by its original path.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
