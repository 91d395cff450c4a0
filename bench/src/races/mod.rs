//! Whole commands against each other, in turns: `farcall run` against a linker, and against LLVM's own command.
//!
//! Invariant: a command is timed from its start to its end; both sides run the same program.

mod jitlink;
pub(crate) mod link_race;
pub(crate) mod llvm_race;
