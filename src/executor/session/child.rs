//! The executor as a process that a controller started.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::{connected, standby};
use crate::Prot;
use crate::call::contract::{
    CLOSE_OTHERS, EXECUTOR_ARGUMENT as ARGUMENT, LAST_WORDS, NEAR_SLAB, Placement, Setup,
    THREAD_ARENA_BYTES, THREAD_ARENA_OFFSET,
};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::executor::context::acceptor::Acceptor;
use crate::executor::context::instance::Instance;
use crate::executor::process::{descriptors, first_thread};
use crate::executor::remote::listen;
use crate::executor::services::{names_offered, process_info};
use crate::executor::tls::static_reserve;
use crate::limits::PAGE_BYTES;
use crate::shm::Segment;
use crate::sps;
use crate::sys::socket::{self, Received};
use crate::sys::{futex, process, trap};
use crate::transport::{Connection, Lane, Side, lane_segment};
use crate::wire::layout::{self, HOLDER_WORD, HOLDER_WORDS};

/// Serves as an executor and exits, if a controller started this process as one; returns at once otherwise.
///
/// Call it first thing in `main`, before threads are started: then the program's own file can be its executor
/// ([`ExecutorBuilder::this_program`](crate::controller::ExecutorBuilder::this_program)).
pub fn run_if_spawned() {
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
/// Beside what a controller of this library passes ([`run_if_spawned`]) these are the arguments that LLVM's tools know:
/// `filedescs=R,W` and `R W`, the numbers of the descriptors to read from and to write to, and `listen=HOST:PORT`, where one
/// connection is accepted. `stdio` serves over standard input and output, for a command such as `ssh host farcall-executor
/// stdio` ([`ExecutorBuilder::command`](crate::controller::ExecutorBuilder::command)): what runs here reads nothing then, and prints on standard
/// error. With the feature `named-segment` there is also `segment=NAME`. Words in front that begin with `test-` are for LLVM's
/// own tests and mean nothing here.
///
/// `listen=PORT` listens on this machine alone, where every user can come. With the environment variable `FARCALL_TOKEN`, or
/// `token-file=PATH` behind, a client has to send that token first, within 5 seconds
/// ([`Client::connect_with_token`](crate::controller::Client::connect_with_token)); one that does not is let go of, and the next
/// one is waited for. A host that other machines reach is listened at only with a token. Nothing is encrypted.
pub fn main() -> ! {
    run_if_spawned();
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
    if let [first, others @ ..] = args.as_slice()
        && let Some(place) = first.strip_prefix("listen=")
    {
        let file = |text: &str| text.strip_prefix("token-file=").map(str::to_owned);
        return match others {
            [] => listen::accept(place, None),
            [one] => listen::accept(place, Some(&file(one).ok_or_else(|| not_asked(one))?)),
            _ => Err(not_asked(others[1])),
        };
    }
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
            if one.as_str() == "stdio" {
                let (reader, writer) = process::take_streams()?;
                return Connection::stream(reader, writer);
            }
            Err(not_asked(one))
        }
        _ => Err(not_asked("no argument")),
    }
}

fn not_asked(text: &str) -> Error {
    Error::invalid(format!(
        "{text}: a controller starts this program; by hand, give it stdio, filedescs=R,W or listen=HOST:PORT [token-file=PATH]"
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
    let (asked, closes) = match asked.strip_suffix(CLOSE_OTHERS) {
        Some(asked) => (asked, true),
        None => (asked, false),
    };
    let numbers = asked.split_once(',').and_then(|(socket, parent)| {
        Some((socket.parse::<i32>().ok()?, parent.parse::<i32>().ok()?))
    });
    let (fd, parent) =
        numbers.ok_or_else(|| Error::invalid(format!("{ARGUMENT}{asked}: not two numbers")))?;
    if closes {
        descriptors::close_from(fd.saturating_add(1))?;
    }
    let socket = process::adopt(fd)?;
    let (segment, stripes) =
        prepare(socket.as_fd(), parent).inspect_err(|error| last_words(socket.as_fd(), error))?;
    run(segment, socket, stripes)
}

/// Offers this process's services to the controller that made the lane in `first`, until that closes its socket; then runs
/// what dealloc actions are left. The calling thread serves that lane; every other lane gets a thread of its own.
/// `stripes` are those of the first slab, mapped before the controller is told anything: that spares it a message.
///
/// # Errors
///
/// Why the session ended, when the controller did not end it in order, or which dealloc actions failed.
fn run(first: &Arc<Segment>, socket: OwnedFd, stripes: Vec<OwnedFd>) -> Result<()> {
    let session = Instance::begin(Some(Acceptor::new(Arc::clone(first))));
    let acceptor = session.acceptor()?;
    standby::begin(Arc::clone(&session), Some(socket.as_raw_fd()))
        .inspect_err(|error| last_words(socket.as_fd(), error))?;
    let end = session.lanes().add(Lane::new(first, Side::Executor))?;
    // Without it the controller does not hear of this thread's end.
    let _ = first_thread::hold(first.view(HOLDER_WORD..HOLDER_WORD + HOLDER_WORDS));
    let mut numbers = Vec::new();
    if let Some(reserve) = static_reserve::get() {
        numbers.push((THREAD_ARENA_OFFSET.to_owned(), reserve.offset));
        numbers.push((THREAD_ARENA_BYTES.to_owned(), reserve.bytes.cast_signed()));
    }
    let mut symbols = names_offered::symbols(&session);
    let slab = session.reserve_shared(Placement::Near, stripes);
    symbols.extend(slab.ok().map(|start| (NEAR_SLAB.to_owned(), start)));
    let setup: Setup = (process_info::triple(), PAGE_BYTES, symbols, numbers);
    acceptor.leave(socket).map_err(|(error, socket)| {
        last_words(socket.as_fd(), &error);
        error
    })?;
    let ended = end.send_setup(&sps::to_bytes(&setup)).and_then(|()| session.serve(end));
    if ended.is_ok() {
        // The controller needs this lane no more, perhaps others.
        acceptor.wait_closed();
    }
    let failures = session.end();
    if !acceptor.is_closed() {
        ended.inspect_err(|error| acceptor.say_last(error))?;
    }
    failures
}

/// Ties this process to the controller's, and takes what that sends first: the first lane's segment, and the stripes of the
/// first slab.
fn prepare(socket: BorrowedFd<'_>, parent: i32) -> Result<(&'static Arc<Segment>, Vec<OwnedFd>)> {
    process::die_with_parent(parent)?;
    trap::restore_sigpipe();
    futex::check()?;
    let expected = 1 + Prot::ALL.len();
    let Received { number, files, .. } =
        socket::receive_fds(socket, expected, Deadline::SESSION_END)?;
    if number != layout::VERSION {
        return Err(Error::violation(format!(
            "the controller is of version {number}, and this executor of version {}: both must be of one build",
            layout::VERSION
        )));
    }
    let mut files = files.into_iter();
    let segment = files.next().ok_or_else(|| Error::violation("no segment came"))?;
    let segment = lane_segment::open(segment)?;
    // The crash record is written until the process is gone.
    let segment: &'static Arc<Segment> = Box::leak(Box::new(segment));
    let words = segment.words();
    trap::install(
        &words[layout::CRASH_WORD..layout::SETTLED_WORD],
        &words[layout::PROCESS_HOLDER_WORD],
    )?;
    first_thread::outlive_others()?;
    Ok((segment, files.collect()))
}

/// Tells the controller why this process is about to end: what it prints may be seen by nobody.
pub(crate) fn last_words(socket: BorrowedFd<'_>, why: &Error) {
    // A controller that is gone wants to know nothing.
    let _ = socket::tell(socket, LAST_WORDS, layout::VERSION, &why.to_string());
}

#[cfg(test)]
mod tests;
