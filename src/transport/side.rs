//! The two ends of everything between a controller and an executor.

/// Which end of a lane this process is. The executor holds the baton first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Controller,
    Executor,
}
