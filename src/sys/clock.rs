//! The clock that orders records of different processes.

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of the system's monotonic clock, the same in every process.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| {
        now.tv_sec().cast_unsigned() * 1_000_000_000 + now.tv_nsec().cast_unsigned()
    })
}
