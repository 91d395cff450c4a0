//! A zygote: an executor that runs no more calls, and forks copies of itself when the controller asks.
//!
//! | step | thread | action |
//! |---|---|---|
//! | 1 | the acceptor's | makes the data of linked code private, closes all lanes, passes the zygote's socket on, and ends |
//! | 2 | serving threads | end with their lanes |
//! | 3 | the main thread | waits until it is the only one, and answers [`Frozen`](ControlMessage::Frozen) |
//! | 4 | the same | forks for each [`Fork`](ControlMessage::Fork), and collects copies that have ended |
//! | 5 | the copy's only thread | returns from [`serve`], and serves its own controller |
//!
//! Code and constants stay shared between all copies. Data, heap and stack are copied page by page, as they are written. Attached
//! regions stay shared with the controller.
//!
//! The kernel kills a copy when its zygote ends, and a zygote when the thread ends that started it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::executor::process::{descriptors, first_thread};
use crate::sys::process::thread::Undisturbed;
use crate::sys::process::{fork, tied};
use crate::transport::control::{self, Received};
use crate::wire::control::{ControlMessage, from_executor, from_zygote};

/// How long the threads of the executor may take to end, once their lanes have.
const THREADS_TIMEOUT: Duration = Duration::from_secs(1);

/// How often, and in which interval, the executor looks again before it takes a thread for one of the program's.
pub(super) const ENDING_LOOKS: u32 = 20;
pub(super) const ENDING_INTERVAL: Duration = Duration::from_millis(1);

/// The message that a copy receives.
#[derive(Debug)]
pub(super) struct Copied {
    /// Its control socket.
    pub(super) socket: OwnedFd,
    /// The segment of its first lane.
    pub(super) segment: OwnedFd,
}

/// Why this process cannot become a zygote now, if so.
pub(super) fn refusal() -> Option<String> {
    if let Some(errno) = descriptors::refusal_to_take() {
        return Some(format!("pidfd_getfd is refused: {}", errno.desc()));
    }
    let mut threads = first_thread::program_threads();
    for _ in 0..ENDING_LOOKS {
        if threads == 0 {
            return None;
        }
        // It may be one of the executor's own that is about to end.
        std::thread::sleep(ENDING_INTERVAL);
        threads = first_thread::program_threads();
    }
    (threads > 0).then(|| {
        format!(
            "the program has threads of its own: {threads}; a copy of the process would have none"
        )
    })
}

/// Makes this process a zygote, and serves as one until the controller closes the socket. Returns in each copy, with what it
/// received, and at the end in the zygote, with `None`. Call on the main thread, which serves no lane any more.
///
/// # Errors
///
/// If another thread runs on; the controller learns that. In a copy, if it is not tied to the zygote's life.
pub(super) fn serve(socket: &OwnedFd) -> Result<Option<Copied>> {
    let socket = socket.as_fd();
    first_thread::release();
    if !first_thread::wait_alone(Deadline::after(THREADS_TIMEOUT)) {
        let error = Error::invalid("a call was under way, or the program has started a thread");
        answer(socket, &ControlMessage::Lost { why: error.to_string() })?;
        return Err(error);
    }
    fork::flush();
    // Timers and signals of the program are not for the zygote. A copy has the signal mask of before.
    let _undisturbed = Undisturbed::new();
    answer(socket, &ControlMessage::Frozen)?;
    let zygote = Pid::this();
    // Copies that have ended, and that other processes trace.
    let mut left = Vec::new();
    loop {
        let request =
            receive(socket).inspect_err(|error| control::send_last_words(socket, error))?;
        match request {
            Some(Request::Fork(files)) => {
                if let Some(copied) = fork_for(socket, files)? {
                    tied::die_with_parent(zygote.as_raw())?;
                    return Ok(Some(copied));
                }
            }
            Some(Request::Collect(pid)) => left.push(pid),
            None => return Ok(None),
        }
        left.retain(|copy| !collect(*copy));
    }
}

/// A request to a zygote.
enum Request {
    /// The copy's socket and segment, if they came.
    Fork(Result<Vec<OwnedFd>>),
    Collect(u64),
}

/// Waits for the next request; `None` when the controller has closed the socket.
///
/// # Errors
///
/// If the system refuses, or the controller breaks the protocol.
fn receive(socket: BorrowedFd<'_>) -> Result<Option<Request>> {
    let Some(Received { message, files }) = control::receive(socket, Deadline::SESSION_END)? else {
        return Ok(None);
    };
    match message {
        ControlMessage::Fork => Ok(Some(Request::Fork(files))),
        ControlMessage::Collect { pid } => Ok(Some(Request::Collect(pid))),
        ControlMessage::Begin { .. }
        | ControlMessage::Lane { .. }
        | ControlMessage::Pipeline { .. }
        | ControlMessage::ReverseLane
        | ControlMessage::NoLane
        | ControlMessage::Slab { .. }
        | ControlMessage::Region { .. }
        | ControlMessage::Freeze
        | ControlMessage::Start
        | ControlMessage::StartAhead
        | ControlMessage::Take
        | ControlMessage::Interrupt { .. }
        | from_executor!()
        | from_zygote!() => Err(message.misplaced("a zygote")),
    }
}

/// Answers, without a wait: a controller that reads no answers asks in vain.
fn answer(socket: BorrowedFd<'_>, message: &ControlMessage) -> Result<()> {
    control::send(socket, message, &[], Deadline::now())
}

/// Forks a copy, and answers. `None` in the zygote.
fn fork_for(socket: BorrowedFd<'_>, files: Result<Vec<OwnedFd>>) -> Result<Option<Copied>> {
    let refuse = |why: String| answer(socket, &ControlMessage::NotForked { why }).map(|()| None);
    let files = match files {
        Ok(files) => files,
        Err(error) => return refuse(error.to_string()),
    };
    let Ok([own, segment]) = <[OwnedFd; 2]>::try_from(files) else {
        return Err(Error::violation("a copy needs a socket and a segment"));
    };
    match fork::alone() {
        Ok(None) => Ok(Some(Copied { socket: own, segment })),
        Ok(Some(pid)) => {
            let pid = u64::from(pid.as_raw().unsigned_abs());
            answer(socket, &ControlMessage::Forked { pid }).map(|()| None)
        }
        Err(error) => refuse(error.to_string()),
    }
}

/// Collects the copy with this number. False while the kernel does not hand it over.
fn collect(number: u64) -> bool {
    let Some(pid) = i32::try_from(number).ok().filter(|pid| *pid > 0) else { return true };
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
    loop {
        match waitid(Id::Pid(Pid::from_raw(pid)), flags) {
            Err(Errno::EINTR) => {}
            outcome => return outcome != Ok(WaitStatus::StillAlive),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::sys::io::socket;

    #[test]
    fn a_zygote_takes_its_two_requests_and_no_other() {
        let (ours, theirs) = socket::pair().expect("sockets");
        let send = |bytes: &[u8], files: usize| {
            let files = vec![ours.as_fd(); files];
            socket::send(ours.as_fd(), bytes, &files, Deadline::now()).expect("sent");
            receive(theirs.as_fd())
        };
        let forked = send(b"k", 2).expect("a request");
        assert!(matches!(forked, Some(Request::Fork(Ok(files))) if files.len() == 2));
        let collected = send(b"e\x07\0\0\0\0\0\0\0", 0).expect("a request");
        assert!(matches!(collected, Some(Request::Collect(7))));
        for (bytes, files, words) in [
            (&b"f"[..], 1, "message 'f' (0x66, Freeze) of a controller came to a zygote"),
            (b"?", 0, "the unknown letter '?' (0x3f)"),
            (b"k", 1, "message 'k' (0x6b, Fork) with 1 descriptors, where 2 are due"),
        ] {
            let error = send(bytes, files).err().expect("refused");
            assert_eq!(error.kind(), ErrorKind::Violation);
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
        drop(ours);
        assert!(receive(theirs.as_fd()).expect("the end").is_none());
    }
}
