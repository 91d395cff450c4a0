//! Tests of `link::output`: the result of a link, as other readers see it.

mod placed_objects;
mod symbol_file;
