//! Tests of `link::read`: files in.

mod archives;
mod cache;
mod damage;
