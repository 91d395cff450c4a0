//! The acceptor's thread, which alone has the executor's end of the socket that brings lanes.
//!
//! The thread has its own table of descriptors. Only the socket and the files of the slabs' data are in it. So the
//! program never meets the socket: it cannot close it, and its forked children do not inherit it. The socket does
//! not count against the limit of open files. The first file that the program opens has the same number as
//! natively. In a copy the main thread does not wait for this thread, and itself takes a table without the socket.
//!
//! The thread sleeps on the doorbell, a word of the first lane's segment, which the controller and the executor's
//! other threads ring. A [`standby`](super::standby) thread starts the serving threads, since a new thread shares the
//! table of its parent.
//!
//! The end of the session ends the process: the main thread exits, or the controller kills it. Where neither happens, because linked
//! code goes on and the controller may no longer, as another user, this thread does so.
//!
//! Invariant: the thread maps, passes on and answers; it never waits for linked code. It lives until the process ends
//! and holds the robust lock by which the controller sees the process die.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use super::zygote;
use crate::call::contract::Placement;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::context::acceptor::{Acceptor, Handover, Kind};
use crate::executor::context::instance::Instance;
use crate::executor::interrupt;
use crate::executor::log;
use crate::executor::memory::forked;
use crate::executor::process::descriptors;
use crate::executor::tls::{own_thread, static_reserve};
use crate::limits::END_TIMEOUT;
use crate::shm::{Holder, Segment};
use crate::sync::Ordering;
use crate::sys::futex::{self, Seen};
use crate::sys::io::socket;
use crate::sys::process::tied;
use crate::transport::control::{self, Received};
use crate::transport::lane::segment;
use crate::wire::control::{ControlMessage, from_executor, from_zygote};
use crate::wire::layout::{DOORBELL_WORD, HOLDER_WORDS, PROCESS_HOLDER_WORD};
use crate::{ExecutorAddr, Prot};

/// The stack of the acceptor's thread. Libraries may have much of it for their thread-locals.
const STACK_BYTES: usize = 1 << 20;
/// The time by which its waits may end late. Other threads have 50 us.
const TIMER_SLACK_NS: libc::c_ulong = 1000;

impl Acceptor {
    /// Starts the acceptor's thread for `session`. It runs until the controller closes its end of the socket, and
    /// then closes all lanes. `files` are the socket and the file of the first slab's data. They stay open until
    /// [`Acceptor::release_socket`] has returned.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub(crate) fn start(session: &Arc<Instance>, files: [RawFd; 2]) -> Result<()> {
        let [socket, data] = files;
        let session = Arc::clone(session);
        own_thread::start("farcall-acceptor", STACK_BYTES, move || {
            let Ok(acceptor) = session.acceptor() else { return };
            // It runs no linked code.
            static_reserve::give_back();
            interrupt::prepare();
            // The looks at an interrupted thread are 5 and 20 us apart. Where the system refuses, they are 50 us further apart.
            let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS);
            let words =
                acceptor.first.view(PROCESS_HOLDER_WORD..PROCESS_HOLDER_WORD + HOLDER_WORDS);
            // Without the lock the controller notices the process's end later.
            let holder = Holder::acquire(words);
            let (socket, is_separate) = descriptors::keep_only(socket);
            if is_separate {
                log::silence_thread();
            }
            if is_separate
                && data >= 0
                && let Some(data) = descriptors::of_main_thread(data)
            {
                forked::keep_file(0, data);
            }
            acceptor.change(|state| state.is_separate = Some(is_separate));
            let end = acceptor.run(&session, &socket);
            if let End::Broken(error) = &end {
                control::send_last_words(socket.as_fd(), error);
            }
            acceptor.close(end.broken());
            if let End::Freezes(zygote) = end {
                session.lanes().close();
                let passed = forked::make_private().and_then(|()| acceptor.pass_zygote(&zygote));
                if let Err(error) = passed {
                    // The main thread waits for the socket in vain, and ends the process.
                    let lost = ControlMessage::Lost { why: error.to_string() };
                    let _ = control::send(zygote.as_fd(), &lost, &[], Deadline::now());
                }
                return;
            }
            if let End::Closed | End::Broken(_) = end {
                session.lanes().close();
                drop(holder);
                // The session owns descriptors that are not in this thread's table, so it must not be dropped here.
                std::mem::forget(session);
                // The controller kills a process that takes longer than half of that.
                std::thread::sleep(2 * END_TIMEOUT);
                return tied::end();
            }
            // The program has closed every descriptor that it found. Calls continue over memory. The number of the
            // socket may soon name a file of the program, so no code may close it.
            std::mem::forget(socket);
            loop {
                std::thread::park();
            }
        })
    }

    /// Serves the socket to its end.
    fn run(&self, session: &Instance, socket: &OwnedFd) -> End {
        let doorbell = &self.first.words()[DOORBELL_WORD];
        let looks = tied::may_outlive_parent();
        loop {
            if looks && tied::has_outlived_parent() {
                tied::end();
                return End::Closed;
            }
            // [DOORBELL] Acquire: pairs with the Release in `Acceptor::ring`; the requests of the ringing thread are
            // visible.
            let value = doorbell.load(Ordering::Acquire);
            let seen = Seen { word: doorbell, value, is_private: false };
            // A copy that is reset finds this thread asleep.
            let looks = looks && !self.sleeps_soundly();
            let deadline = if looks { Deadline::after(tied::LOOK) } else { Deadline::SESSION_END };
            if self.is_ahead() {
                futex::wait(&[seen], deadline);
                continue;
            }
            let arrived = self.receive_arrived(session, socket);
            let next_look = self.look_at_interrupted();
            let all_sent = self.send_waiting(socket);
            match arrived {
                Ok(None) if all_sent => {}
                Ok(None) => {
                    // The socket has no room, and no thread rings when it has.
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Ok(Some(end)) => return end,
                Err(error) if socket::is_none(&error) => return End::Lost,
                Err(error) => return End::Broken(error.during("the control socket")),
            }
            futex::wait(&[seen], next_look.map_or(deadline, |next| deadline.or_after(next)));
        }
    }

    /// Looks at the calls that are to be interrupted, and tells the controller which of them go on. Returns the time to the next look.
    fn look_at_interrupted(&self) -> Option<Duration> {
        let (next, goes_on) = self.interrupts.sample_due();
        for (number, why) in goes_on {
            self.not_interrupted(number, why);
        }
        next
    }

    fn not_interrupted(&self, number: u64, why: String) {
        let message = ControlMessage::NotInterrupted { number, why };
        self.state.lock().messages.push_back(message);
    }

    /// Sends the messages and requests of other threads. False if the socket has no room for all of them.
    fn send_waiting(&self, socket: &OwnedFd) -> bool {
        let send = |message: &ControlMessage| {
            control::send(socket.as_fd(), message, &[], Deadline::now()).is_ok()
        };
        let mut state = self.state.lock();
        while state.lane_requests > 0 {
            if !send(&ControlMessage::RequestLane) {
                return false;
            }
            state.lane_requests -= 1;
        }
        while let Some(message) = state.messages.front() {
            if !send(message) {
                return false;
            }
            state.messages.pop_front();
            self.changed.notify_all();
        }
        true
    }

    /// Receives what has arrived over the socket. `None` if more may come.
    fn receive_arrived(&self, session: &Instance, socket: &OwnedFd) -> Result<Option<End>> {
        loop {
            let Received { message, files } =
                match control::receive(socket.as_fd(), Deadline::now()) {
                    Ok(Some(received)) => received,
                    Ok(None) => return Ok(Some(End::Closed)),
                    Err(error) if error.kind() == ErrorKind::Timeout => return Ok(None),
                    Err(error) => return Err(error),
                };
            match message {
                ControlMessage::Lane { number } => {
                    self.queue_work(number, only(files).and_then(segment::open).map(Kind::Lane));
                }
                ControlMessage::Pipeline { number } => {
                    self.interrupts.expect(number);
                    let segment = only(files).and_then(pipeline);
                    self.queue_work(number, segment.map(Kind::Pipeline));
                }
                ControlMessage::ReverseLane => {
                    let segment = only(files).and_then(segment::open).ok();
                    self.change(|state| state.lanes.push_back(segment));
                }
                ControlMessage::NoLane => self.change(|state| state.lanes.push_back(None)),
                ControlMessage::Slab { place } => {
                    let slab = files.and_then(|files| map_slab(session, place, files));
                    self.change(|state| state.slabs.push_back(slab));
                }
                ControlMessage::Region { address } => {
                    session.attached.map(ExecutorAddr::new(address), only(files));
                }
                ControlMessage::Interrupt { number, call, calls, grace_ns } => {
                    let grace = Duration::from_nanos(grace_ns);
                    if let Err(why) = self.interrupts.want(number, call, calls, grace) {
                        self.not_interrupted(number, why);
                    }
                }
                ControlMessage::Freeze => {
                    let zygote = only(files)?;
                    let Some(why) = zygote::refusal() else {
                        self.change(|state| state.zygote = Some(Handover::Wanted));
                        return Ok(Some(End::Freezes(zygote)));
                    };
                    let refusal = ControlMessage::NotFrozen { why };
                    control::send(zygote.as_fd(), &refusal, &[], Deadline::now())?;
                }
                ControlMessage::Begin { .. }
                | ControlMessage::Fork
                | ControlMessage::Collect { .. }
                | ControlMessage::Start
                | ControlMessage::StartAhead
                | ControlMessage::Take
                | from_executor!()
                | from_zygote!() => {
                    return Err(message.misplaced("an executor that serves already"));
                }
            }
        }
    }
}

/// Maps the stripes of a slab.
fn map_slab(session: &Instance, place: u64, files: Vec<OwnedFd>) -> Result<ExecutorAddr> {
    let (placement, index) = Placement::from_number(place);
    let data = files.get(Prot::Data.index()).and_then(|file| file.try_clone().ok());
    let slab = session.reserve_shared(index, placement, files)?;
    if let Some(data) = data {
        forked::keep_file(index, data);
    }
    Ok(slab)
}

/// The descriptor of a message that has one.
fn only(files: Result<Vec<OwnedFd>>) -> Result<OwnedFd> {
    files?.pop().ok_or_else(|| Error::violation("a message without its descriptor"))
}

/// Why the acceptor's thread serves the socket no more.
enum End {
    /// The controller has closed it.
    Closed,
    /// The controller has broken the protocol, or the system refuses.
    Broken(Error),
    /// The program has closed it.
    Lost,
    /// This process becomes a zygote, with this socket.
    Freezes(OwnedFd),
}

impl End {
    fn broken(&self) -> Option<Error> {
        match self {
            Self::Broken(error) => Some(error.clone()),
            Self::Closed | Self::Lost | Self::Freezes(_) => None,
        }
    }
}

/// Opens the segment of a pipeline, which must be of this version.
pub(super) fn pipeline(file: OwnedFd) -> Result<Arc<Segment>> {
    let mut segment = Segment::open(file)?;
    drop(segment.take_file());
    crate::transport::pipeline::check(&segment)?;
    Ok(Arc::new(segment))
}
