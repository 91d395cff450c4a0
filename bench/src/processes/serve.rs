//! The peer process from inside: reads orders, serves calls.
//!
//! Invariant: the process has one thread, which sleeps or serves the ordered calls, and it dies
//! with the thread that started it.

use std::env;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process;

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::Result;
use crate::busy::{busy_loop, compiling};
use crate::costs::removal::ExecutorServer;
use crate::processes::caller;
use crate::processes::order::{Order, Service};
use crate::processes::poll::Poll;
use crate::transports::{copy, eventfd, floor, futex, kernel};

/// One row's server.
pub(crate) trait Server {
    /// Answers `calls` calls.
    fn serve(&mut self, calls: u32) -> Result<()>;
}

/// Serves and exits when this process was started as the peer, a caller or a neighbour of a contest; returns at once
/// otherwise.
///
/// Call it first in `main` of every program that runs a [`Plan`](crate::Plan): before
/// threads are started, arguments are read or anything is printed.
pub fn serve_if_child() {
    let Some(first) = env::args_os().nth(1) else { return };
    let Some(first) = first.to_str() else { return };
    let polls = [Poll::Pause, Poll::Yield];
    let (kind, served) = if let Some(poll) = polls.into_iter().find(|&poll| first == argument(poll))
    {
        ("peer", serve_orders(poll))
    } else if let Some(placement) = caller::placement(first) {
        ("caller", caller::serve_orders(&placement))
    } else if let Some(of) = busy_loop::of_argument(first) {
        ("busy", busy_loop::run(of))
    } else if first == compiling::ARGUMENT {
        ("compiling", compiling::run())
    } else {
        return;
    };
    let status = match served {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("farcall-bench {kind} process: {error}");
            1
        }
    };
    process::exit(status)
}

/// The first argument of a peer process that polls like this; its standard input is the control
/// socket.
pub(crate) fn argument(poll: Poll) -> &'static str {
    match poll {
        Poll::Pause => "--farcall-bench-peer=pause",
        Poll::Yield => "--farcall-bench-peer=yield",
    }
}

fn serve_orders(poll: Poll) -> Result<()> {
    // A parent that died before this line has closed the control socket, which the loop notices.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let control = io::stdin();
    let mut servers = Vec::new();
    while let Some((order, fds)) = Order::receive(control.as_fd())? {
        match order {
            Order::Install(service, bytes) => servers.push(install(service, bytes, fds, poll)?),
            Order::Serve { slot, calls } => {
                let installed = servers.len();
                let server = servers.get_mut(slot as usize);
                server
                    .ok_or_else(|| format!("an order to serve slot {slot} of {installed}"))?
                    .serve(calls)?;
            }
        }
    }
    Ok(())
}

fn install(service: Service, bytes: u32, fds: Vec<OwnedFd>, poll: Poll) -> Result<Box<dyn Server>> {
    let count = fds.len();
    let mut fds = fds.into_iter();
    match (service, fds.next(), fds.next()) {
        (Service::TwoLines, Some(memfd), None) => {
            Ok(Box::new(floor::TwoLinesServer::attach(memfd.as_fd(), poll)?))
        }
        (Service::OneLine, Some(memfd), None) => {
            Ok(Box::new(floor::OneLineServer::attach(memfd.as_fd(), poll)?))
        }
        (Service::Copy, Some(memfd), None) => {
            Ok(Box::new(copy::BareCopyServer::attach(memfd.as_fd(), poll)?))
        }
        (Service::Futex, Some(memfd), None) => {
            Ok(Box::new(futex::FutexServer::attach(memfd.as_fd())?))
        }
        (Service::Echo, Some(from), Some(to)) => {
            Ok(Box::new(kernel::EchoServer::new(from, to, bytes as usize)))
        }
        #[cfg(feature = "iceoryx2")]
        (Service::Iceoryx, None, None) => {
            Ok(Box::new(crate::transports::iceoryx::IceoryxServer::open(poll)?))
        }
        #[cfg(feature = "shaq")]
        (Service::Shaq, Some(calls), Some(results)) => {
            Ok(Box::new(crate::transports::shaq::ShaqServer::attach(calls, results, poll)?))
        }
        (Service::Eventfd, Some(requests), Some(replies)) => {
            Ok(Box::new(eventfd::EventfdServer::new(requests, replies)))
        }
        (Service::Executor, Some(socket), None) => Ok(Box::new(ExecutorServer::new(socket)?)),
        _ => Err(format!("{service:?} came with {count} descriptors").into()),
    }
}
