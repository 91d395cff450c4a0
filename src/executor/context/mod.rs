//! The state that belongs to one controller, and the way from linked code to it.

pub(crate) mod acceptor;
pub(crate) mod calls;
pub(crate) mod controller_access;
pub(crate) mod current;
pub(crate) mod instance;
