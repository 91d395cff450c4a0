//! Tests of `link::read`: objects and archives, sound and damaged.

pub(super) mod archives;
mod cache;
mod damage;
