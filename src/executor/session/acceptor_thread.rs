//! The acceptor's thread, which alone has the executor's end of the socket that brings lanes.
//!
//! The thread has its own table of descriptors. Only the socket and the files of the slabs' data are in it. So the
//! program never meets the socket: it cannot close it, and its forked children do not inherit it. The socket does
//! not count against the limit of open files. The first file that the program opens has the same number as
//! natively.
//!
//! The thread sleeps on the doorbell, a word of the first lane's segment, which the controller and the executor's
//! other threads ring. A [`standby`](super::standby) thread starts the serving threads, since a new thread shares the
//! table of its parent.
//!
//! The end of the session ends the process: the main thread exits, or the controller kills it. Where neither happens, because linked
//! code goes on and the controller may no longer, as another user, this thread does so.
//!
//! Invariant: the thread maps, passes on and answers; it never waits for linked code. It lives as long as the process
//! and holds the robust lock by which the controller sees the process die.

use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use super::zygote;
use crate::call::contract::{
    FREEZE, FROZEN, LANE, LOST, NO_LANE, NOT_FROZEN, PIPELINE, Placement, REGION, REVERSE_LANE,
    SLAB,
};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::context::acceptor::{Acceptor, Handover, Kind};
use crate::executor::context::instance::Instance;
use crate::executor::memory::forked;
use crate::executor::process::descriptors;
use crate::executor::tls::own_thread;
use crate::limits::END_TIMEOUT;
use crate::shm::{Holder, Segment};
use crate::sync::Ordering;
use crate::sys::futex::{self, Seen};
use crate::sys::io::socket;
use crate::sys::process::tied;
use crate::transport::lane::segment;
use crate::wire::layout::{DOORBELL_WORD, HOLDER_WORDS, PROCESS_HOLDER_WORD};
use crate::{ExecutorAddr, Prot};

/// The stack of the acceptor's thread. Libraries may have much of it for their thread-locals.
const STACK_BYTES: usize = 1 << 20;

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
            let words =
                acceptor.first.view(PROCESS_HOLDER_WORD..PROCESS_HOLDER_WORD + HOLDER_WORDS);
            // Without the lock the controller notices the process's end later.
            let holder = Holder::take(words);
            let (socket, is_separate) = descriptors::keep_only(socket);
            if is_separate
                && data >= 0
                && let Some(data) = descriptors::of_main_thread(data)
            {
                forked::keep_file(0, data);
            }
            acceptor.change(|state| state.is_separate = Some(is_separate));
            let end = acceptor.run(&session, &socket);
            acceptor.close();
            if let End::Freezes(zygote) = end {
                session.lanes().close();
                let passed = forked::make_private().and_then(|()| acceptor.pass_zygote(&zygote));
                if let Err(error) = passed {
                    // The main thread waits for the socket in vain, and ends the process.
                    let _ = socket::tell(zygote.as_fd(), FROZEN, LOST, &error.to_string());
                }
                return;
            }
            if let End::Closed = end {
                session.lanes().close();
                drop(holder);
                // The session owns descriptors that are not in this thread's table, so it must not be dropped here.
                std::mem::forget(session);
                // The controller kills a process that takes longer than half of that.
                std::thread::sleep(2 * END_TIMEOUT);
                return tied::end();
            }
            // The program has closed every descriptor that it found. Calls continue over memory. The number of the
            // socket may soon be that of a file of the program, so no code may close it.
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
            let told = self.tell(socket);
            match self.take(session, socket) {
                Ok(None) if told => {}
                Ok(None) => {
                    // The socket has no room, and no thread rings when it has.
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                Ok(Some(end)) => return end,
                Err(error) if socket::is_none(&error) => return End::Lost,
                Err(_) => return End::Closed,
            }
            let seen = Seen { word: doorbell, value, is_private: false };
            futex::wait(
                &[seen],
                if looks { Deadline::after(tied::LOOK) } else { Deadline::SESSION_END },
            );
        }
    }

    /// Sends the messages and requests of other threads. False if the socket has no room for all of them.
    fn tell(&self, socket: &OwnedFd) -> bool {
        let mut state = self.state.lock();
        while state.lane_requests > 0 {
            if socket::tell(socket.as_fd(), REVERSE_LANE, 0, "").is_err() {
                return false;
            }
            state.lane_requests -= 1;
        }
        while let Some((letter, number, text)) = state.messages.front() {
            if socket::tell(socket.as_fd(), *letter, *number, text).is_err() {
                return false;
            }
            state.messages.pop_front();
            self.changed.notify_all();
        }
        true
    }

    /// Receives what has arrived over the socket. `None` if more may come.
    fn take(&self, session: &Instance, socket: &OwnedFd) -> Result<Option<End>> {
        loop {
            let message = match socket::receive(socket.as_fd(), Deadline::now()) {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(Some(End::Closed)),
                Err(error) if error.kind() == ErrorKind::Timeout => return Ok(None),
                Err(error) => return Err(error),
            };
            let (number, mut files) = (message.number, message.files);
            let file = |file: Option<OwnedFd>| {
                file.ok_or_else(|| {
                    Error::exhausted("the executor has no descriptor for it (ulimit -n)")
                })
            };
            match message.letter {
                LANE => {
                    let kind = file(files.pop()).and_then(segment::open).map(Kind::Lane);
                    self.queue_work(number, kind);
                }
                PIPELINE => {
                    let kind = file(files.pop()).and_then(pipeline);
                    self.queue_work(number, kind);
                }
                REVERSE_LANE => {
                    let segment = file(files.pop()).and_then(segment::open).ok();
                    self.change(|state| state.lanes.push_back(segment));
                }
                NO_LANE => self.change(|state| state.lanes.push_back(None)),
                SLAB => {
                    let (placement, index) = Placement::from_number(number);
                    let data = files.get(Prot::Data.index()).and_then(|file| file.try_clone().ok());
                    let slab = session.reserve_shared(index, placement, files);
                    if let (Ok(_), Some(data)) = (&slab, data) {
                        forked::keep_file(index, data);
                    }
                    self.change(|state| state.slabs.push_back(slab));
                }
                REGION => session.attached.map(ExecutorAddr::new(number), file(files.pop())),
                FREEZE => {
                    let zygote = file(files.pop())?;
                    match zygote::refusal() {
                        None => {
                            self.change(|state| state.zygote = Some(Handover::Wanted));
                            return Ok(Some(End::Freezes(zygote)));
                        }
                        Some(why) => socket::tell(zygote.as_fd(), FROZEN, NOT_FROZEN, &why)?,
                    }
                }
                _ => return Ok(Some(End::Closed)),
            }
        }
    }
}

/// Why the acceptor's thread serves the socket no more.
enum End {
    /// The controller has closed it, or broken the protocol.
    Closed,
    /// The program has closed it.
    Lost,
    /// This process becomes a zygote, with this socket.
    Freezes(OwnedFd),
}

/// Opens the segment of a pipeline, which must be of this version.
fn pipeline(file: OwnedFd) -> Result<Kind> {
    let mut segment = Segment::open(file)?;
    drop(segment.take_file());
    match crate::transport::pipeline::is_pipeline(&segment) {
        true => Ok(Kind::Pipeline(Arc::new(segment))),
        false => Err(Error::violation("the segment of a pipeline is not of this version")),
    }
}
