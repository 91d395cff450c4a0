//! Access to a controller over a lane in shared memory; its descriptor arrives over a socket.
//!
//! A lane is one logical thread across both processes. The controller's calls come one at a time, calls of the session go back
//! inside of them, and both nest. A call that the session makes while no call of the controller runs waits for the next one.
//! The controller may also attend ([`Client::attend`](crate::controller::Client::attend)), which is a call that only carries
//! calls of the session. The controller's calls are tasks as any other; the lane's thread waits for their results, and
//! meanwhile sends the session's calls.
//!
//! Threads: one, which owns the lane. A task that waits for the controller must not run on it, so the host's dispatch
//! function has to use other threads.
//!
//! The end: during a call of the controller, this side sends a hangup. Otherwise it is the controller's turn to send,
//! and it notices the end of the socket.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::ExecutorAddr;
use crate::call::contract::ATTEND;
use crate::call::{Endpoint, Handler};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::executor::remote::simple_remote::setup;
use crate::limits::END_TIMEOUT;
use crate::session::{
    Answer, Attachment, BootstrapInfo, Completion, ControllerAccess, PendingCalls,
};
use crate::sps::{self, Status};
use crate::sync::{Condvar, Mutex};
use crate::sys::io::socket;
use crate::transport::{Connection, Incoming, Payload};

/// A session's access to a controller that made a lane with [`Connection::create_shared`].
///
/// # Examples
///
/// ```
/// use farcall::executor::SharedLane;
/// use farcall::session::SessionBuilder;
/// # use farcall::{Connection, controller::Client};
///
/// # let (socket, other) = std::os::unix::net::UnixStream::pair()?;
/// # let controller = std::thread::spawn(|| Client::connect(Connection::create_shared(other)?).map(drop));
/// let session = SessionBuilder::new(|task| drop(std::thread::spawn(|| task.run()))).build()?;
/// session.attach(SharedLane::attach(socket)?)?; // a Unix socket to the controller
/// # controller.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SharedLane {
    inbox: Arc<Inbox>,
    /// The lane, until the session connects.
    connection: Mutex<Option<Connection>>,
}

/// The exchange between the lane's thread and all others.
struct Inbox {
    pending: PendingCalls,
    items: Mutex<Items>,
    changed: Condvar,
    /// Shutting it down ends the lane.
    socket: OwnedFd,
}

#[derive(Default)]
struct Items {
    /// No call is sent any more.
    is_over: bool,
    /// The session asked for the end.
    is_asked: bool,
    /// This side may send, and the lane's thread reads these items before it sends.
    has_turn: bool,
    thread: Option<ThreadId>,
    last: u64,
    /// Running calls of the controller, and their results.
    running: HashMap<u64, Option<Answer>>,
    /// Calls to send: number, tag, arguments.
    calls: VecDeque<(u64, u64, Vec<u8>)>,
}

/// The next work of the lane's thread.
enum Item {
    Result(Answer),
    Call(u64, u64, Vec<u8>),
    Late,
    Over,
}

/// The causes that wake the lane's thread, beside calls to send and the end.
#[derive(Clone, Copy)]
enum Due {
    /// The result of the controller's call with this number.
    Result(u64),
    /// Nothing but calls to send, until this time.
    Until(Option<Instant>),
}

/// Its address is the function that the controller calls to attend.
static ATTENDED: u8 = 0;

fn attended() -> ExecutorAddr {
    ExecutorAddr::new((&raw const ATTENDED).expose_provenance() as u64)
}

impl SharedLane {
    /// Waits for the lane that the controller sends over a connected Unix socket.
    ///
    /// # Errors
    ///
    /// As [`Connection::attach_shared`].
    pub fn attach(socket: impl Into<OwnedFd>) -> Result<Self> {
        let lane = socket.into();
        let socket =
            lane.try_clone().map_err(|error| Error::os("doubling a socket's descriptor", error))?;
        let connection = Mutex::new(Some(Connection::attach_shared(lane)?));
        let inbox = Inbox {
            pending: PendingCalls::new(),
            items: Mutex::default(),
            changed: Condvar::new(),
            socket,
        };
        Ok(Self { inbox: Arc::new(inbox), connection })
    }
}

impl ControllerAccess for SharedLane {
    fn connect(&self, attachment: Attachment, info: &BootstrapInfo) -> Result<()> {
        let connection = self.connection.lock().take();
        let connection =
            connection.ok_or_else(|| Error::invalid("this access was connected before"))?;
        let (inbox, setup) = (Arc::clone(&self.inbox), setup(info, &[(ATTEND, attended())]));
        let thread = thread::Builder::new().name("farcall-session".to_owned());
        let started = thread.spawn(move || {
            inbox.items.lock().thread = Some(thread::current().id());
            let ended = serve(&inbox, &attachment, connection, &setup);
            inbox.end(&attachment, ended);
        });
        started.map(drop).map_err(|error| Error::os("starting the thread of a session", error))
    }

    fn disconnect(&self) {
        let mut items = self.inbox.items.lock();
        (items.is_over, items.is_asked) = (true, true);
        if items.has_turn {
            self.inbox.changed.notify_all();
        } else {
            socket::shut_down(self.inbox.socket.as_fd());
        }
    }

    fn call_controller(&self, tag: u64, args: Vec<u8>, completion: Completion) {
        let inbox = &*self.inbox;
        if completion.is_waited_for() && inbox.items.lock().thread == Some(thread::current().id()) {
            return completion.complete(Err(Error::invalid(
                "a task that waits for the controller runs on the thread of its lane, which would wait for itself",
            )));
        }
        let number = match inbox.pending.register(completion) {
            Ok(number) => number,
            Err(completion) => return completion.complete(Err(is_over())),
        };
        let mut items = inbox.items.lock();
        if !items.is_over {
            items.calls.push_back((number, tag, args));
            inbox.changed.notify_all();
            return;
        }
        drop(items);
        // If it is still pending, it was not failed with all others.
        if let Some(completion) = inbox.pending.take(number) {
            completion.complete(Err(is_over()));
        }
    }

    fn send_result(&self, call: u64, answer: Answer) {
        if let Some(slot) = self.inbox.items.lock().running.get_mut(&call) {
            *slot = Some(answer);
            self.inbox.changed.notify_all();
        }
    }
}

/// Serves the lane to its end.
fn serve(
    inbox: &Inbox,
    attachment: &Attachment,
    connection: Connection,
    setup: &[u8],
) -> Result<()> {
    let end = Endpoint::new(connection);
    end.send_setup(setup)?;
    end.serve(&Serving { inbox, attachment, end: &end })
}

/// Runs the controller's calls.
struct Serving<'a> {
    inbox: &'a Inbox,
    attachment: &'a Attachment,
    end: &'a Endpoint<Connection>,
}

impl Handler<Connection> for Serving<'_> {
    type Reply = Vec<u8>;

    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        _spare: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, String> {
        if target == attended().get() {
            return self.attend(&args.bytes());
        }
        let call = self.inbox.begin();
        self.attachment.handle_call(ExecutorAddr::new(target), args.bytes().into_owned(), call);
        loop {
            match self.inbox.wait(Due::Result(call)) {
                Item::Result(answer) => return answer,
                Item::Call(number, tag, args) => self.call(number, tag, &args),
                Item::Late | Item::Over => return self.end_inside(),
            }
        }
    }
}

impl Serving<'_> {
    /// Sends the waiting calls, or the first that arrives in time.
    fn attend(&self, args: &[u8]) -> Answer {
        let time = sps::from_bytes::<u64>(args).map_err(|error| error.to_string())?;
        let mut due = Due::Until(Instant::now().checked_add(Duration::from_micros(time)));
        let mut calls = 0_u64;
        loop {
            match self.inbox.wait(due) {
                Item::Call(number, tag, args) => {
                    self.call(number, tag, &args);
                    calls += 1;
                    due = Due::Until(Some(Instant::now()));
                }
                Item::Late => return Ok(sps::to_bytes(&calls)),
                Item::Result(_) | Item::Over => return self.end_inside(),
            }
        }
    }

    /// Sends a call of the session and completes it.
    fn call(&self, number: u64, tag: u64, args: &[u8]) {
        let outcome = self.end.call(self, Deadline::SESSION_END, tag, args, Incoming::to_vec);
        if outcome.as_ref().is_err_and(Error::is_disconnected) {
            // The controller is gone, so the result of the running function is not needed.
            self.inbox.items.lock().is_over = true;
        }
        if let Some(completion) = self.inbox.pending.take(number) {
            self.attachment.complete(completion, outcome);
        }
    }

    /// Ends the lane instead of sending a result.
    fn end_inside(&self) -> Answer {
        let _ = self.end.hang_up(Status(Ok(())), Deadline::after(END_TIMEOUT));
        socket::shut_down(self.inbox.socket.as_fd());
        Err("disconnected".to_owned())
    }
}

impl Inbox {
    /// Numbers a call of the controller.
    fn begin(&self) -> u64 {
        let mut items = self.items.lock();
        items.has_turn = true;
        items.last += 1;
        let call = items.last;
        items.running.insert(call, None);
        call
    }

    /// Waits for `due`, for a call to send, or for the end.
    fn wait(&self, due: Due) -> Item {
        let mut items = self.items.lock();
        items.has_turn = true;
        loop {
            if items.is_over {
                return Item::Over;
            }
            if let Due::Result(call) = due
                && items.running.get(&call).is_none_or(Option::is_some)
            {
                items.has_turn = false;
                let answer = items.running.remove(&call).flatten();
                return Item::Result(answer.unwrap_or_else(|| Err("no result".to_owned())));
            }
            if let Some((number, tag, args)) = items.calls.pop_front() {
                items.has_turn = false;
                return Item::Call(number, tag, args);
            }
            let Due::Until(Some(until)) = due else {
                items = self.changed.wait(items);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                items.has_turn = false;
                return Item::Late;
            }
            (items, _) = self.changed.wait_timeout(items, left);
        }
    }

    /// The lane has ended: fails all pending calls, then notifies the session.
    fn end(&self, attachment: &Attachment, ended: Result<()>) {
        let is_asked = {
            let mut items = self.items.lock();
            items.is_over = true;
            items.calls.clear();
            items.is_asked
        };
        for completion in self.pending.close() {
            attachment.complete(completion, Err(is_over()));
        }
        attachment.notify_disconnected(if is_asked { Ok(()) } else { ended });
    }
}

fn is_over() -> Error {
    Error::disconnected("disconnected")
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("pending", &self.pending).finish_non_exhaustive()
    }
}
