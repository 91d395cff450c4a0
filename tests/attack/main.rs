//! Attacks on a controller: linked code that does what it must not, systems that refuse, hosts that are unusual.
//!
//! Each test runs in a process of its own, with a bound of time. A hang, an abort and a death are failures with a name.
//!
//! Invariant: a test asks for a result or an error in bounded time, never for a certain way to get there.

mod apart;
mod confined;
#[path = "../it/testkit/corpus.rs"]
#[allow(dead_code, reason = "tests/it uses the rest")]
mod corpus;
mod counts;
mod faults;
mod filter;
mod hosts;
mod interrupts;
mod random;
mod session;
mod sources;
mod start;
mod syscalls;
#[path = "../it/testkit/tools.rs"]
#[allow(dead_code, reason = "tests/it uses it")]
mod tools;
mod ways;
