//! Whole commands against each other, in turns: `farcall run` against linkers, and against LLVM's own command. And one LLVM program
//! by several executors.
//!
//! Invariant: all sides run the same program. A command is timed from its start to its end.

mod jitlink;
mod link_programs;
pub(crate) mod link_race;
pub(crate) mod link_report;
mod linkers;
pub(crate) mod lljit_race;
pub(crate) mod llvm_race;
