//! The executor's services and views: memory, registration, crashes, debuggers and profilers.

pub(crate) mod backtrace;
pub(crate) mod crash;
pub(crate) mod death;
pub(crate) mod debugger;
pub(crate) mod filtered;
pub(crate) mod inspect;
pub(crate) mod killed;
pub(crate) mod linked;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod profilers;
pub(crate) mod registration;
