//! Spans and events for the crate `tracing`: start, link, look-up and death. Without the feature `tracing` they are nothing.
//!
//! Invariant: no call of linked code comes here.

/// A span of this thread, which ends when this is dropped.
#[must_use]
pub(crate) struct Span {
    #[cfg(feature = "tracing")]
    _entered: tracing::span::EnteredSpan,
}

#[cfg(feature = "tracing")]
macro_rules! span {
    ($name:literal, $field:ident) => {
        Span { _entered: tracing::debug_span!(target: "farcall", $name, $field).entered() }
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! span {
    ($name:literal, $field:ident) => {{
        let _ = $field;
        Span {}
    }};
}

/// The controller waits for the executor with this process number.
pub(crate) fn start(pid: i32) -> Span {
    span!("start", pid)
}

/// The linker makes a link: of a dylib, or of an object layer for this dylib.
pub(crate) fn link(dylib: &str) -> Span {
    span!("link", dylib)
}

/// The controller looks this number of names up in the executor, with one message.
pub(crate) fn look_up(names: usize) -> Span {
    span!("look_up", names)
}

/// The executor's process has ended.
pub(crate) fn death(pid: i32, end: &impl std::fmt::Debug) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "farcall", pid, ?end, "death");
    #[cfg(not(feature = "tracing"))]
    let _ = (pid, end);
}
