//! The executor as a process of its own.

use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::start_zygote::ahead::Ahead;
use super::start_zygote::{self, Parted};
use super::zygote::{self, Copied, ENDING_INTERVAL, ENDING_LOOKS};
use super::{connected, standby};
use crate::Prot;
use crate::call::contract::{
    CLOSE_OTHERS, CONFINE, DEBUGGABLE, ENFORCED, EXECUTOR_ARGUMENT as ARGUMENT, FEATURES,
    NEAR_SLAB, Placement, START_ZYGOTE, STATIC_TLS_BYTES, STATIC_TLS_OFFSET, Setup, VERSION,
};
#[cfg(feature = "isolate")]
use crate::call::contract::{FILE_BASE, FILE_BUILD_ID};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::context::acceptor::Acceptor;
use crate::executor::context::instance::Instance;
use crate::executor::log::{self, Level};
use crate::executor::process::program::take_over_service;
use crate::executor::process::{crash_report, descriptors, first_thread};
use crate::executor::remote::{connectors, listen};
use crate::executor::services::{names_offered, process_info};
use crate::executor::tls::static_reserve;
use crate::limits::{LISTEN_TIMEOUT, PAGE_BYTES, START_TIMEOUT};
use crate::session::ConnectionSpec;
use crate::shm::Segment;
use crate::sps;
use crate::sync::{AtomicU64, Mutex};
use crate::sys::asymmetric_fence;
use crate::sys::confine::apply::{confine, confine_copy};
use crate::sys::confine::confinement::{Confinement, ConfinementLevel};
use crate::sys::confine::enforced::Enforced;
use crate::sys::first_state;
use crate::sys::futex;
use crate::sys::io::socket;
use crate::sys::process::child::Child;
use crate::sys::process::child::broken_pipe;
use crate::sys::process::forked::Forked;
use crate::sys::process::thread::{SignalMask, Undisturbed};
use crate::sys::process::{child, fork, thread, tied, trap};
use crate::transport::control::{self, Received};
use crate::transport::lane::segment;
use crate::transport::opening::{self, Channel};
use crate::transport::{Connection, Lane, Side, VettedPeer};
use crate::wire::control::{ControlMessage, from_executor, from_zygote};
use crate::wire::hello::Hello;
use crate::wire::layout::{self, HOLDER_WORD, HOLDER_WORDS};

/// The number of the first lane. The controller numbers the others from 1.
const FIRST_LANE: u64 = 0;

/// The exit status of an executor that could not serve.
const FAILED: i32 = 125;

/// The segments to which the crash handler reports, where a leak checker of the program finds them.
static REPORTED: Mutex<Vec<&'static Arc<Segment>>> = Mutex::new(Vec::new());

/// Serves as an executor and exits, if a controller started this process; returns at once otherwise.
///
/// Call it first in `main`, before the program starts threads: then the program can be its own executor
/// ([`ExecutorBuilder::this_program`](crate::controller::ExecutorBuilder::this_program)).
///
/// # Examples
///
/// ```
/// farcall::executor::run_if_spawned();
/// println!("this process is no executor, so the program's own work starts here");
/// ```
pub fn run_if_spawned() {
    let Some(asked) = asked() else { return };
    print_panics_without_backtraces();
    // Exit runs the exit handlers of the C library, which write buffered output.
    std::process::exit(status(serve(&asked)));
}

/// True where [`run_if_spawned`] would serve.
#[cfg(feature = "isolate")]
pub(crate) fn is_spawned() -> bool {
    asked().is_some()
}

/// The words of the controller that started this process, if one did.
fn asked() -> Option<String> {
    let argument = std::env::args_os().nth(1)?;
    Some(argument.to_str()?.strip_prefix(ARGUMENT)?.to_owned())
}

/// Forks this process. The child is an executor, and does not return from here: it ends with its session. The controller of
/// [`ExecutorBuilder::adopt`](crate::controller::ExecutorBuilder::adopt) is this process.
///
/// The executor is ready 0.2 to 0.6 ms sooner than after [`ExecutorBuilder::spawn`](crate::controller::ExecutorBuilder::spawn): the kernel
/// and the dynamic linker load no program. Call it early in `main`, before the program starts threads: what the process has
/// then, the executor has as well.
///
/// | of this process | in the executor |
/// |---|---|
/// | memory | a copy, which code that is not trusted must not read; regions and other shared mappings are shared |
/// | descriptors | the same, without those that close on exec |
/// | signals | ignored ones stay ignored, handled ones have their default action |
/// | exit handlers | run at its end, too |
/// | this thread | the kernel kills the executor when it ends |
///
/// # Errors
///
/// When this is not the process's only thread, there is no `/proc`, or the kernel refuses a process or a descriptor.
///
/// # Examples
///
/// ```standalone_crate
/// use farcall::controller::ExecutorBuilder;
///
/// fn main() -> farcall::Result<()> {
///     let forked = farcall::executor::fork()?;
///     let process = ExecutorBuilder::new().adopt(forked)?.connect()?.process()?;
///     assert!(!process.process_info()?.triple.is_empty());
///     Ok(())
/// }
/// ```
pub fn fork() -> Result<Forked> {
    let mut looks = 0;
    while !thread::is_only_one() {
        if looks == ENDING_LOOKS {
            return Err(Error::invalid(
                "an executor is forked only while the process has one thread, and /proc says so: ExecutorBuilder::spawn needs neither",
            ));
        }
        // A thread that was joined is still there for a moment.
        std::thread::sleep(ENDING_INTERVAL);
        looks += 1;
    }
    // The child would write it once more.
    std::io::stdout().flush().map_err(|error| Error::os("writing to standard output", error))?;
    fork::flush();
    let (ours, theirs) = socket::pair()?;
    let parent = std::process::id().cast_signed();
    // Handlers of signals are the parent's.
    let undisturbed = Undisturbed::new();
    if let Some(pid) = fork::alone()? {
        drop(undisturbed);
        return Ok(Forked::new(Child::of_fork(pid)?, ours));
    }
    // A panic must not unwind into the parent's code.
    let served = catch_unwind(AssertUnwindSafe(|| {
        drop(ours);
        descriptors::begin_anew(theirs.as_fd(), log::descriptor());
        take_over_service(parent);
        drop(undisturbed);
        print_panics_without_backtraces();
        let parted = Parted { socket: theirs, ahead: None };
        status(serve_over(parted, parent, &Confinement::new(), false))
    }));
    std::process::exit(served.unwrap_or(FAILED));
}

/// From now on, a panic of the executor prints where and why, and no backtrace.
///
/// The standard library allocates memory for a backtrace while it holds a lock. Where memory has run out, the thread then waits for
/// that lock, and the process would neither answer nor end.
fn print_panics_without_backtraces() {
    std::panic::set_hook(Box::new(|panic| log::write(Level::Error, format_args!("{panic}"))));
}

/// Runs an executor's program: serves as its arguments say and exits.
///
/// A controller of this library passes arguments of its own ([`run_if_spawned`]). The others are:
///
/// | arguments | serves |
/// |---|---|
/// | `stdio` | over standard input and output |
/// | `fd=N`, `socket:adopt=N` | over the descriptor of a stream socket |
/// | `fd=R,W` | over these descriptors, to read from and to write to; LLVM's tools pass them as `filedescs=R,W` or `R W` |
/// | `tcp:connect=HOST:PORT` | over a connection to a controller that listens there |
/// | `tcp:listen=HOST:PORT`, or `tcp:listen=:PORT` on this machine | one connection that is accepted there |
/// | `segment=NAME` | over the named segment (feature `named-segment`) |
///
/// `stdio` is for commands such as `ssh host farcall-executor stdio`
/// ([`ExecutorBuilder::command`](crate::controller::ExecutorBuilder::command)). Programs in the executor then read nothing
/// from standard input, and print on standard error.
///
/// Leading words that begin with `test-` belong to LLVM's own tests and are ignored.
///
/// The environment variable `ORC_RT_LOG` says what is logged on standard error: `error`, `warning` (the default), `info`, `debug`
/// or `off`. `ORC_RT_LOG_OUTPUT` names a file, at the end of which the log is written instead.
///
/// A crash is named on standard error at every level: signal, fault address, function. The controller may only learn that the
/// connection has ended.
///
/// A controller opens its side by the same words ([`Connection::open`]), where `tcp:connect` meets `tcp:listen`.
///
/// `tcp:listen=PORT` and `tcp:listen=:PORT` listen on this machine only, where every user can connect. With the environment variable
/// `FARCALL_TOKEN` or the argument `token-file=PATH`, a client must send that token within 5 seconds
/// ([`Client::connect_with_token`](crate::controller::Client::connect_with_token)). Other clients are disconnected, and the
/// executor waits for the next one. Addresses that other machines can reach need a token. Nothing is encrypted. An executor to which
/// no controller has connected in 10 minutes says so and exits with 125; the argument `wait-seconds=N` sets another time.
///
/// # Examples
///
/// All that `main` of an executor's program does:
///
/// ```no_run
/// farcall::executor::main()
/// ```
pub fn main() -> ! {
    run_if_spawned();
    log::start();
    let args: Vec<String> =
        std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let connection = match connection(&args) {
        Ok(connection) => connection,
        Err(error) => {
            log::write(Level::Error, format_args!("{error}"));
            std::process::exit(FAILED);
        }
    };
    broken_pipe::restore();
    let outcome = crash_report::install()
        .and_then(|()| first_thread::outlive_others())
        .and_then(|()| connected::serve(connection));
    std::process::exit(status(outcome));
}

/// Opens the connection that the arguments name.
fn connection(args: &[String]) -> Result<Connection> {
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let leading = args.iter().take_while(|arg| arg.starts_with("test-")).count();
    let controller = match &args[leading..] {
        ["stdio"] => VettedPeer::inherited(child::take_streams()?),
        #[cfg(feature = "named-segment")]
        [one] if one.starts_with("segment=") => {
            return Connection::attach_named(one.strip_prefix("segment=").unwrap_or_default());
        }
        // LLVM 22's words.
        [reader, writer] if [reader, writer].iter().all(|text| text.parse::<i32>().is_ok()) => {
            opened(&format!("fd={reader},{writer}"))?
        }
        [one] if one.starts_with("filedescs=") => opened(&one.replacen("filedescs", "fd", 1))?,
        [one, others @ ..] if one.starts_with("tcp:listen=") => listened(&one.parse()?, others)?,
        [one] if one.starts_with("listen=") => {
            return Err(Error::invalid(format!("{one}: say tcp:{one}")));
        }
        [one] if one.contains('=') => opened(one)?,
        [one, ..] => return Err(not_asked(one)),
        [] => return Err(not_asked("no argument")),
    };
    let (reader, writer) = connectors::channel(controller);
    Connection::stream(reader, writer)
}

fn opened(text: &str) -> Result<VettedPeer<Channel>> {
    opening::peer(&text.parse()?, Deadline::after(START_TIMEOUT))
}

/// The controller that connects to the executor, which listens as the words say.
fn listened(spec: &ConnectionSpec, words: &[&str]) -> Result<VettedPeer<Channel>> {
    let (mut token_file, mut timeout) = (None, LISTEN_TIMEOUT);
    for word in words {
        match word.split_once('=') {
            Some(("token-file", path)) => token_file = Some(path),
            Some(("wait-seconds", number)) => {
                let seconds = number.parse().ok().filter(|seconds| *seconds > 0);
                let no_time = || Error::invalid(format!("{word}: say a whole number, 1 or more"));
                timeout = Duration::from_secs(seconds.ok_or_else(no_time)?);
            }
            _ => return Err(not_asked(word)),
        }
    }
    let accepted = listen::accept(spec.descriptor(), token_file, timeout);
    accepted.map_err(|error| error.during(opening::name(spec)))
}

fn not_asked(text: &str) -> Error {
    Error::invalid(format!(
        "{text}: a controller starts this program; by hand, give it stdio, fd=N, fd=R,W, tcp:connect=HOST:PORT, or \
         tcp:listen=HOST:PORT (:PORT for this machine) [token-file=PATH] [wait-seconds=N]"
    ))
}

/// The exit status: 0, or [`FAILED`] after an error, which is printed.
fn status(outcome: Result<()>) -> i32 {
    match outcome {
        Ok(()) => {
            log::write(Level::Info, format_args!("the session has ended in order"));
            0
        }
        Err(error) => {
            log::write(Level::Error, format_args!("{error}"));
            FAILED
        }
    }
}

fn serve(asked: &str) -> Result<()> {
    let (asked, has_zygote) = match asked.strip_suffix(START_ZYGOTE) {
        Some(asked) => (asked, true),
        None => (asked, false),
    };
    let (asked, closes) = match asked.strip_suffix(CLOSE_OTHERS) {
        Some(asked) => (asked, true),
        None => (asked, false),
    };
    let (asked, confinement) = match asked.split_once(CONFINE) {
        Some((asked, word)) => (asked, Confinement::from_word(word)),
        None => (asked, Some(Confinement::new())),
    };
    let confinement = confinement
        .ok_or_else(|| Error::invalid(format!("{ARGUMENT}{asked}: an unknown confinement")))?;
    let (asked, is_debuggable) = match asked.strip_suffix(DEBUGGABLE) {
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
    } else if fd != child::SOCKET {
        // This process has the descriptors of its parent, and so those that a service manager has opened.
        take_over_service(parent);
    }
    let socket = child::adopt(fd)?;
    let parted = match has_zygote {
        true => start_zygote::part(child::adopt(fd.saturating_add(1))?, socket, parent)?,
        false => Parted { socket, ahead: None },
    };
    serve_over(parted, parent, &confinement, is_debuggable)
}

/// Serves the controller, the process `parent`, over its socket.
fn serve_over(
    Parted { socket, ahead }: Parted,
    parent: i32,
    confinement: &Confinement,
    is_debuggable: bool,
) -> Result<()> {
    log::start();
    log::write(Level::Info, format_args!("process {parent} is the controller"));
    let (acceptor, stripes, enforced) = prepare(socket.as_fd(), parent, confinement)
        .inspect_err(|error| control::send_last_words(socket.as_fd(), error))?;
    if ahead.is_some() {
        acceptor.wait_ahead();
    }
    let session = Instance::begin(Some(acceptor));
    if is_debuggable {
        session.memory.map_code_privately();
    }
    run(session, socket, First { stripes, enforced, ahead })
}

/// The beginning of the first session of a process. A copy's session has none.
struct First {
    /// The stripes of the first slab.
    stripes: Vec<OwnedFd>,
    enforced: Enforced,
    /// The request is still to come.
    ahead: Option<Ahead>,
}

/// Serves the controller of a new session, until it closes its socket; then runs the remaining dealloc
/// actions. The calling thread serves that lane; each other lane gets a thread of its own. The first slab is mapped before the setup is
/// sent, which saves a message.
///
/// A process that becomes a zygote returns from here in each copy as well, at the end of the copy's session.
///
/// # Errors
///
/// The reason for the session's end, unless the controller ended it in order, or the failed dealloc actions.
fn run(mut session: Arc<Instance>, socket: OwnedFd, first: First) -> Result<()> {
    let enforced = first.enforced;
    let mut frozen = serve_lanes(&session, socket, Some(first))?;
    while let Some(zygote) = frozen.take() {
        log::write(Level::Info, format_args!("copies of this process are made from now on"));
        let Some(Copied { socket, segment }) = zygote::serve(&zygote)? else { fork::end(0) };
        log::write(Level::Info, format_args!("process {} is a copy", std::process::id()));
        drop(zygote);
        let begun = confine_copy(&enforced).and_then(|()| begin_copy(segment, session));
        session = begun.inspect_err(|error| control::send_last_words(socket.as_fd(), error))?;
        frozen = serve_lanes(&session, socket, None)?;
    }
    Ok(())
}

/// Makes the session of a copy, whose first lane has this segment, from the zygote's.
fn begin_copy(segment: OwnedFd, session: Arc<Instance>) -> Result<Arc<Instance>> {
    let segment = leaked(segment::open(segment)?);
    let (record, holder) = crash_words(segment);
    trap::report_to(record, holder, None);
    let controller = session.acceptor()?.controller;
    Instance::renewed(session, Acceptor::new(Arc::clone(segment), controller))
}

/// Serves a session over its lanes. Returns the zygote's socket if the controller makes this process one. `begun` is `None` in a
/// copy, whose controller knows the zygote's setup.
fn serve_lanes(
    session: &Arc<Instance>,
    socket: OwnedFd,
    begun: Option<First>,
) -> Result<Option<OwnedFd>> {
    let acceptor = session.acceptor()?;
    let first = &acceptor.first;
    let end = session.lanes().add(Lane::new(first, Side::Executor))?;
    // Without the lock the controller does not notice this thread's end.
    let _ = first_thread::hold(first.view(HOLDER_WORD..HOLDER_WORD + HOLDER_WORDS));
    let (mut ended, is_copy) = (Ok(()), begun.is_none());
    if is_copy {
        // The controller begins its work with the copy while the threads start.
        ended = end.send_setup(&[]);
    }
    // Open until the acceptor's thread holds it, too.
    let stripes = begun.as_ref().map_or(&[][..], |first| &first.stripes);
    let data = stripes.get(Prot::Data.index()).and_then(|file| file.try_clone().ok());
    let files = [socket.as_raw_fd(), data.as_ref().map_or(-1, AsRawFd::as_raw_fd)];
    // Both threads start while this one prepares its setup, if it has one.
    let started = Acceptor::start(session, files);
    let socket = match started {
        // Nothing to wait for: the acceptor's thread gets the table, in which all is open that is open in the zygote as well.
        Ok(()) if is_copy => descriptors::leave_behind(socket).err(),
        _ => Some(socket),
    };
    started
        .and_then(|()| standby::begin(Arc::clone(session), SignalMask::of_thread(), is_copy))
        .inspect_err(|error| match &socket {
            Some(socket) => control::send_last_words(socket.as_fd(), error),
            None => acceptor.send_last_words(error),
        })?;
    let (mut setup, ahead) = match begun {
        Some(First { stripes, enforced, ahead }) => {
            (Some(setup(session, stripes, enforced)), ahead)
        }
        None => (None, None),
    };
    if let (Some(ahead), Some(socket)) = (ahead, &socket) {
        // The controller has read it when it wants this process.
        ended = end.send_setup(&setup.take().unwrap_or_default());
        let is_wanted = ahead.wait(socket.as_fd());
        let is_wanted =
            is_wanted.inspect_err(|error| control::send_last_words(socket.as_fd(), error))?;
        acceptor.end_wait(is_wanted);
    }
    if let Some(socket) = socket {
        acceptor.release_socket(socket);
    }
    drop(data);
    if let Some(setup) = setup {
        ended = end.send_setup(&setup);
    }
    let ended = ended.and_then(|()| session.serve(FIRST_LANE, end, |_| Ok(())));
    let is_this_lane_alone = |error: &Error| error.kind() == ErrorKind::Disconnected;
    if ended.as_ref().err().is_none_or(is_this_lane_alone) {
        // The controller may still use other lanes.
        acceptor.wait_closed();
    }
    if acceptor.is_freezing() {
        return acceptor.take_zygote().map(Some);
    }
    let failures = session.end();
    first_state::end();
    if !acceptor.is_closed() {
        ended.inspect_err(|error| acceptor.send_last_words(error))?;
    }
    let broken = acceptor.broken().map_or(Ok(()), Err);
    Error::join(broken, failures).map(|()| None)
}

/// The first knowledge of the controller: names, numbers, and where the first slab is, whose stripes this maps.
fn setup(session: &Arc<Instance>, stripes: Vec<OwnedFd>, enforced: Enforced) -> Vec<u8> {
    let Hello { version, features } = Hello::OWN;
    let mut numbers = vec![
        (VERSION.to_owned(), version.cast_signed()),
        (FEATURES.to_owned(), features.bits().cast_signed()),
        (ENFORCED.to_owned(), enforced.to_number()),
    ];
    if let Some(reserve) = static_reserve::get() {
        numbers.push((STATIC_TLS_OFFSET.to_owned(), reserve.offset));
        numbers.push((STATIC_TLS_BYTES.to_owned(), reserve.bytes.cast_signed()));
    }
    #[cfg(feature = "isolate")]
    {
        let own = crate::sys::own_file::OwnFile::find();
        numbers.push((FILE_BASE.to_owned(), own.base.cast_signed()));
        let id = own.build_id.map(u64::cast_signed);
        numbers.extend(id.map(|id| (FILE_BUILD_ID.to_owned(), id)));
    }
    let mut symbols = names_offered::symbols(session);
    // The controller may be a program of LLVM's, over the C ABI.
    symbols.extend(connected::functions());
    let slab = session.reserve_shared(0, Placement::Near, stripes);
    symbols.extend(slab.ok().map(|start| (NEAR_SLAB.to_owned(), start)));
    let names = symbols.len();
    let setup: Setup = (process_info::triple(), PAGE_BYTES, symbols, numbers);
    let setup = sps::to_bytes(&setup);
    log::write(
        Level::Debug,
        format_args!("the setup offers {names} names in {} bytes", setup.len()),
    );
    setup
}

/// The crash handler writes to the segment until the process is gone.
fn leaked(segment: Arc<Segment>) -> &'static Arc<Segment> {
    let segment: &'static Arc<Segment> = Box::leak(Box::new(segment));
    REPORTED.lock().push(segment);
    segment
}

/// The words of the first lane's segment to which the crash handler reports.
fn crash_words(first: &'static Segment) -> (&'static [AtomicU64], &'static AtomicU64) {
    const ROOM: usize = layout::SETTLED_WORD - layout::CRASH_WORD;
    const { assert!(trap::RECORD_WORDS <= ROOM, "the crash record ends before the next line") };
    let words = first.words();
    (&words[layout::CRASH_WORD..layout::SETTLED_WORD], &words[layout::PROCESS_HOLDER_WORD])
}

/// Ties this process's life to the controller's, confines it, and receives the first message: the first lane's segment, and
/// the stripes of the first slab.
///
/// # Errors
///
/// If the system refuses. If the controller is of another version, or breaks the protocol.
fn prepare(
    socket: BorrowedFd<'_>,
    parent: i32,
    confinement: &Confinement,
) -> Result<(Acceptor, Vec<OwnedFd>, Enforced)> {
    tied::die_with_parent(parent)?;
    // While there is one thread.
    asymmetric_fence::prepare();
    broken_pipe::restore();
    futex::check()?;
    let confined = confine(confinement, parent)?;
    if confinement.level() != ConfinementLevel::Default {
        let pid = u64::from(confined.sweeper.unwrap_or(0).unsigned_abs());
        control::send(socket, &ControlMessage::Sweeper { pid }, &[], Deadline::now())?;
    }
    let (hello, files) = receive_begin(socket)?;
    let mut files = files.into_iter();
    let segment = files.next().ok_or_else(|| Error::violation("no segment came"))?;
    let segment = leaked(segment::open(segment)?);
    let (record, holder) = crash_words(segment);
    trap::install(record, holder, None)?;
    first_thread::outlive_others()?;
    let acceptor = Acceptor::new(Arc::clone(segment), hello.features);
    Ok((acceptor, files.collect(), confined.enforced))
}

/// Waits for the controller's first message.
///
/// # Errors
///
/// If the controller is gone, is of another version, or sends anything else.
fn receive_begin(socket: BorrowedFd<'_>) -> Result<(Hello, Vec<OwnedFd>)> {
    let Some(Received { message, files }) = control::receive(socket, Deadline::SESSION_END)? else {
        return Err(Error::disconnected("the controller has closed the control socket"));
    };
    match message {
        ControlMessage::Begin { hello } => {
            hello.check("the controller", "this executor")?;
            Ok((hello, files?))
        }
        ControlMessage::Lane { .. }
        | ControlMessage::Pipeline { .. }
        | ControlMessage::ReverseLane
        | ControlMessage::NoLane
        | ControlMessage::Slab { .. }
        | ControlMessage::Region { .. }
        | ControlMessage::Freeze
        | ControlMessage::Fork
        | ControlMessage::Collect { .. }
        | ControlMessage::Start
        | ControlMessage::StartAhead
        | ControlMessage::Take
        | ControlMessage::Interrupt { .. }
        | from_executor!()
        | from_zygote!() => {
            Err(message.misplaced("an executor ahead of the controller's first message"))
        }
    }
}

#[cfg(test)]
mod tests;
