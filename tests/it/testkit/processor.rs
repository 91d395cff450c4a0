//! Facts of this processor that programs see.

use farcall::link::Processor;
use nix::sys::signal::Signal;

/// The signal of `__builtin_trap`.
pub(crate) const TRAP: Signal = match Processor::HOST {
    Processor::Aarch64 => Signal::SIGTRAP,
    _ => Signal::SIGILL,
};
