//! The one integration test binary: a module per theme.
//!
//! Invariant: every test is black-box: it starts the built command, or uses the public library.

#[path = "../alone.rs"]
mod alone;
mod as_native;
mod call;
mod commands;
mod controller;
mod executor;
mod forks;
mod house;
mod interrupt;
mod jit;
mod link;
mod place;
mod testkit;
