//! The faults that an attack on this library has found, by the numbers of their list: a test for each says what holds instead.

mod callers;
mod deadlines;
mod deaths;
mod processes;
mod resources;
mod tracers;
