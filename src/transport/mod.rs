//! How messages move between the two processes.
//!
//! A [`Lane`] is one logical thread that spans two processes. It has a baton for synchronous calls, and a bulk buffer for
//! payloads that do not fit its line. A ring each way carries what goes ahead or does not fit the buffer. Exactly one side
//! holds the baton at any moment; only the holder sends. A [`Stream`] carries the same messages over pipes and sockets. A
//! [`Connection`] is either. If its lane came over a socket ([`Shared`](connection::shared::Shared)), a side that sleeps is
//! woken by that socket.
//!
//! Invariant: this is the only room where rings meet shared memory. It never runs a handler. `wire` or `ring` checks every
//! word from the peer before it is used.
#![forbid(unsafe_code)]

mod cells;
#[cfg(not(model))]
mod connection;
#[cfg(not(model))]
pub(crate) mod control;
mod kept;
pub(crate) mod lane;
#[cfg(test)]
#[cfg(loom)]
pub(crate) mod loom;
mod message;
pub(crate) mod pipeline;
mod side;
#[cfg(test)]
#[cfg(not(model))]
mod soak;
#[cfg(not(model))]
mod stream;
#[cfg(test)]
#[cfg(not(model))]
mod tests;
mod wait;

use crate::deadline::Deadline;
use crate::error::Result;
pub(crate) use crate::origin::Origin;
use crate::wire::Kind;
#[cfg(not(model))]
pub use connection::Connection;
#[cfg(not(model))]
pub(crate) use connection::opening;
#[cfg(not(model))]
pub use connection::spec::ConnectionSpec;
#[cfg(not(model))]
pub(crate) use connection::token::{Candidate, Judged, Token};
#[cfg(not(model))]
pub(crate) use connection::vetted_peer::VettedPeer;
pub(crate) use lane::Lane;
#[cfg(not(model))]
pub(crate) use lane::PROGRESS_WORDS;
pub(crate) use message::{Incoming, Payload};
pub(crate) use side::Side;
#[cfg(not(model))]
pub(crate) use stream::Stream;
pub(crate) use wait::closer::Closer;
pub(crate) use wait::lifeline::{End, Lifeline};
pub(crate) use wait::parker::SharedParker;
pub(crate) use wait::poll_policy::PollPolicy;
pub(crate) use wait::polling::{Moment, Polling};
pub(crate) use wait::settled::Settled;

/// One end of a two-way transport of messages in one order. One thread at a time owns it.
///
/// At any moment one side has the right to send. [`send`](Transport::send) passes it on. A message that
/// [`receive`](Transport::receive) returns brings it back, unless that message was posted.
pub(crate) trait Transport {
    /// Sends a message and passes the right to send on. The caller must have it.
    ///
    /// # Errors
    ///
    /// When the payload is longer than [`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX): nothing was sent. When the
    /// peer broke the protocol, is gone, or has not taken all of the message by the deadline (then `ErrorKind::Timeout`). The
    /// transport has ended then, unless it is not [cut off](Transport::is_cut_off).
    fn send(&mut self, kind: Kind, target: u64, payload: &[u8], deadline: Deadline) -> Result<()>;

    /// Sends a message that goes ahead of the next one sent, and keeps the right to send. The caller must have that right;
    /// when there is no room it is with the peer meanwhile.
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
    /// was not posted, the caller has the right to send.
    ///
    /// # Errors
    ///
    /// When the peer broke the protocol, or the transport was closed. The transport is of no use then.
    fn receive(&mut self, deadline: Deadline, message: &mut Incoming) -> Result<bool>;

    /// False when a call that was not sent in time has left nothing at the peer.
    fn is_cut_off(&self) -> bool {
        true
    }

    /// Tells the peer's other threads that the posted call with this number has run.
    fn settle(&mut self, sequence: u64);

    /// Makes the next message tell the peer that code was written.
    fn code_written(&mut self);

    /// How much memory is in use for payloads of calls under way; for [`release`](Transport::release).
    #[inline]
    fn mark(&self) -> usize {
        0
    }

    /// Frees the memory that has come into use since `mark`: the arguments of a call that is answered.
    #[inline]
    fn release(&mut self, _mark: usize) {}
}
