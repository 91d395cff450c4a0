//! The one integration test binary: a module per theme.
//!
//! Invariant: every test is black-box: it starts the built command, or uses the public library.

#[path = "../../src/sys/alone.rs"]
mod alone;
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
mod documents;
mod filtered;
mod fresh;
mod hosts;
mod indirect;
mod inside;
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
mod not_ready;
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
