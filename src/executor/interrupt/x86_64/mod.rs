//! Interrupting a call on x86-64: the handler of the signal, and what it has to know of frames, tables and instructions.

mod frames;
mod leave;
mod machine;
mod obstacles;
mod return_stubs;
mod signal;
mod throws;
mod unwind_tables;

pub(crate) use leave::is_due;
pub(super) use signal::{SIGNAL, install, obstacle, release};
pub(crate) use throws::in_place_of;
