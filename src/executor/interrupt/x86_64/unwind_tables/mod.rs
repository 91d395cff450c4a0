//! The tables with which compilers describe functions to an unwinder, read for one address at a time.
//!
//! The tables of linked code are input of the controller, and are mapped with their code.

pub(super) mod call_sites;
mod cursor;
pub(super) mod personalities;
