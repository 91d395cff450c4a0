//! The calls of controllers in this process that the calling thread runs.

use std::cell::Cell;

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(Running { session: 0, depth: 0 }) };
}

#[derive(Clone, Copy)]
struct Running {
    /// The session of the innermost call, by the number of its instance; 0 outside of calls and in a handler.
    session: u64,
    /// How many are under way, each inside of the one before.
    depth: u64,
}

/// Runs `work` as a call of this session.
#[inline(always)]
pub(crate) fn within<R>(session: u64, work: impl FnOnce() -> R) -> R {
    let outer = RUNNING.get();
    RUNNING.set(Running { session, depth: outer.depth + 1 });
    let outcome = work();
    RUNNING.set(outer);
    outcome
}

/// Runs `work` as code of the host, inside of the calls that are under way.
pub(crate) fn outside<R>(work: impl FnOnce() -> R) -> R {
    let outer = RUNNING.get();
    RUNNING.set(Running { session: 0, ..outer });
    let outcome = work();
    RUNNING.set(outer);
    outcome
}

/// The session whose call this thread runs; 0 for none.
pub(crate) fn session() -> u64 {
    RUNNING.get().session
}

/// How deep in such calls this thread is.
#[inline]
pub(super) fn depth() -> u64 {
    RUNNING.get().depth
}
