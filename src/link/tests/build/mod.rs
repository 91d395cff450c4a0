//! Tests of `link::build`: objects of machine code that was made by hand. `tests/it/link/hand_made.rs` runs some.

mod frames;
mod handler_stub;
mod objects;
