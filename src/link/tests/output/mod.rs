//! Tests of `link::output`: what a link gives.

mod placed_objects;
mod symbol_file;
