//! Tests of `link::graph`: which definition of a name counts, and what it needs.

mod dependencies;
mod resolution;
