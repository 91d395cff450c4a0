//! How messages move between the two processes.
//!
//! A [`Lane`] is one logical thread that spans two processes: a baton for synchronous calls, an area for payloads that do not
//! fit its line, and a ring each way for what goes ahead or does not fit the area. Exactly one side holds the baton at any
//! moment; only the holder sends. A [`Stream`] carries the same messages over pipes and sockets, [`Local`] inside one
//! process; a [`Connection`] is any of them. One whose lane came over a socket ([`Shared`]) sleeps by that socket.
//!
//! Invariant: this is the only room where rings meet shared memory; it never runs a handler, and every word from the
//! peer is judged by `wire` or `ring` before it is used.
#![forbid(unsafe_code)]

mod bed;
mod cells;
mod closer;
#[cfg(not(model))]
mod connection;
mod cpu_hints;
mod inbox;
pub(crate) mod lane;
#[cfg(not(model))]
pub(crate) mod lane_segment;
mod lifeline;
#[cfg(not(model))]
mod local;
mod message;
#[cfg(test)]
#[cfg(loom)]
pub(crate) mod model;
#[cfg(feature = "named-segment")]
mod named;
mod origin;
mod outbox;
pub(crate) mod pipeline;
mod poll_delay;
mod settled;
#[cfg(not(model))]
mod shared;
#[cfg(test)]
#[cfg(not(model))]
mod soak;
#[cfg(not(model))]
mod stream;
#[cfg(test)]
#[cfg(not(model))]
mod tests;
#[cfg(not(model))]
mod token;
mod wait;

use crate::deadline::Deadline;
use crate::error::Result;
use crate::wire::Kind;
pub(crate) use bed::SharedBed;
pub(crate) use closer::Closer;
#[cfg(not(model))]
pub use connection::Connection;
pub(crate) use lane::{Lane, Side};
pub(crate) use lifeline::{End, Lifeline};
#[cfg(not(model))]
use local::Local;
pub(crate) use message::{Incoming, Payload};
pub(crate) use origin::Origin;
pub(crate) use settled::Settled;
#[cfg(not(model))]
use shared::Shared;
#[cfg(not(model))]
pub(crate) use stream::Stream;
#[cfg(not(model))]
pub(crate) use token::Token;

/// One end of what carries messages both ways, in one order. One thread at a time owns it.
///
/// At any moment one side has the right to send. [`send`](Transport::send) passes it on, a message that
/// [`receive`](Transport::receive) returns brings it back, unless that message was posted.
pub(crate) trait Transport {
    /// Sends a message and passes the right to send on. The caller must have it.
    ///
    /// # Errors
    ///
    /// When the payload is longer than [`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX): nothing was sent. When the
    /// peer broke the protocol or is gone, or has not taken all of it by the deadline (then `is_timeout`): the transport has
    /// ended.
    fn send(&mut self, kind: Kind, target: u64, payload: &[u8], deadline: Deadline) -> Result<()>;

    /// Sends a message that goes ahead of the next one sent, and keeps the right to send (it may be away meanwhile, when
    /// there is no room). The caller must have it.
    ///
    /// # Errors
    ///
    /// As [`Transport::send`].
    fn post(
        &mut self,
        kind: Kind,
        sequence: u64,
        target: u64,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<()>;

    /// Waits for the next message and puts it into `message`; false when none has come by the deadline. After a message that
    /// was not posted the caller may send.
    ///
    /// # Errors
    ///
    /// When the peer broke the protocol, or the transport was closed; it is of no use then.
    fn receive(&mut self, deadline: Deadline, message: &mut Incoming) -> Result<bool>;

    /// Tells the peer's other threads that the posted call with this number has run.
    fn settle(&mut self, sequence: u64);

    /// The next message tells the peer that code was written.
    fn code_written(&mut self);

    /// What memory is in use for payloads of calls under way.
    #[inline]
    fn mark(&self) -> usize {
        0
    }

    /// Gives back what has come into use since then: the arguments of a call that is answered.
    #[inline]
    fn release(&mut self, _mark: usize) {}
}
