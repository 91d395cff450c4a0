//! Tests of `link::place`: where everything goes.

mod arrays;
mod ifunc;
mod low;
mod placement;
mod unwind;
