//! The functions of the contract that need a session, and the names under which all functions are offered.

pub(crate) mod dylib;
pub(crate) mod executable_stack;
pub(crate) mod lazy;
pub(crate) mod memory;
pub(crate) mod names_offered;
mod new_code;
pub(crate) mod process_info;
pub(crate) mod profile_mark;
pub(crate) mod thread_room;
