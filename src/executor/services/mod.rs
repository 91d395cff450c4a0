//! The functions of the contract, and all names under which they are offered.

pub(crate) mod dylib;
pub(crate) mod lazy;
pub(crate) mod memory;
pub(crate) mod names_offered;
pub(crate) mod process_info;
pub(crate) mod profile_mark;
