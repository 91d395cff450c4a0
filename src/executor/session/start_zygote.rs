//! The start zygote: a process that has loaded the executor's program and nothing else. It forks executors when the controller asks.
//!
//! | step | process | action |
//! |---|---|---|
//! | 1 | the first executor | before it does anything else, forks the zygote, and goes on as any executor |
//! | 2 | the zygote | says its number ([`Forked`](ControlMessage::Forked)), leaves streams and folder, blocks all signals |
//! | 3 | the same | forks for each [`Start`](ControlMessage::Start) |
//! | 4 | the forked executor | says its number, takes streams and folder from the message, and goes on as a program that was just started |
//! | 3, 4 | for [`StartAhead`](ControlMessage::StartAhead) | the same; the executor takes streams and folder [when it is wanted](ahead) |
//!
//! All of them are children of the controller, which learns of their ends as of any child's. So no executor depends on the zygote,
//! and the zygote collects nothing.
//!
//! Invariant: the zygote has one thread, and never runs linked code.

pub(super) mod ahead;

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::unistd::{chdir, dup2_stderr, dup2_stdin, dup2_stdout, fchdir};

use self::ahead::Ahead;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::entry::abi;
use crate::executor::services::process_info;
use crate::sys::process::fork::{self, ThreadRecord};
use crate::sys::process::thread::{self, Undisturbed};
use crate::sys::process::tied;
use crate::transport::control::{self, Received};
use crate::wire::control::{ControlMessage, from_executor, from_zygote};

/// The exit status of a zygote that could not serve.
const FAILED: i32 = 125;

/// The way to the controller, in a process that goes on as an executor.
pub(super) struct Parted {
    /// Its control socket.
    pub(super) socket: OwnedFd,
    /// The executor was forked ahead of its request.
    pub(super) ahead: Option<Ahead>,
}

/// Forks a start zygote, if the C library and the kernel can do that. Returns here with `own`, and in each executor that the zygote
/// forks with that one's control socket. Call before anything else, with nothing open but the standard streams and both sockets.
///
/// # Errors
///
/// In a forked executor, when it cannot take what came with the message. The controller has its last words then.
pub(super) fn part(requests: OwnedFd, own: OwnedFd, parent: i32) -> Result<Parted> {
    let first = |socket| Ok(Parted { socket, ahead: None });
    // Without a zygote the controller sees the end of its socket.
    let Some(record) = ThreadRecord::of_thread().filter(|_| thread::is_only_one()) else {
        return first(own);
    };
    // Timers and signals of the program are not for the zygote. Executors have the signal mask of before.
    let undisturbed = Undisturbed::new();
    if !matches!(fork::sibling(Some(&record)), Ok(None)) {
        return first(own);
    }
    drop(own);
    let Ok(Some(forked)) = serve(requests.as_fd(), &record, parent) else {
        fork::end(FAILED);
    };
    drop((requests, undisturbed));
    let Forked { socket, files, name } = forked;
    let Some(files) = files else {
        return Ok(Parted { socket, ahead: Some(Ahead::new(name)) });
    };
    take_files(&files, &name)
        .inspect_err(|error| control::send_last_words(socket.as_fd(), error))?;
    Ok(Parted { socket, ahead: None })
}

/// A forked executor's beginning.
struct Forked {
    /// Its control socket.
    socket: OwnedFd,
    /// The standard streams and the working directory; `None` ahead of the request.
    files: Option<[OwnedFd; 4]>,
    /// The name of the main thread of the program.
    name: CString,
}

/// Serves as the zygote until the controller closes the socket. Returns in each forked executor, with what it received, and at the
/// end in the zygote, with `None`.
///
/// # Errors
///
/// When the system refuses, or the controller breaks the protocol.
fn serve(socket: BorrowedFd<'_>, record: &ThreadRecord, parent: i32) -> Result<Option<Forked>> {
    tied::die_with_parent(parent)?;
    announce(socket)?;
    // Each would ask the processor anew.
    abi::prepare();
    drop(process_info::features());
    let name = leave().map_err(|error| Error::os("leaving streams and folder", error))?;
    loop {
        let Some(Received { message, files }) = next(socket)? else { return Ok(None) };
        check(&message)?;
        match files.and_then(|files| Ok((files, fork::sibling(Some(record))?))) {
            Ok((_, Some(_))) => {}
            Ok((files, None)) => {
                announce(socket)?;
                return forked(files, name).map(Some);
            }
            Err(error) => {
                let refused = ControlMessage::NotForked { why: error.to_string() };
                control::send(socket, &refused, &[], Deadline::now())?;
            }
        }
    }
}

/// The beginning of an executor that received these descriptors: a socket, and streams and folder unless it is ahead of its request.
fn forked(files: Vec<OwnedFd>, name: CString) -> Result<Forked> {
    let mut files = files.into_iter();
    let socket = files.next().ok_or_else(|| Error::violation("a start without a socket"))?;
    let files = <[OwnedFd; 4]>::try_from(files.collect::<Vec<_>>()).ok();
    Ok(Forked { socket, files, name })
}

/// Waits for a message; `None` when the controller has closed the socket, or has ended. A forked child of the controller may have a copy
/// of its end of the socket.
fn next(socket: BorrowedFd<'_>) -> Result<Option<Received>> {
    loop {
        let look = match tied::may_outlive_parent() {
            true => Deadline::after(tied::LOOK),
            false => Deadline::SESSION_END,
        };
        match control::receive(socket, look) {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                if tied::has_outlived_parent() {
                    return Ok(None);
                }
            }
            received => return received,
        }
    }
}

/// Says the number of this process.
fn announce(socket: BorrowedFd<'_>) -> Result<()> {
    let forked = ControlMessage::Forked { pid: u64::from(std::process::id()) };
    control::send(socket, &forked, &[], Deadline::now())
}

/// Leaves the standard streams, whose other ends may wait for that, and the folder, whose file system may be unmounted. Returns
/// the name that the thread had.
fn leave() -> std::io::Result<CString> {
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    chdir(c"/")?;
    let name = thread::name();
    prctl::set_name(c"farcall-zygote")?;
    Ok(name)
}

/// Takes the standard streams, the working directory and the name of an executor that was just started.
fn take_files([input, output, error, folder]: &[OwnedFd; 4], name: &CString) -> Result<()> {
    let failed = |errno: Errno| Error::os("taking the streams and the folder of the host", errno);
    dup2_stdin(input).map_err(failed)?;
    dup2_stdout(output).map_err(failed)?;
    dup2_stderr(error).map_err(failed)?;
    fchdir(folder).map_err(failed)?;
    prctl::set_name(name).map_err(failed)
}

/// Refuses every message but the two requests.
fn check(message: &ControlMessage) -> Result<()> {
    match message {
        ControlMessage::Start | ControlMessage::StartAhead => Ok(()),
        ControlMessage::Begin { .. }
        | ControlMessage::Lane { .. }
        | ControlMessage::Pipeline { .. }
        | ControlMessage::ReverseLane
        | ControlMessage::NoLane
        | ControlMessage::Slab { .. }
        | ControlMessage::Region { .. }
        | ControlMessage::Freeze
        | ControlMessage::Fork
        | ControlMessage::Collect { .. }
        | ControlMessage::Take
        | ControlMessage::Interrupt { .. }
        | from_executor!()
        | from_zygote!() => Err(message.misplaced("a start zygote")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_zygote_takes_its_requests_and_no_other() {
        check(&ControlMessage::Start).expect("its request");
        check(&ControlMessage::StartAhead).expect("its request");
        let error = check(&ControlMessage::Fork).expect_err("refused");
        assert!(error.to_string().contains("came to a start zygote"), "{error}");
    }
}
