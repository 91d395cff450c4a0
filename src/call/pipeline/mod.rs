//! Pipelined calls: many under way at a time, answered in the order in which they were submitted.
//!
//! The executor runs the calls of a pipeline one after the other, on one thread ([`Server`]). A slow call delays those behind
//! it, and no others. In the controller any number of threads submit calls ([`Caller`]) and wait for results. No thread is
//! reserved for receiving. A waiting thread takes the lead and receives for all. When it has what it waited for, it passes the
//! lead to the next. Each submission has a [`Completion`], where its results arrive.
//!
//! ```text
//! submit:  run noted -> records pushed -> executor woken if it sleeps
//! wait:    lead taken -> records popped -> results to the completions of the runs, in order -> lead given back
//! ```
//!
//! Calls of a batch share a record ([`Bundle`](bundle)) when they call one function with one word of arguments each. They share one as
//! well when they are [`Alike`]: calls of one function, whose arguments have one size and begin with the same bytes. Their results
//! share a record as well if each is one word. That record grows: each result is published before the next call runs,
//! because that call may wait for what the controller does with the result.
//!
//! Results come in order, so a result needs no search. It belongs to the oldest run that misses one, and must have the number
//! of the next call. An honest executor sends no other number.
//!
//! Nothing waits for ever for room. The executor keeps results that do not fit the ring and goes on taking calls. A submitter
//! that finds no room, or too many calls under way, takes the lead and receives.
//!
//! Invariant: a call completes exactly once; a thread that holds the lead never waits for another thread of this process,
//! and calls no waker.

mod bundle;
mod caller;
mod completion;
#[cfg(test)]
#[cfg(loom)]
mod loom;
mod progress;
mod receiver;
mod reception;
mod sender;
mod server;
#[cfg(test)]
#[cfg(shuttle)]
mod shuttle;
#[cfg(test)]
#[cfg(not(model))]
mod tests;

use crate::error::{Error, ErrorKind};

pub(crate) use bundle::Alike;
pub(crate) use caller::Caller;
pub(crate) use completion::{Arrived, Completion};
pub(crate) use server::{Handler, Server};

/// Why a pipeline has ended, from the error that ended it: the error of each call that was under way.
fn reason(error: &Error) -> Error {
    match error.is_disconnected() || error.kind() == ErrorKind::Exhausted {
        true => error.clone(),
        false => Error::disconnected(error.to_string()),
    }
}
