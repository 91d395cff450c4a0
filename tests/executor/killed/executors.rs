//! An executor is killed: an embedded one, a serving one, and the program.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use farcall::controller::Client;
use farcall::controller::memory::{AllocAction, AllocActionPair, Segment};
use farcall::executor::{SharedLane, SimpleRemote};
use farcall::session::SessionBuilder;
use farcall::sps::AllocGroup;
use farcall::{AddrRange, ErrorKind, ExecutorAddr, Prot, Result};

use super::super::{ANSWER, PROGRAM};
use super::{Points, Victim, Way, again, own_socket, point};

/// The handler that the executor calls back.
const HANDLER: u64 = 0x77;
/// Larger than what the address space of the survivor may grow by.
const SLAB_BYTES: u64 = 1 << 30;
/// More than fits a lane's bulk buffer, so that it comes in parts.
const LARGE_BYTES: u64 = 65 << 20;
/// Moments that are tried while calls go to and fro.
const MOMENTS: u32 = 24;

/// `getpid`, then `kill` with 9: as a wrapper function, or as an action.
const KILL: &[u8] =
    b"\xb8\x27\x00\x00\x00\x0f\x05\x89\xc7\xbe\x09\x00\x00\x00\xb8\x3e\x00\x00\x00\x0f\x05\x0f\x0b";
/// `pause`, for ever.
const PAUSE: &[u8] = b"\xb8\x22\x00\x00\x00\x0f\x05\xeb\xf7";

/// The kind of executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Session,
    Serve,
    Program,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Serve => "serve",
            Self::Program => "program",
        }
    }

    /// The kinds that each way reaches.
    pub(super) fn all() -> impl Iterator<Item = (Self, Way)> {
        let embedded = [Self::Session, Self::Serve];
        let embedded = embedded.into_iter().flat_map(|kind| Way::ALL.map(|way| (kind, way)));
        embedded.chain([(Self::Program, Way::Stream)])
    }

    pub(super) fn command(self, way: Way) -> Command {
        if self == Self::Program {
            let mut command = Command::new(PROGRAM);
            command.arg("filedescs=0,0");
            return command;
        }
        again(&format!("executor {} {}", self.name(), way.name()))
    }
}

/// The victim itself.
pub(super) fn victim(how: &str) {
    let (kind, way) = how.split_once(' ').expect("a kind and a way");
    point("before the connection");
    let socket = own_socket();
    let way = Way::named(way);
    if kind == "session" { session(way, socket) } else { serve(way, socket) }
}

fn serve(way: Way, socket: OwnedFd) {
    let Ok(connection) = way.attach(socket) else { return };
    point("connected, before the setup");
    let _ = farcall::executor::serve(connection);
    point("behind the end");
}

fn session(way: Way, socket: OwnedFd) {
    let (told, is_over) = mpsc::channel();
    let options = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run())))
        .function("asks", |session, args, reply| {
            point("in a call");
            let answer = session.call(HANDLER, args);
            point("in a call, behind a call back");
            reply.send(answer.map_err(|error| error.to_string()));
            point("behind an answer");
        })
        .expect("a function")
        .on_error(|_, _| {})
        .on_disconnect(move |_, _| {
            point("told of the end");
            let _ = told.send(());
        });
    let session = options.build().expect("a session");
    point("a session, before it is attached");
    let attached = match way {
        Way::Lane => session.try_attach(|_| SharedLane::attach(socket)),
        Way::Stream => session.try_attach(|_| SimpleRemote::socket(socket)),
    };
    if attached.is_err() {
        return;
    }
    point("attached");
    let _ = is_over.recv();
    session.shutdown(|| point("shut down"));
    let _ = session.wait();
}

/// How the controller brings the executor's death about, or lets it live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deed {
    None,
    /// The function that is called kills it.
    Call,
    /// The function that the controller's handler calls.
    NestedCall,
    /// The function, when the handler has answered.
    BehindCallBack,
    Finalize,
    /// The dealloc action that undoes, when another finalize action has failed.
    Undo,
    Deinitialize,
    /// The line of the first of two.
    DeinitializeMultiple,
    Release,
    /// The dealloc action that was left for the end of the session.
    End,
}

const DEEDS: [Deed; 9] = [
    Deed::Call,
    Deed::NestedCall,
    Deed::BehindCallBack,
    Deed::Finalize,
    Deed::Undo,
    Deed::Deinitialize,
    Deed::DeinitializeMultiple,
    Deed::Release,
    Deed::End,
];

/// The controller's experience: calls that worked, and then calls that failed since the executor is gone.
#[derive(Default)]
struct Seen {
    worked: usize,
    /// The first that failed, and why.
    failed: Option<String>,
}

impl Seen {
    fn see<T>(&mut self, what: &str, outcome: Result<T>) -> Result<T> {
        match &outcome {
            Ok(_) => {
                assert_eq!(self.failed, None, "{what} works, and an earlier call did not");
                self.worked += 1;
            }
            Err(error) => {
                let is_clear = error.is_disconnected() && error.kind() != ErrorKind::Violation;
                assert!(is_clear && !error.to_string().is_empty(), "{what}: {error:?}");
                self.failed.get_or_insert_with(|| format!("{what}: {error}"));
            }
        }
        outcome
    }
}

/// A controller from its connection to its end. Returns how many calls worked, or why one did not.
pub(super) fn converse(
    way: Way,
    socket: OwnedFd,
    deed: Deed,
) -> std::result::Result<usize, String> {
    let mut seen = Seen::default();
    let connected = way.create(socket).and_then(Client::connect);
    if let Ok(client) = seen.see("the connection", connected) {
        let handled = Rc::new(Cell::new(0));
        if say(&client, &mut seen, deed, &handled).is_err() {
            // It stays so, at once.
            let gone = client.call(ExecutorAddr::new(1), &[], None).expect_err("nobody is there");
            assert!(gone.is_disconnected() && gone.kind() != ErrorKind::Violation, "{gone:?}");
        }
    }
    seen.failed.map_or(Ok(seen.worked), |failed| Err(format!("{} worked; {failed}", seen.worked)))
}

fn say(client: &Client, seen: &mut Seen, deed: Deed, handled: &Rc<Cell<usize>>) -> Result<()> {
    let (memory, access) = (client.native_memory(), client.memory_access());
    let symbol = |name: &str| client.symbol(name).expect("offered");
    let [context, dispatch] = ["ctx", "fn"].map(|name| {
        let name = format!("__llvm_orc_SimpleRemoteEPC_dispatch_{name}");
        symbol(&name).get()
    });
    let slab = seen.see("reserve", memory.reserve(SLAB_BYTES))?;
    let at = |page: u64| ExecutorAddr::new(slab.get() + page * 4096);
    let code = [ANSWER, KILL, &super::super::calls_back(context, dispatch), &{
        let mut code = calls_back_and_goes_on(context, dispatch);
        code.extend(KILL);
        code
    }];
    let group = AllocGroup::standard(Prot::Code);
    let mut functions = Vec::new();
    for (page, content) in (0..).zip(code) {
        let segment = Segment { group, start: at(page), bytes: 4096, content };
        functions.push(seen.see("initialize", memory.initialize(&[segment], &[]))?);
    }
    let [answer, kills, back, back_and_kills] = functions[..] else { panic!("four") };

    let (dies, seen_by_handler) = (deed == Deed::NestedCall, Rc::clone(handled));
    client.register_handler(HANDLER, move |client, args, result| {
        seen_by_handler.set(seen_by_handler.get() + 1);
        let inner = client.call(if dies { kills } else { answer }, &[], None);
        result.extend_from_slice(&inner.map_err(|error| error.to_string())?);
        result.extend_from_slice(args);
        Ok(())
    });
    let called = if deed == Deed::Call { kills } else { answer };
    seen.see("a call", client.call(called, b"x", None))?;
    let called = if deed == Deed::BehindCallBack { back_and_kills } else { back };
    let nested =
        seen.see("a nested call", client.call(called, b"more than fits in place", None))?;
    assert_eq!((nested.len(), handled.get()), (8 + 23, 1));
    if let Some(asks) = client.symbol("asks") {
        let nested =
            seen.see("a call of the host's function", client.call(asks, &[1; 9000], None))?;
        assert_eq!((nested.len(), handled.get()), (9008, 2), "each was handled once");
    }
    initialize_and_undo(client, seen, deed, [at(10), at(11), at(12)], [answer, kills])?;
    let range = AddrRange::sized(at(100), 300_000).expect("no overflow");
    let read = seen.see("a large result", access.read_buffers(&[range]))?;
    assert_eq!(read[0].len(), 300_000);
    if deed != Deed::End {
        seen.see("release", memory.release(&[slab]))?;
    }
    Ok(())
}

/// Regions with actions, from the first to the last thing that is done with them.
fn initialize_and_undo(
    client: &Client,
    seen: &mut Seen,
    deed: Deed,
    pages: [ExecutorAddr; 3],
    [answer, kills]: [ExecutorAddr; 2],
) -> Result<()> {
    let memory = client.native_memory();
    let action = |when| AllocAction::new(if deed == when { kills } else { answer }, &());
    let harmless = || AllocAction::new(answer, &());
    let group = AllocGroup::standard(Prot::Data);
    let segment = |start| Segment { group, start, bytes: 4096, content: b"data" };
    let mut initialize = |page: usize, pairs: &[AllocActionPair]| {
        seen.see("initialize with actions", memory.initialize(&[segment(pages[page])], pairs))
    };
    let pair = |finalize, dealloc| AllocActionPair { finalize, dealloc };
    let first = pair(harmless(), action(Deed::Deinitialize));
    let one = initialize(0, &[first, pair(action(Deed::Finalize), AllocAction::default())])?;
    if deed == Deed::Undo {
        let reads = client.symbol("orc_rt_ci_sps_mem_read_uint8s").expect("offered");
        // It cannot decode its arguments.
        let fails = pair(AllocAction::new(reads, &7_u64), AllocAction::default());
        initialize(1, &[pair(harmless(), action(Deed::Undo)), fails])?;
    }
    let two = initialize(1, &[pair(harmless(), action(Deed::DeinitializeMultiple))])?;
    let release = if deed == Deed::End { Deed::End } else { Deed::Release };
    initialize(2, &[pair(harmless(), action(release))])?;
    if deed == Deed::DeinitializeMultiple {
        seen.see("deinitializeMultiple", memory.deinitialize(&[two, one]))
    } else {
        seen.see("deinitialize", memory.deinitialize(&[one]))?;
        seen.see("deinitialize", memory.deinitialize(&[two]))
    }
}

/// Calls the handler with its arguments, and goes on behind it.
fn calls_back_and_goes_on(context: u64, dispatch: u64) -> Vec<u8> {
    let mut code = b"\x48\x83\xec\x08".to_vec();
    code.extend(super::super::calls_back(context, dispatch));
    let jump = code.len() - 2;
    // `call rax` in place of `jmp rax`.
    code[jump..].copy_from_slice(b"\xff\xd0");
    code
}

/// Every point where an executor dies.
pub(super) fn all(points: &mut Points) {
    for (kind, way) in Kind::all() {
        let name = format!("executor {} over a {}", kind.name(), way.name());
        let listed = points.runs(&name, "nobody dies", |what| {
            let (victim, socket) = Victim::start(kind.command(way), None);
            let worked = converse(way, socket, Deed::None);
            let (signal, passed) = victim.end();
            assert!(worked.as_ref().is_ok_and(|worked| *worked > 10), "{what}: {worked:?}");
            assert_eq!(signal, None, "{what}");
            passed
        });
        assert!(kind == Kind::Program || listed.len() >= 3, "{name}: {listed:?}");
        for place in &listed {
            points.dies(&format!("{name}, in its own code"), place, |what| {
                let (victim, socket) = Victim::start(kind.command(way), Some(place));
                let _ = converse(way, socket, Deed::None);
                assert!(victim.was_killed(what).contains(place), "{what}");
            });
        }
        for deed in DEEDS {
            points.dies(&format!("{name}, by what it runs"), &format!("{deed:?}"), |what| {
                let (victim, socket) = Victim::start(kind.command(way), None);
                let ended = converse(way, socket, deed);
                assert_eq!(ended.is_ok(), deed == Deed::End, "{what}: {ended:?}");
                victim.was_killed(what);
            });
        }
        at_rest(points, &name, kind, way);
        at_moments(points, &name, kind, way);
        in_a_large_result(points, &name, kind, way);
    }
}

/// A controller of a victim of its own.
fn connect(kind: Kind, way: Way) -> (Victim, Client) {
    let (victim, socket) = Victim::start(kind.command(way), None);
    let client = way.create(socket).and_then(Client::connect);
    (victim, client.expect("it lives"))
}

fn load(client: &Client, code: &[u8]) -> ExecutorAddr {
    let memory = client.native_memory();
    let start = memory.reserve(4096).expect("it lives");
    let group = AllocGroup::standard(Prot::Code);
    let segment = Segment { group, start, bytes: 4096, content: code };
    memory.initialize(&[segment], &[]).expect("it lives")
}

fn is_gone<T: std::fmt::Debug>(outcome: Result<T>, what: &str) {
    let error = outcome.expect_err("nobody is there");
    assert!(error.is_disconnected() && error.kind() != ErrorKind::Violation, "{what}: {error:?}");
}

/// No call is under way, or the controller sleeps in a call that is never answered.
fn at_rest(points: &mut Points, name: &str, kind: Kind, way: Way) {
    let kind_name = format!("{name}, at rest");
    points.dies(&kind_name, "between two calls", |what| {
        let (victim, client) = connect(kind, way);
        let answer = load(&client, ANSWER);
        client.call(answer, &[], None).expect("it lives");
        std::thread::sleep(Duration::from_millis(2));
        victim.kill();
        victim.wait();
        is_gone(client.call(answer, &[], None), what);
        is_gone(client.call(answer, &[], None), what);
        victim.was_killed(what);
    });
    points.dies(&kind_name, "the controller has hung up, or is about to", |what| {
        let (victim, client) = connect(kind, way);
        victim.kill();
        drop(client);
        victim.was_killed(what);
    });
    for milliseconds in [0, 1, 20] {
        let moment = format!("a call was delivered {milliseconds} ms ago");
        points.dies(&kind_name, &moment, |what| {
            let (victim, client) = connect(kind, way);
            let pause = load(&client, PAUSE);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(milliseconds));
                    victim.kill();
                });
                is_gone(client.call(pause, &[1; 100], None), what);
            });
            victim.was_killed(what);
        });
    }
    points.dies(&kind_name, "the controller attends", |what| {
        let (victim, client) = connect(kind, way);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(1));
                victim.kill();
            });
            is_gone(client.attend(super::STUCK), what);
        });
        victim.was_killed(what);
    });
    points.dies(&kind_name, "a call timed out", |what| {
        let (victim, client) = connect(kind, way);
        let pause = load(&client, PAUSE);
        let late = client.call(pause, &[], Duration::from_millis(1));
        assert!(late.expect_err("it pauses").kind() == ErrorKind::Timeout, "{what}");
        victim.kill();
        is_gone(client.call(pause, &[], None), what);
        victim.was_killed(what);
    });
}

/// Calls go to and fro, nested ones too, and a thread kills the executor meanwhile.
fn at_moments(points: &mut Points, name: &str, kind: Kind, way: Way) {
    for moment in 0..MOMENTS {
        let delay = Duration::from_micros(37) * moment;
        points.dies(&format!("{name}, at any moment"), &format!("{delay:?}"), |what| {
            let (victim, client) = connect(kind, way);
            let [context, dispatch] = ["ctx", "fn"].map(|name| {
                let name = format!("__llvm_orc_SimpleRemoteEPC_dispatch_{name}");
                client.symbol(&name).expect("offered").get()
            });
            let back = load(&client, &super::super::calls_back(context, dispatch));
            let (started, handled) = (Cell::new(0_u32), Rc::new(Cell::new(0_u32)));
            let counted = Rc::clone(&handled);
            client.register_handler(HANDLER, move |_, args, result| {
                counted.set(counted.get() + 1);
                result.extend_from_slice(args);
                Ok(())
            });
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(delay);
                    victim.kill();
                });
                let ended = (0..).find_map(|size| {
                    started.set(started.get() + 1);
                    client.call(back, &vec![3; size * 13 % 500], None).err()
                });
                let error = ended.expect("without end");
                assert!(
                    error.is_disconnected() && error.kind() != ErrorKind::Violation,
                    "{what}: {error:?}"
                );
            });
            // The last call may have come to its handler or not; no other was handled twice or never.
            let lost = started.get() - handled.get();
            assert!(lost <= 1, "{what}: {started:?} calls, {handled:?} handled");
            victim.was_killed(what);
        });
    }
}

/// A result that comes in parts, and not all of them come.
fn in_a_large_result(points: &mut Points, name: &str, kind: Kind, way: Way) {
    let read = |client: &Client, slab: ExecutorAddr| {
        let range = AddrRange::sized(slab, LARGE_BYTES).expect("no overflow");
        client.memory_access().read_buffers(&[range])
    };
    let (parts, mut cut) = (8, 0);
    let mut took = Duration::ZERO;
    points.runs(name, "a large result", |what| {
        let (victim, client) = connect(kind, way);
        let slab = client.native_memory().reserve(SLAB_BYTES).expect("it lives");
        let begun = std::time::Instant::now();
        let result = read(&client, slab).expect(what);
        took = begun.elapsed();
        assert_eq!(result[0].len() as u64, LARGE_BYTES);
        drop(client);
        victim.end();
    });
    // At once, too: on a busy machine the first one may have taken longer than the others do.
    for part in 0..parts {
        let moment = format!("{part}/{parts} of its time");
        points.dies(&format!("{name}, in a large result"), &moment, |what| {
            let (victim, client) = connect(kind, way);
            let slab = client.native_memory().reserve(SLAB_BYTES).expect("it lives");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(took * part / parts);
                    victim.kill();
                });
                let result = read(&client, slab);
                cut += u32::from(result.is_err());
                match result {
                    Ok(result) => assert_eq!(result[0].len() as u64, LARGE_BYTES),
                    Err(_) => is_gone(result, what),
                }
            });
            victim.wait();
            is_gone(read(&client, slab), what);
            victim.was_killed(what);
        });
    }
    assert!(cut > 0, "{name}: every large result was there before the end");
}
