//! The executor's process: its start and end, the lanes to it, and the handlers that it can call.

pub(super) mod callbacks;
pub(crate) mod command;
pub(crate) mod crash_reports;
pub(crate) mod handlers;
pub(crate) mod hello;
pub(crate) mod lane_opener;
pub(crate) mod last_words;
mod live_code;
pub(crate) mod pipelines;
pub(crate) mod supervisor;
pub(crate) mod zygote;
