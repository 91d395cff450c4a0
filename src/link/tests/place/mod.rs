//! Tests of `link::place`: where everything goes.

mod arrays;
mod indirect;
mod low;
mod placement;
mod unwind;
