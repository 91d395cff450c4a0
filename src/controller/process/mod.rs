//! The executor's process: how it is started and ends, how lanes to it are opened, and what it can call here.

mod callbacks;
pub(crate) mod command;
pub(crate) mod crash_reports;
pub(crate) mod handlers;
pub(crate) mod lane_opener;
pub(crate) mod last_words;
mod pipelines;
pub(crate) mod supervisor;
