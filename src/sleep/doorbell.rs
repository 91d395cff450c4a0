//! A doorbell: what wakes who does not sleep on a word, but waits for many things at once.

use std::fmt;

use crate::deadline::Deadline;

/// Wakes the other side of something, and is waited for by this one.
///
/// No wake is lost. Who is about to sleep first [drains](Doorbell::drain) the doorbell, then [marks](super::mark) its parker, looks
/// once more, and then listens, or has the host's own loop listen. The other side publishes and rings if the parker is
/// marked. So what is rung behind the mark is never drained: the sleeper hears it, now or as soon as it listens.
pub(crate) trait Doorbell: fmt::Debug + Send + Sync {
    /// Takes what was rung so far, or part of it. False when nobody is left at the other side.
    fn drain(&self) -> bool;

    /// Waits until the doorbell is rung, nobody is left, or the deadline passes. Returns early for any reason.
    fn listen(&self, deadline: Deadline);

    /// Rings at the other side. Never waits.
    fn ring(&self);
}
