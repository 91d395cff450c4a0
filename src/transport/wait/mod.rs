//! How a side of a lane or a pipeline waits for the other, and what ends its waits.

pub(in crate::transport) mod closer;
pub(in crate::transport) mod cpu_hints;
pub(in crate::transport) mod lifeline;
pub(in crate::transport) mod parker;
mod poll_delay;
pub(in crate::transport) mod poll_policy;
pub(in crate::transport) mod polling;
pub(in crate::transport) mod settled;
pub(in crate::transport) mod waiter;
mod yielding;
