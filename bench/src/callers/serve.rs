//! The other processes from inside: reads what this one was started as, and serves.
//!
//! Invariant: the peer process has one thread, which sleeps or serves the ordered calls, and it dies
//! with the thread that started it.

use std::env;
use std::io;
use std::os::fd::AsFd;
use std::process;

use nix::sys::prctl;
use nix::sys::signal::Signal;

use crate::Result;
use crate::callers::caller;
use crate::processes::order::Order;
use crate::processes::poll::Poll;
use crate::processes::server::{Parts, Server};
use crate::processes::{busy_loop, compiling};
use crate::transports::SERVICES;

/// Serves and exits when this process was started as the peer, a caller or a neighbour of a contest; returns at once
/// otherwise.
///
/// Call it first in `main` of every program that runs a [`Plan`](crate::Plan): before
/// threads are started, arguments are read or anything is printed.
pub fn serve_if_child() {
    let Some(first) = env::args_os().nth(1) else { return };
    let Some(first) = first.to_str() else { return };
    let (kind, served) = if let Some(poll) = Poll::of_argument(first) {
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

fn serve_orders(poll: Poll) -> Result<()> {
    // A parent that died before this line has closed the control socket, which the loop notices.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    let control = io::stdin();
    let mut servers = Vec::new();
    while let Some((order, descriptors)) = Order::receive(control.as_fd())? {
        match order {
            Order::Install(service, bytes) => {
                let parts = Parts { descriptors, bytes: bytes as usize, poll };
                servers.push(install(&service, parts)?);
            }
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

fn install(name: &str, parts: Parts) -> Result<Box<dyn Server>> {
    let service = SERVICES.iter().find(|service| service.name == name);
    let service = service.ok_or_else(|| format!("no service has the name {name}"))?;
    (service.make)(parts).map_err(|error| format!("{name}: {error}").into())
}
