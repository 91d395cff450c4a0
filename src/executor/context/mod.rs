//! What belongs to one controller, and how linked code reaches that controller.

pub(crate) mod acceptor;
pub(crate) mod calls;
pub(crate) mod controller_access;
pub(crate) mod current;
pub(crate) mod instance;
