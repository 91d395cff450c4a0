//! Calls: numbered requests and their answers over a lane or a [`pipeline`], and the functions that both sides know.
//!
//! A call is bytes in, bytes out. It names a wrapper function of the executor by its address, or a handler of the controller
//! by its tag. A side that waits for an answer serves the calls that come back to it. So calls nest in both directions on one
//! lane, and each side's stack mirrors the other's. Every thread that calls has a lane of its own ([`Lanes`]).
//!
//! Invariant: one thread at a time owns an endpoint. A call completes exactly once. Errors that the other side answered are
//! told from errors of the session by [`ErrorKind::Remote`](crate::ErrorKind::Remote).
#![forbid(unsafe_code)]

pub(crate) mod contract;
mod counters;
#[cfg(not(model))]
pub(crate) mod direct;
mod endpoint;
#[cfg(not(model))]
mod grace_period;
mod lanes;
#[cfg(test)]
#[cfg(loom)]
mod loom;
#[cfg(test)]
#[cfg(shuttle)]
mod outcome_counters;
pub(crate) mod pipeline;
mod posts;
mod serving;
#[cfg(test)]
#[cfg(shuttle)]
mod shuttle;
#[cfg(test)]
#[cfg(not(model))]
mod tests;
pub(crate) mod typed;
#[cfg(any(not(model), loom))]
mod wanted;

pub(crate) use contract::other_names::OTHER_NAMES;
pub(crate) use counters::{CallNumber, Counters};
pub(crate) use endpoint::{Endpoint, Handler, LaneEnd, Wait};
#[cfg(not(model))]
pub(crate) use endpoint::{ToSessionEnd, Watch};
#[cfg(not(model))]
pub(crate) use grace_period::GracePeriod;
pub(crate) use lanes::{Lanes, Opened};
pub(crate) use serving::Paused;
#[cfg(any(not(model), loom))]
pub(crate) use wanted::WantedCalls;
