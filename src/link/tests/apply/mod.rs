//! Tests of `link::apply`: fields, and the code around them.

mod dynamic_threads;
mod pieces;
mod relocations;
mod thread_locals;
