//! The executor as a process that a controller started.

use std::net::TcpListener;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::served::Served;
use super::{connected, first_thread};
use crate::Prot;
use crate::call::contract::EXECUTOR_ARGUMENT as ARGUMENT;
use crate::error::{Error, Result};
use crate::shm::Segment;
use crate::sys::{process, socket, trap};
use crate::transport::{Connection, Lane, Side, lane_segment};
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
    // Runs the exit handlers of the C library: buffered output is written.
    std::process::exit(status(serve(asked)));
}

/// The whole of an executor's program: serves as its arguments ask and exits.
///
/// Beside what a controller of this library passes ([`serve_if_asked`]) these are the arguments that LLVM's tools know:
/// `filedescs=R,W` and `R W`, the numbers of the descriptors to read from and to write to, and `listen=HOST:PORT`, where one
/// connection is accepted; with the feature `named-segment` also `segment=NAME`. Words in front that begin with `test-`
/// are for LLVM's own tests and mean nothing here.
pub fn main() -> ! {
    serve_if_asked();
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let connection = match connection(&args) {
        Ok(connection) => connection,
        Err(error) => {
            eprintln!("farcall executor: {error}");
            std::process::exit(125);
        }
    };
    trap::restore_sigpipe();
    let served = first_thread::outlive_others().and_then(|()| connected::serve(connection));
    std::process::exit(status(served));
}

/// The connection that arguments ask for.
fn connection(args: &[String]) -> Result<Connection> {
    let args: Vec<_> = args.iter().skip_while(|arg| arg.starts_with("test-")).collect();
    let numbers = |reader: &str, writer: &str| {
        let number = |text: &str| text.parse::<i32>().map_err(|_| not_asked(text));
        let (reader, writer) = (number(reader)?, number(writer)?);
        let read_from = process::adopt(reader)?;
        if reader == writer {
            return Connection::socket(read_from);
        }
        Connection::stream(read_from, process::adopt(writer)?)
    };
    match args.as_slice() {
        [reader, writer] => numbers(reader, writer),
        [one] => {
            if let Some((reader, writer)) =
                one.strip_prefix("filedescs=").and_then(|numbers| numbers.split_once(','))
            {
                return numbers(reader, writer);
            }
            #[cfg(feature = "named-segment")]
            if let Some(name) = one.strip_prefix("segment=") {
                return Connection::attach_named(name);
            }
            let place = one.strip_prefix("listen=").ok_or_else(|| not_asked(one))?;
            let failed = |error| Error::os(format!("listening at {place}"), error);
            let listener = TcpListener::bind(place).map_err(failed)?;
            // Whoever asked for port 0 learns here which one it is.
            eprintln!("listening at {}", listener.local_addr().map_err(failed)?);
            let (socket, _) = listener.accept().map_err(failed)?;
            socket.set_nodelay(true).map_err(failed)?;
            Connection::socket(socket)
        }
        _ => Err(not_asked("no argument")),
    }
}

fn not_asked(text: &str) -> Error {
    Error::invalid(format!(
        "{text}: a controller starts this program; by hand, give it filedescs=R,W or listen=HOST:PORT"
    ))
}

/// The exit status of an executor's program.
fn status(served: Result<()>) -> i32 {
    match served {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("farcall executor: {error}");
            125
        }
    }
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
    let mut files = socket::receive_fds(socket.as_fd(), 2 + Prot::ALL.len())?.into_iter();
    let (Some(segment), Some(door)) = (files.next(), files.next()) else {
        return Err(Error::violation("no segment came"));
    };
    let segment = lane_segment::open(segment)?;
    // The crash record is written until the process is gone.
    let segment: &'static Arc<Segment> = Box::leak(Box::new(segment));
    trap::install(&segment.words()[layout::CRASH_WORD..layout::SETTLED_WORD])?;
    first_thread::outlive_others()?;
    Served::run(Lane::new(segment, Side::Executor), socket, door, files.collect())
}
