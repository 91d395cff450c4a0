//! Tests of `link::place`: blocks, tables and addresses.

mod arrays;
mod ifunc;
mod low;
mod placement;
mod unwind;
