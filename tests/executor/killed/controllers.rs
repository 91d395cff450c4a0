//! A controller is killed: the controller of an embedded session, of an executor that serves, or of a polled executor.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use farcall::controller::Client;
use farcall::controller::memory::Segment;
use farcall::executor::{Polled, SharedLane, SimpleRemote};
use farcall::session::SessionBuilder;
use farcall::sps::AllocGroup;
use farcall::{ErrorKind, ExecutorAddr, Prot, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::super::{ANSWER, calls_back};
use super::{Points, STUCK, Victim, Way, again, own_socket, point};

/// The handler that nested calls reach.
const HANDLER: u64 = 0x77;
/// The handler of calls that the session makes by itself.
const OTHER: u64 = 0x78;
/// Calls of the session whose ends are counted.
const CALLS: usize = 16;
/// Larger than what the address space of the survivor may grow by.
const SLAB_BYTES: u64 = 1 << 30;
/// Moments that are tried while calls go to and fro.
const MOMENTS: u32 = 20;
/// For the victim that does not end by itself.
pub(super) const STAYS: &str = "no point";
/// The victim's word when its calls go to and fro.
const GOING: &str = "going #1";

pub(super) fn command(way: Way) -> Command {
    again(&format!("controller {}", way.name()))
}

/// The victim itself.
pub(super) fn victim(way: Way) {
    point("before the connection");
    let socket = own_socket();
    let Ok(connection) = way.create(socket) else { return };
    point("connected, before the setup is read");
    let Ok(client) = Client::connect(connection) else { return };
    point("behind the setup");
    // The rest fails where the executor is gone, which is not this process's to complain of.
    let _ = talk(&client);
    point("before the hangup");
    drop(client);
    point("behind the hangup");
    // It may have sent everything before a thread sees where it is cut.
    while std::env::var(super::POINT).is_ok_and(|place| place == STAYS) {
        std::thread::park();
    }
}

fn talk(client: &Client) -> Result<()> {
    let info = client.symbol("farcall_process_info").expect("offered");
    client.register_handler(HANDLER, move |client, args, result| {
        point("in a handler");
        client.call(info, &[], None).map_err(|error| error.to_string())?;
        point("in a handler, behind a nested call");
        result.extend_from_slice(args);
        Ok(())
    });
    client.register_handler(OTHER, |_, args, result| {
        result.extend_from_slice(args);
        Ok(())
    });
    client.call(info, &[], None)?;
    point("behind a call");
    let memory = client.native_memory();
    let slab = memory.reserve(SLAB_BYTES)?;
    point("with a slab");
    let [context, dispatch] = ["ctx", "fn"].map(|name| {
        let name = format!("__llvm_orc_SimpleRemoteEPC_dispatch_{name}");
        client.symbol(&name).expect("offered").get()
    });
    let group = AllocGroup::standard(Prot::Code);
    let initialize = |page: u64, content: &[u8]| {
        let start = ExecutorAddr::new(slab.get() + page * 4096);
        memory.initialize(&[Segment { group, start, bytes: 4096, content }], &[])
    };
    let answer = initialize(0, ANSWER)?;
    point("behind an initialize");
    let back = initialize(1, &calls_back(context, dispatch))?;
    client.call(back, b"more than fits in place", None)?;
    point("behind a nested call");
    if let Some(asks) = client.symbol("asks") {
        client.call(asks, &[1; 9000], None)?;
        point("behind a nested call of the host's function");
    }
    client.call(answer, &vec![5; 300_000], None)?;
    point("behind a large call");
    while std::env::var(super::POINT).is_ok_and(|place| place == GOING) {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| eprintln!("{}{GOING}", super::MARK));
        client.call(info, &[], None)?;
        client.call(answer, &[7; 700], None)?;
    }
    memory.deinitialize(&[answer, back])?;
    point("behind a deinitializeMultiple");
    Ok(())
}

/// The survivor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Session,
    Serve,
    Polled,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Session, Self::Serve, Self::Polled];

    /// An executor from its connection to its end. Each thread of a session makes this many calls, unless it ends before.
    pub(super) fn outlive(self, way: Way, socket: OwnedFd, calls: usize, what: &str) {
        let ended = match self {
            Self::Session => return session(way, socket, calls, what),
            Self::Serve => way.attach(socket).and_then(farcall::executor::serve),
            Self::Polled => way.attach(socket).and_then(Polled::new).and_then(be_polled),
        };
        if let Err(error) = ended {
            assert!(
                error.is_disconnected() && error.kind() != ErrorKind::Violation,
                "{what}: {error:?}"
            );
        }
    }
}

fn be_polled(mut polled: Polled) -> Result<()> {
    while !polled.has_ended() {
        let mut fds = [PollFd::new(polled.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(u16::MAX)).expect("ready or not");
        polled.poll()?;
    }
    Ok(())
}

/// A session with calls under way, from threads that wait and from ones that do not, to its end and beyond.
fn session(way: Way, socket: OwnedFd, calls: usize, what: &str) {
    let (told, ends) = mpsc::channel();
    let (reported, reports) = mpsc::channel();
    let options = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run())))
        .function("asks", |session, args, reply| {
            reply.send(session.call(HANDLER, args).map_err(|error| error.to_string()));
        })
        .expect("a function")
        .on_error(move |_, error| drop(reported.send(error.to_string())))
        .on_disconnect(move |_, cause| drop(told.send(cause)));
    let session = options.build().expect("a session");
    let attached = match way {
        Way::Lane => session.try_attach(|_| SharedLane::attach(socket)),
        Way::Stream => session.try_attach(|_| SimpleRemote::socket(socket)),
    };
    let ended: Arc<[AtomicUsize; CALLS]> = Arc::default();
    for number in 0..CALLS {
        let (ended, what) = (Arc::clone(&ended), what.to_owned());
        session.call_controller(OTHER, vec![3; number], move |outcome| {
            ended[number].fetch_add(1, Ordering::Relaxed);
            expect_clear(outcome.map(drop), &what);
        });
    }
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let made = (0..calls).map(|_| session.call(OTHER, vec![1; 10]));
                let worked = made.take_while(Result::is_ok);
                assert!(worked.flatten().all(|result| result == [1; 10]), "{what}");
            });
        }
    });
    let was_attached = attached.is_ok();
    expect_clear(attached, what);
    if was_attached {
        expect_clear(ends.recv_timeout(STUCK).expect("the end is told"), what);
    }
    let refused = session.call(OTHER, Vec::new()).expect_err("nobody is there");
    expect_clear(Err(refused), what);
    session.shutdown(|| {});
    session.wait().expect("it is over");
    for (number, ended) in ended.iter().enumerate() {
        let ended = ended.load(Ordering::Relaxed);
        assert_eq!(ended, 1, "{what}: call {number} ended {ended} times");
    }
    drop(session);
    // A session that never was attached learns of its end when it is shut down.
    let told = ends.try_iter().count();
    assert_eq!(told, usize::from(!was_attached), "{what}: told so often of the end");
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [""; 0], "{what}");
}

fn expect_clear(outcome: Result<()>, what: &str) {
    if let Err(error) = outcome {
        let is_clear = error.is_disconnected() && error.kind() != ErrorKind::Violation;
        assert!(is_clear && !error.to_string().is_empty(), "{what}: {error:?}");
    }
}

/// Every point where a controller dies.
pub(super) fn all(points: &mut Points) {
    for (kind, way) in Kind::ALL.into_iter().flat_map(|kind| Way::ALL.map(|way| (kind, way))) {
        let name = format!("controller of a {kind:?} over a {}", way.name()).to_lowercase();
        let listed = points.runs(&name, "nobody dies", |what| {
            let (victim, socket) = Victim::start(command(way), None);
            kind.outlive(way, socket, usize::MAX, what);
            let (signal, passed) = victim.end();
            assert_eq!(signal, None, "{what}");
            passed
        });
        assert!(listed.len() >= 13, "{name}: {listed:?}");
        for place in &listed {
            points.dies(&format!("{name}, in its own code"), place, |what| {
                let (victim, socket) = Victim::start(command(way), Some(place));
                kind.outlive(way, socket, usize::MAX, what);
                assert!(victim.was_killed(what).contains(place), "{what}");
            });
        }
        for moment in 0..MOMENTS {
            let delay = Duration::from_micros(41) * moment;
            points.dies(&format!("{name}, at any moment"), &format!("{delay:?}"), |what| {
                let (mut victim, socket) = Victim::start(command(way), Some(GOING));
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        victim.wait_for(GOING);
                        std::thread::sleep(delay);
                        victim.kill();
                    });
                    kind.outlive(way, socket, usize::MAX, what);
                });
                victim.was_killed(what);
            });
        }
    }
}
