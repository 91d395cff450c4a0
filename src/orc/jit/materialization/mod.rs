//! How a unit supplies what it defines: units of the library, responsibilities, and what they emit.

pub(in crate::jit) mod emission;
mod responsibility;
pub(in crate::jit) mod unit;
