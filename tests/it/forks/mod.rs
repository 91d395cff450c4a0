//! Linked code and hosts that fork, and hosts that close what they have open or become another user.

pub(crate) mod children;
pub(crate) mod descriptors;
pub(crate) mod hosts;
pub(crate) mod users;
