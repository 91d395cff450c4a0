//! The ways in which code that attacks is called: over a lane, in a pipeline, over a stream, and in sessions that another host embeds.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use farcall::controller::calls::{Bytes, Pipeline};
use farcall::controller::{CallOptions, Client, OnDeadline, WeakProcess};
use farcall::executor::{SharedLane, SimpleRemote};
use farcall::session::SessionBuilder;
use farcall::sps::{self, Expected};
use farcall::task::{TaskDispatcher, ThreadPool};
use farcall::{Connection, Error, ExecutorAddr, Result};
use nix::sys::signal::{Signal, kill};

use crate::apart;
use crate::session::Session;
use crate::sources;

/// How calls reach the code that attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The executor was started by its controller.
    Lane,
    Pipeline,
    /// One thread serves a stream.
    Stream,
    /// A host embeds the session.
    Embedded,
    /// The same, over a lane that came through a socket.
    EmbeddedLane,
}

impl Way {
    pub(crate) const ALL: [Self; 5] =
        [Self::Lane, Self::Pipeline, Self::Stream, Self::Embedded, Self::EmbeddedLane];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| format!("{way:?}") == name)
    }
}

/// The number of an executor's process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pid(nix::unistd::Pid);

impl Pid {
    /// Ends the process; it has not been collected yet.
    pub(crate) fn kill(self) {
        let _ = kill(self.0, Signal::SIGKILL);
    }
}

/// Code that attacks, and how it is called.
pub(crate) enum Attacked {
    Lane {
        session: Arc<Session>,
        killer: WeakProcess,
        function: ExecutorAddr,
    },
    Pipeline {
        session: Arc<Session>,
        killer: WeakProcess,
        pipeline: Pipeline,
        function: ExecutorAddr,
    },
    Client {
        client: Box<Client>,
        child: Child,
        function: ExecutorAddr,
    },
}

impl Attacked {
    /// Starts an executor. `test` is the name of that which calls [`serve`] when it is run in another process.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub(crate) fn start(way: Way, test: &str) -> Result<Self> {
        if !matches!(way, Way::Lane | Way::Pipeline) {
            return Self::connect(way, test);
        }
        let session = Arc::new(Session::try_start(&crate::session::launch(), "random_object")?);
        let (killer, function) = (session.process.downgrade(), session.function("attack"));
        if way == Way::Lane {
            return Ok(Self::Lane { session, killer, function });
        }
        let pipeline = session.process.pipeline()?;
        Ok(Self::Pipeline { session, killer, pipeline, function })
    }

    /// Starts another process as the executor, which opens the library with the code.
    fn connect(way: Way, test: &str) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().map_err(Error::other)?;
        let mut command = apart::command(test, &format!("{way:?}"));
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(Error::other)?;
        let connection = match way {
            Way::EmbeddedLane => Connection::create_shared(ours),
            _ => Connection::socket(ours),
        };
        let client = connection.and_then(Client::connect);
        let opened = client.and_then(|client| Ok((open(&client)?, client)));
        match opened {
            Ok((function, client)) => {
                Ok(Self::Client { client: Box::new(client), child, function })
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        let number = match self {
            Self::Lane { session, .. } | Self::Pipeline { session, .. } => session.pid().as_raw(),
            Self::Client { child, .. } => i32::try_from(child.id()).expect("a process number"),
        };
        Pid(nix::unistd::Pid::from_raw(number))
    }

    /// # Errors
    ///
    /// As the errors of the library's calls.
    pub(crate) fn call(&mut self, args: &[u8], timeout: Duration) -> Result<Vec<u8>> {
        match self {
            Self::Lane { session, function, .. } => {
                session.process.function::<Bytes>(*function).call_with(
                    &CallOptions::new().timeout(timeout).on_deadline(OnDeadline::Abandon),
                    args,
                )
            }
            Self::Pipeline { pipeline, function, .. } => {
                pipeline.submit(*function, args)?.wait_timeout(timeout)
            }
            Self::Client { client, function, .. } => client.call(*function, args, timeout),
        }
    }

    /// Ends the executor, and what there is of the session here.
    pub(crate) fn end(self) {
        match self {
            Self::Lane { killer, .. } | Self::Pipeline { killer, .. } => killer.kill(),
            Self::Client { mut child, client, .. } => {
                let _ = child.kill();
                let _ = child.wait();
                drop(client);
            }
        }
    }
}

/// Has the executor open the library of the attacks; returns the address of the function.
fn open(client: &Client) -> Result<ExecutorAddr> {
    let named = |name: &str| {
        let name = format!("orc_rt_ci_{name}");
        client.symbol(&name).ok_or_else(|| Error::other(format!("{name} is not offered")))
    };
    let instance = named("NativeDylibManager_Instance")?;
    let path = sources::path("random").to_string_lossy().into_owned();
    let handle = client.call(
        named("sps_NativeDylibManager_load")?,
        &sps::to_bytes(&(instance, path)),
        None,
    )?;
    let handle = sps::from_bytes::<Expected<ExecutorAddr>>(&handle)?.into_result()?;
    let wanted = sps::to_bytes(&(instance, handle, vec![("attack".to_owned(), true)]));
    let found = client.call(named("sps_NativeDylibManager_lookup")?, &wanted, None)?;
    let found = sps::from_bytes::<Expected<Vec<Option<ExecutorAddr>>>>(&found)?.into_result()?;
    found.first().copied().flatten().ok_or_else(|| Error::other("no function of this name"))
}

/// Serves as an executor in this way over standard input, and ends the process.
pub(crate) fn serve(way: Way) {
    let socket = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket");
    // The connection ends with its last descriptor.
    let nothing = std::fs::File::open("/dev/null").expect("Linux");
    nix::unistd::dup2_stdin(nothing).expect("a descriptor");
    if way == Way::Stream {
        let served = Connection::socket(socket).and_then(farcall::executor::serve);
        std::process::exit(i32::from(served.is_err()));
    }
    let pool = ThreadPool::new(2);
    let options = SessionBuilder::new(move |task| pool.dispatch(task))
        .on_error(|_, _| {})
        .on_disconnect(|_, _| std::process::exit(0));
    let session = options.build().expect("a session");
    match way {
        Way::EmbeddedLane => session.try_attach(|_| SharedLane::attach(socket)).expect("attached"),
        _ => session.attach(SimpleRemote::socket(socket).expect("a stream")).expect("attached"),
    }
    loop {
        std::thread::park();
    }
}
