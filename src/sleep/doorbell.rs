//! A doorbell: wakes a side that does not sleep on a word, because it waits for many things at once.

use std::fmt;

use crate::deadline::Deadline;

/// Wakes the other side, and is waited for by this one.
///
/// No wake is lost:
///
/// | the sleeper | the waker |
/// |---|---|
/// | [drains](Doorbell::drain) the doorbell | publishes |
/// | [marks](super::mark) its parker | looks at the mark, behind a fence |
/// | looks for a cause to stay awake | rings if the parker is marked |
/// | [listens](Doorbell::listen), or lets the host's loop listen | |
///
/// A ring behind the mark is never drained before the sleeper looks: it hears the ring, now or as soon as it listens.
pub(crate) trait Doorbell: fmt::Debug + Send + Sync {
    /// Takes all or some of the rings so far. Never waits. False when the other side is gone.
    fn drain(&self) -> bool;

    /// Waits until the doorbell is rung, the other side is gone, or the deadline passes. May return early for any reason.
    fn listen(&self, deadline: Deadline);

    /// Rings at the other side. Never waits.
    fn ring(&self);
}
