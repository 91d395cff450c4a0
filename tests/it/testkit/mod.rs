//! Helpers that tests share: executors to call, compiled sources, processes under a deadline.

pub(crate) mod corpus;
pub(crate) mod crates;
pub(crate) mod held;
pub(crate) mod launch;
pub(crate) mod process;
pub(crate) mod processor;
pub(crate) mod programs;
pub(crate) mod tools;
