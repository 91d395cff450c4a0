//! Linked code and hosts that fork, executors that a zygote forks, and hosts that close what they have open or become another user.

pub(crate) mod ahead;
pub(crate) mod children;
pub(crate) mod descriptors;
pub(crate) mod hosts;
pub(crate) mod starts;
pub(crate) mod users;
