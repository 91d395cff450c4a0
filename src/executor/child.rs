//! The executor as a process that a controller started.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::door::open_segment;
use super::first_thread;
use super::session::Session;
use crate::call::contract::EXECUTOR_ARGUMENT as ARGUMENT;
use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sys::{process, socket, trap};
use crate::transport::{Lane, Side};
use crate::wire::layout;

/// Serves as an executor and exits, if a controller started this process as one; returns at once otherwise.
///
/// Call it first thing in `main`, before threads are started: then the program's own file can be its executor
/// ([`Launch::this_program`](crate::controller::Launch::this_program)).
pub fn serve_if_asked() {
    let asked = std::env::args_os().nth(1);
    let Some(asked) = asked.as_ref().and_then(|asked| asked.to_str()?.strip_prefix(ARGUMENT))
    else {
        return;
    };
    let status = match serve(asked) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("farcall executor: {error}");
            125
        }
    };
    // Runs the exit handlers of the C library: buffered output is written.
    std::process::exit(status);
}

fn serve(asked: &str) -> Result<()> {
    let numbers = asked.split_once(',').and_then(|(socket, parent)| {
        Some((socket.parse::<i32>().ok()?, parent.parse::<i32>().ok()?))
    });
    let (fd, parent) =
        numbers.ok_or_else(|| Error::invalid(format!("{ARGUMENT}{asked}: not two numbers")))?;
    process::die_with_parent(parent)?;
    trap::restore_sigpipe();
    let socket = process::adopt(fd)?;
    let mut files = socket::receive_fds(socket.as_fd(), 2)?.into_iter();
    let (Some(segment), Some(door)) = (files.next(), files.next()) else {
        return Err(Error::violation("no segment came"));
    };
    let segment = open_segment(segment)?;
    // The crash record is written until the process is gone.
    let segment: &'static Arc<Segment> = Box::leak(Box::new(segment));
    trap::install(&segment.words()[layout::CRASH_WORD..layout::SETTLED_WORD])?;
    first_thread::outlive_others()?;
    Session::run(Lane::new(segment, Side::Executor), socket, door)
}
