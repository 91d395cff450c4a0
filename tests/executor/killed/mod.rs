//! One end is killed, by SIGKILL, at every point of the protocol. The other end finishes each call under way once and soon,
//! with an error that says why. It keeps nothing: no descriptor, no memory, no thread, no child, no name.
//!
//! There are three processes: this test, the *survivor* and the *victim*. Nothing else runs in the survivor, so that what it
//! keeps can be counted. It starts the victim for each point. Points are found in five ways. The victim names places in its own
//! code while it passes ([`point`]). Functions, called or run as actions, kill the process that runs them. Bytes that the
//! victim has sent are counted. Moments come while calls go to and fro without end. The last way is rest.
//!
//! Invariant: which error, and how many calls, is not left to the moment: each call ends once, whatever the point.

mod bytes;
mod controllers;
mod executors;
mod harness;
mod left;

use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;

use farcall::Connection;
use nix::sys::signal::{Signal, kill};

use self::harness::{MARK, POINT, Points, ROLE, STUCK, Victim, point};

const NAME: &str = "killed::the_survivor_ends_every_call_once_and_keeps_nothing";

#[test]
fn the_survivor_ends_every_call_once_and_keeps_nothing() {
    match std::env::var(ROLE).as_deref() {
        Err(_) => harness::survive_apart(NAME),
        Ok("survivor") => survive(),
        Ok(victim) => match victim.split_once(' ') {
            Some(("executor", how)) => executors::victim(how),
            Some(("controller", how)) => controllers::victim(Way::named(how)),
            _ => panic!("nobody is called {victim}"),
        },
    }
}

/// All points, one after the other.
fn survive() {
    let mut points = Points::start();
    executors::all(&mut points);
    controllers::all(&mut points);
    bytes::all(&mut points);
    points.report(40);
}

/// The carrier of the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Lane,
    Stream,
}

impl Way {
    const ALL: [Self; 2] = [Self::Lane, Self::Stream];

    fn named(name: &str) -> Self {
        if name == "lane" { Self::Lane } else { Self::Stream }
    }

    fn name(self) -> &'static str {
        if self == Self::Lane { "lane" } else { "stream" }
    }

    /// The executor's end.
    fn attach(self, socket: OwnedFd) -> farcall::Result<Connection> {
        match self {
            Self::Lane => Connection::attach_shared(socket),
            Self::Stream => Connection::socket(socket),
        }
    }

    /// The controller's end.
    fn create(self, socket: OwnedFd) -> farcall::Result<Connection> {
        match self {
            Self::Lane => Connection::create_shared(socket),
            Self::Stream => Connection::socket(socket),
        }
    }
}

/// This test in another process.
fn again(role: &str) -> Command {
    harness::again(NAME, role)
}

/// The victim's end of the connection.
fn own_socket() -> OwnedFd {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket");
    // The connection ends with its last descriptor.
    let nothing = std::fs::File::open("/dev/null").expect("Linux");
    nix::unistd::dup2_stdin(nothing).expect("a descriptor");
    socket
}

impl Victim {
    /// Kills it, if it has not ended.
    fn kill(&self) {
        kill(self.pid(), Signal::SIGKILL).expect("it is not waited for yet");
    }

    /// Waits until it passes a point, or ends.
    fn wait_for(&mut self, place: &str) {
        while self.read_line() && self.passed.last().is_none_or(|last| last != place) {}
    }

    /// Waits for its end, of SIGKILL; returns the points that it passed.
    fn was_killed(self, what: &str) -> Vec<String> {
        let (signal, passed) = self.end();
        assert_eq!(signal, Some(9), "{what}: {passed:?}");
        passed
    }
}
