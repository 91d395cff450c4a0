//! The one integration test binary: a module per theme.
//!
//! Invariant: every test is black-box: it starts the built command, or uses the public library.

mod backtrace;
mod bench;
mod churn;
mod command;
mod conformance;
mod corpus;
mod crash;
mod crates;
mod debugger;
mod demo;
mod fresh;
mod indirect;
mod inspect;
mod jit;
mod killed;
mod lanes;
mod lazy;
mod leftovers;
mod library;
mod link_phases;
mod link_time;
mod memory;
mod pipelines;
mod process;
mod profilers;
mod programs;
mod real;
mod refuse;
mod registration;
mod reload;
mod rules;
mod run;
mod soak;
mod swap;
mod table;
mod thread_locals;
mod tidy;
mod typed;
mod watch;
