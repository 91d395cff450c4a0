//! Tests of `link::read`: objects and archives, sound and damaged.

mod archives;
mod cache;
mod damage;
