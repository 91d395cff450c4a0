//! Calls: numbered requests and their answers over a lane or a [`pipeline`], and the functions that both sides know.
//!
//! A call is bytes in, bytes out, of a wrapper function named by its address (in the executor) or of a registered
//! handler tag (in the controller). While a side waits for an answer it serves the calls that come back to it, so calls
//! nest to any depth in both directions on one lane, each side's stack mirroring the other's. Every thread that calls has a
//! lane of its own ([`Lanes`]).
//!
//! Invariant: an endpoint belongs to one thread at a time; a call completes exactly once; errors of the session and
//! errors that the other side answered with are told apart ([`Error::is_remote`](crate::Error::is_remote)).
#![forbid(unsafe_code)]

pub(crate) mod contract;
mod counters;
mod endpoint;
#[cfg(not(model))]
mod grace_period;
mod lanes;
#[cfg(test)]
#[cfg(loom)]
mod model;
mod other_names;
#[cfg(test)]
#[cfg(shuttle)]
mod outcome_counters;
pub(crate) mod pipeline;
mod posts;
mod serving;
#[cfg(test)]
#[cfg(shuttle)]
mod sessions;
#[cfg(test)]
#[cfg(not(model))]
mod tests;
pub(crate) mod typed;

pub(crate) use endpoint::{Endpoint, Handler};
#[cfg(not(model))]
pub(crate) use grace_period::GracePeriod;
pub(crate) use lanes::{LaneEnd, Lanes, Opened};
pub(crate) use other_names::OTHER_NAMES;
pub(crate) use serving::Paused;
