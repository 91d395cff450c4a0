//! A program's view of its process, of signals and of its libraries, compared with the native program.

pub(crate) mod interposition;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod threads;
