//! Access to a controller over a lane in shared memory, whose descriptor came over a socket.
//!
//! A lane is one logical thread that spans both processes: the controller's calls come one at a time, those of the session
//! go back inside of them, and nest. So what the session calls while no call is under way waits for the next one, or until the
//! controller attends ([`Client::attend`](crate::controller::Client::attend)): that is a call in which nothing runs but
//! those of the session. The calls themselves are tasks like any other; the lane's thread waits for their results, and meanwhile
//! carries calls out.
//!
//! Threads: one, which owns the lane. The session must not run a task on it that waits for the controller, so the host's
//! dispatch function has to use other threads.
//!
//! The end: with a call under way the controller is sent a hangup; otherwise it is not this side's turn to send, and the
//! controller learns that this end is gone.

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
use crate::sys::socket;
use crate::transport::{Connection, Payload};

/// A session's access to a controller that made a lane with [`Connection::create_shared`].
#[derive(Debug)]
pub struct SharedLane {
    inbox: Arc<Inbox>,
    /// Until it is connected.
    connection: Mutex<Option<Connection>>,
}

/// What other threads have for the one that owns the lane.
struct Inbox {
    pending: PendingCalls,
    items: Mutex<Items>,
    changed: Condvar,
    /// Ends the lane when it is shut down.
    socket: OwnedFd,
}

#[derive(Default)]
struct Items {
    /// No call goes out any more.
    is_over: bool,
    /// It is over because the session wants it.
    is_asked: bool,
    /// It is this side's turn to send, and the thread will look here before it does.
    has_turn: bool,
    thread: Option<ThreadId>,
    last: u64,
    /// Calls of the controller that run, and their results.
    running: HashMap<u64, Option<Answer>>,
    /// Calls to make: number, tag, arguments.
    calls: VecDeque<(u64, u64, Vec<u8>)>,
}

/// What the thread finds.
enum Item {
    Result(Answer),
    Call(u64, u64, Vec<u8>),
    Late,
    Over,
}

/// What the thread waits for, beside calls to make and the end.
#[derive(Clone, Copy)]
enum Due {
    /// The result of the controller's call with this number.
    Result(u64),
    /// Nothing, for so long.
    Until(Option<Instant>),
}

/// Has the address that the controller calls to attend.
static ATTENDED: u8 = 0;

fn attended() -> ExecutorAddr {
    ExecutorAddr::new((&raw const ATTENDED).expose_provenance() as u64)
}

impl SharedLane {
    /// Takes the lane that the controller sends over a connected Unix socket; waits for it.
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
        // Unless it was failed with all others.
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
    /// Makes the calls that wait, or the first that comes in time.
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

    /// Makes a call of the session.
    fn call(&self, number: u64, tag: u64, args: &[u8]) {
        let mut result = Vec::new();
        let outcome = self.end.call(self, Deadline::SESSION_END, tag, args, &mut result);
        if outcome.as_ref().is_err_and(Error::is_disconnected) {
            // However long the function runs on, nothing comes of it.
            self.inbox.items.lock().is_over = true;
        }
        if let Some(completion) = self.inbox.pending.take(number) {
            self.attachment.complete(completion, outcome.map(|()| result));
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

    /// Waits for what is due, for a call to make, or for the end.
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

    /// The lane has ended: fails what is under way, then tells the session.
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
