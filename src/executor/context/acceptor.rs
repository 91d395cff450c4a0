//! The exchange between the acceptor's thread, which has the socket, and the other threads of the executor.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use crate::ExecutorAddr;
use crate::call::{LaneEnd, Lanes, Opened};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::executor::interrupt::Requests;
use crate::executor::process::descriptors;
use crate::shm::Segment;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, fence};
use crate::sys::futex;
use crate::sys::io::socket;
use crate::transport::{Lane, Side, control};
use crate::wire::control::ControlMessage;
use crate::wire::hello::{Features, Hello};
use crate::wire::layout::DOORBELL_WORD;

/// How long a thread waits for the acceptor to send the last words of the process.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_millis(100);

/// How long the main thread waits for the zygote's socket, which the acceptor's thread sends at once.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(1);

/// Accepts the lanes of one session.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// The segment of the first lane, with the doorbell.
    pub(crate) first: Arc<Segment>,
    /// The features of the controller.
    pub(crate) controller: Features,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
    /// The calls that are to be interrupted.
    pub(crate) interrupts: Requests,
    /// Not 0 while the main thread waits for the request, and the acceptor's thread reads nothing.
    is_ahead: AtomicU64,
    /// Not 0 when the acceptor's thread wakes for the controller and for calls that are to be interrupted, and for nothing else.
    sleeps_soundly: AtomicU64,
}

/// Requests to the acceptor's thread, and what it has received for other threads.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Whether the acceptor's thread has its own table of descriptors; `None` until that is known.
    pub(crate) is_separate: Option<bool>,
    /// The number of requests for lanes that were not sent yet.
    pub(crate) lane_requests: usize,
    /// The received lanes for threads that requested one: `None` for a refusal.
    pub(crate) lanes: VecDeque<Option<Arc<Segment>>>,
    /// The mapped slabs, in order of arrival.
    pub(crate) slabs: VecDeque<Result<ExecutorAddr>>,
    /// Lanes and pipelines that wait for a serving thread.
    pub(crate) work: VecDeque<Work>,
    /// Messages for the controller.
    pub(crate) messages: VecDeque<ControlMessage>,
    /// The socket is closed: nothing more will arrive.
    pub(crate) is_closed: bool,
    /// Why this side has closed it.
    pub(crate) broken: Option<Error>,
    /// The executor is to become a zygote, with this socket.
    pub(crate) zygote: Option<Handover>,
}

/// The way of a descriptor from the acceptor's thread to the main thread, which have tables of their own.
#[derive(Debug)]
pub(crate) enum Handover {
    /// The main thread still serves.
    Wanted,
    /// The main thread waits at a socket, whose other end has this number in its table.
    At(RawFd),
}

/// A lane or pipeline for a thread to serve until its end.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Lane(Arc<Segment>),
    Pipeline(Arc<Segment>),
}

impl Acceptor {
    pub(crate) fn new(first: Arc<Segment>, controller: Features) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let (interrupts, sleeps_soundly) = (Requests::default(), AtomicU64::new(0));
        let is_ahead = AtomicU64::new(0);
        Self { first, controller, state, changed, interrupts, is_ahead, sleeps_soundly }
    }

    /// Has the acceptor's thread, which does not run yet, read nothing until [`Acceptor::end_wait`].
    pub(crate) fn wait_ahead(&self) {
        self.is_ahead.store(1, Ordering::Relaxed);
    }

    /// True while the acceptor's thread reads nothing. Call it behind the load of the doorbell.
    pub(crate) fn is_ahead(&self) -> bool {
        // [AHEAD] Pairs with the fence of `end_wait`: this thread sees the store, or that one the ring that has woken this one.
        fence(Ordering::SeqCst);
        self.is_ahead.load(Ordering::Relaxed) != 0
    }

    /// Has the acceptor's thread read from now on what has arrived behind the request. If none `came`, that is the socket's end.
    pub(crate) fn end_wait(&self, came: bool) {
        self.is_ahead.store(0, Ordering::Relaxed);
        // [AHEAD] Pairs with the fence of `is_ahead`.
        fence(Ordering::SeqCst);
        if !came || self.first.words()[DOORBELL_WORD].load(Ordering::Relaxed) != 0 {
            self.ring();
        }
    }

    /// From now on the acceptor's thread wakes for the controller and for calls that are to be interrupted, and for nothing else.
    pub(crate) fn sleep_soundly(&self) {
        self.sleeps_soundly.store(1, Ordering::Relaxed);
        self.ring();
    }

    pub(crate) fn sleeps_soundly(&self) -> bool {
        self.sleeps_soundly.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn queue_work(&self, number: u64, kind: Result<Kind>) {
        match kind {
            Ok(kind) => self.change(|state| state.work.push_back(Work { number, kind })),
            // Rings, since this thread looks for messages once after each ring.
            Err(error) => self.refuse(number, &error),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// Tells the controller that the lane or pipeline with this number is not served.
    pub(crate) fn refuse(&self, number: u64, reason: &Error) {
        self.interrupts.forget(number);
        let message = ControlMessage::Refused { number, why: reason.to_string() };
        self.state.lock().messages.push_back(message);
        self.ring();
    }

    /// Sends the controller the reason for which this process is about to end; waits up to [`LAST_WORDS_TIMEOUT`].
    pub(crate) fn send_last_words(&self, why: &Error) {
        let message = ControlMessage::LastWords { hello: Hello::OWN, why: why.to_string() };
        self.state.lock().messages.push_back(message);
        self.ring();
        let waits = |state: &mut State| !state.messages.is_empty() && !state.is_closed;
        drop(self.changed.wait_timeout_while(self.state.lock(), LAST_WORDS_TIMEOUT, waits));
    }

    /// Waits for the next lane or pipeline to serve; `None` after the end.
    pub(crate) fn next_work(&self) -> Option<Work> {
        let waits = |state: &mut State| state.work.is_empty() && !state.is_closed;
        let mut state = self.changed.wait_while(self.state.lock(), waits);
        state.work.pop_front()
    }

    /// Waits until the acceptor's thread has its own table of descriptors, or the kernel has refused that. Then
    /// releases `socket`: closes it in the table of all other threads, or leaves it to the acceptor's thread.
    pub(crate) fn release_socket(&self, socket: OwnedFd) {
        let waits = |state: &mut State| state.is_separate.is_none();
        let state = self.changed.wait_while(self.state.lock(), waits);
        if state.is_separate == Some(false) {
            // The acceptor's thread owns it now.
            std::mem::forget(socket);
        }
    }

    /// Marks the socket as closed, which ends every wait. `broken` is the reason, if this side has closed it.
    pub(crate) fn close(&self, broken: Option<Error>) {
        self.change(|state| (state.is_closed, state.broken) = (true, broken));
    }

    /// Why this side has closed the socket: the controller broke the protocol, or the system refused.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.state.lock().broken.clone()
    }

    /// Requests a lane on which a thread of this process calls.
    ///
    /// # Errors
    ///
    /// If the controller refuses (`ErrorKind::Exhausted`) or is of a build without such lanes, or the session is over
    /// (`is_disconnected`).
    pub(crate) fn request_lane(&self, lanes: &Arc<Lanes>) -> Result<Opened> {
        ControlMessage::RequestLane.check(self.controller, "controller")?;
        self.state.lock().lane_requests += 1;
        self.ring();
        let waits = |state: &mut State| state.lanes.is_empty() && !state.is_closed;
        let came = self.changed.wait_while(self.state.lock(), waits).lanes.pop_front();
        let segment = came.ok_or_else(|| Error::disconnected("the session is over"))?;
        let segment = segment.ok_or_else(|| {
            Error::exhausted("the controller refuses another lane for calls to it")
        })?;
        let end: LaneEnd = lanes.add(Lane::new(&segment, Side::Executor))?;
        // No holder is needed: the thread returns the lane before it ends.
        Ok(Opened::Ready(end))
    }

    /// The address of the next slab. Its stripes arrive before the call that waits for it.
    ///
    /// # Errors
    ///
    /// The reason for which it was not mapped; if the session is over, `is_disconnected`.
    pub(crate) fn next_slab(&self) -> Result<ExecutorAddr> {
        let waits = |state: &mut State| state.slabs.is_empty() && !state.is_closed;
        let slab = self.changed.wait_while(self.state.lock(), waits).slabs.pop_front();
        slab.unwrap_or_else(|| Err(Error::disconnected("the session is over")))
    }

    /// Waits until the controller has closed its end of the socket.
    pub(crate) fn wait_closed(&self) {
        drop(self.changed.wait_while(self.state.lock(), |state| !state.is_closed));
    }

    /// True when the controller has closed its end of the socket.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// True when this process is to become a zygote.
    pub(crate) fn is_freezing(&self) -> bool {
        self.state.lock().zygote.is_some()
    }

    /// Receives the zygote's socket from the acceptor's thread. Call on the main thread.
    ///
    /// # Errors
    ///
    /// If descriptors run out, or the acceptor's thread could not prepare the process.
    pub(crate) fn take_zygote(&self) -> Result<OwnedFd> {
        let (ours, theirs) = socket::pair()?;
        self.change(|state| state.zygote = Some(Handover::At(theirs.as_raw_fd())));
        let received = control::receive(ours.as_fd(), Deadline::after(HANDOVER_TIMEOUT))?;
        let socket = match received {
            Some(received) => received.files?.into_iter().next(),
            None => None,
        };
        socket.ok_or_else(|| Error::disconnected("no socket for the zygote"))
    }

    /// Passes the zygote's socket to the main thread, once that no longer serves.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub(crate) fn pass_zygote(&self, zygote: &OwnedFd) -> Result<()> {
        let serves = |state: &mut State| matches!(state.zygote, Some(Handover::Wanted));
        let state = self.changed.wait_while(self.state.lock(), serves);
        let Some(Handover::At(number)) = state.zygote else { return Ok(()) };
        drop(state);
        let main = descriptors::taken_from_main_thread(number)?;
        let deadline = Deadline::after(HANDOVER_TIMEOUT);
        control::send(main.as_fd(), &ControlMessage::Freeze, &[zygote.as_fd()], deadline)
    }

    /// Wakes the acceptor's thread.
    fn ring(&self) {
        let word = &self.first.words()[DOORBELL_WORD];
        // [DOORBELL] Release: pairs with the Acquire in `Acceptor::run`.
        word.fetch_add(1, Ordering::AcqRel);
        futex::wake(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::transport::PollPolicy;
    use crate::transport::lane::segment;

    #[test]
    fn a_lane_that_the_controller_cannot_open_is_not_asked_for() {
        let (segment, _) = segment::create(PollPolicy::default()).expect("memory");
        let acceptor = Acceptor::new(segment, Features::default());
        let error = acceptor.request_lane(&Lanes::new()).expect_err("another build");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("a build without reverse lanes"), "{error}");
        assert_eq!(acceptor.state.lock().lane_requests, 0);
    }
}
