//! How a unit supplies what it defines: the unit, its responsibility, what it emits, and which symbols wait for others.

pub(in crate::jit) mod emission;
pub(in crate::jit) mod responsibility;
pub(in crate::jit) mod unit;
pub(in crate::jit) mod waiting_on_graph;
