//! A zygote: an executor that runs no more calls, and forks copies of itself when the controller asks.
//!
//! | step | thread | action |
//! |---|---|---|
//! | 1 | the acceptor's | makes the data of linked code private, closes all lanes, passes the zygote's socket on, and ends |
//! | 2 | serving threads | end with their lanes |
//! | 3 | the main thread | waits until it is the only one, and answers [`FROZEN`] |
//! | 4 | the same | forks for each [`FORK`], and collects copies that have ended for each [`COLLECT`] |
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

use crate::call::contract::{COLLECT, FORK, FROZEN, LOST};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::executor::process::{descriptors, first_thread};
use crate::sys::io::socket::{self, Received};
use crate::sys::process::thread::Undisturbed;
use crate::sys::process::{fork, tied};

/// How long the threads of the executor may take to end, once their lanes have.
const THREADS_TIMEOUT: Duration = Duration::from_secs(1);

/// How often, and at which interval, the executor looks again before it takes a thread for one of the program's.
pub(super) const ENDING_LOOKS: u32 = 20;
pub(super) const ENDING_INTERVAL: Duration = Duration::from_millis(1);

/// What a copy receives.
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
        socket::tell(socket, FROZEN, LOST, &error.to_string())?;
        return Err(error);
    }
    fork::flush();
    // Timers and signals of the program are not for the zygote. A copy has the signal mask of before.
    let _undisturbed = Undisturbed::new();
    socket::tell(socket, FROZEN, 0, "")?;
    let zygote = Pid::this();
    // Copies that have ended, and that other processes trace.
    let mut left = Vec::new();
    while let Some(message) = socket::receive(socket, Deadline::SESSION_END)? {
        match message.letter {
            FORK => {
                if let Some(copied) = fork_for(socket, message)? {
                    tied::die_with_parent(zygote.as_raw())?;
                    return Ok(Some(copied));
                }
            }
            COLLECT => left.push(message.number),
            letter => return Err(Error::violation(format!("letter {letter:#x} for a zygote"))),
        }
        left.retain(|copy| !collect(*copy));
    }
    Ok(None)
}

/// Forks a copy, and answers. `None` in the zygote.
fn fork_for(socket: BorrowedFd<'_>, message: Received) -> Result<Option<Copied>> {
    let answer = |pid: i32, why: &str| {
        socket::tell(socket, FORK, u64::from(pid.unsigned_abs()), why).map(|()| None)
    };
    let Ok([own, segment]) = <[OwnedFd; 2]>::try_from(message.files) else {
        return answer(0, "the zygote has no descriptor for it (ulimit -n)");
    };
    match fork::alone() {
        Ok(None) => Ok(Some(Copied { socket: own, segment })),
        Ok(Some(pid)) => answer(pid.as_raw(), ""),
        Err(error) => answer(0, &error.to_string()),
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
