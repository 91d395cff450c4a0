//! Calls in both directions: how they are answered, and those that wait for their answers.

pub(in crate::session) mod pending;
pub(in crate::session) mod reply;
