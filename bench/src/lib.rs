//! The two-process latency harness.
