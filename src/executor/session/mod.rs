//! The five ways to serve a controller: over lanes, over one connection, in a host's loop, in a host's session, and in its own process.

mod acceptor_thread;
pub(crate) mod child;
pub(crate) mod connected;
pub(crate) mod embedded;
pub(crate) mod in_process;
mod pipeline_calls;
pub(crate) mod polled;
mod standby;
mod start_zygote;
pub(crate) mod with_session;
mod zygote;
