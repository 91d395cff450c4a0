//! Whole commands against each other, in turns: `farcall run` against linkers, and against LLVM's own command.
//!
//! Invariant: a command is timed from its start to its end; both sides run the same program.

mod jitlink;
mod link_programs;
pub(crate) mod link_race;
pub(crate) mod link_report;
mod linkers;
pub(crate) mod llvm_race;
