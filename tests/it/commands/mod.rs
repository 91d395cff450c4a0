//! The commands as a user types them.

pub(crate) mod bench;
pub(crate) mod busy;
pub(crate) mod confined;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod leftovers;
pub(crate) mod manual;
pub(crate) mod mistakes;
pub(crate) mod native;
pub(crate) mod refuse;
pub(crate) mod run;
pub(crate) mod top;
pub(crate) mod watch;
