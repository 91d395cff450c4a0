//! The controller's end of a pipeline, shared by all threads that submit calls and wait for results.

use std::sync::Arc;
use std::task::{Context, Poll};

use super::completion::Waiter;
use super::receiver::Receiver;
use super::sender::Sender;
use super::{Arrived, Completion, Reason};
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::sleep::{self, Follower, Leadership};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::transport::pipeline::{Inbound, Outbound};
use crate::transport::{Lifeline, SharedParker, forked};

/// The controller's end of a pipeline.
#[derive(Debug)]
pub(crate) struct Caller {
    sender: Mutex<Sender>,
    pub(super) leadership: Leadership<Receiver>,
    /// Calls whose sending has begun.
    pub(super) submitted: AtomicU64,
    /// Results that came.
    pub(super) received: AtomicU64,
    /// Results that came after their calls had timed out.
    pub(super) late: AtomicU64,
    /// Completions for which a task waits.
    tasks: AtomicU64,
    /// What ends the receiver's waits, and wakes it to look.
    lifeline: Lifeline,
    /// What the executor sleeps on.
    executor: SharedParker,
    reason: Mutex<Option<Reason>>,
    /// Where a listener waits while no task waits.
    listener: Arc<Follower>,
}

impl Caller {
    /// The controller's end. Its first call has the number after `last_sequence`.
    pub(crate) fn new((outbound, inbound): (Outbound, Inbound), last_sequence: u64) -> Self {
        let (lifeline, executor) = (inbound.lifeline().clone(), outbound.peer_parker());
        let (sender, runs) = Sender::new(outbound, last_sequence);
        Self {
            sender: Mutex::new(sender),
            leadership: Leadership::new(Receiver::new(inbound, runs, last_sequence)),
            submitted: AtomicU64::new(0),
            received: AtomicU64::new(0),
            late: AtomicU64::new(0),
            tasks: AtomicU64::new(0),
            lifeline,
            executor,
            reason: Mutex::default(),
            listener: Arc::default(),
        }
    }

    /// Submits calls, which run in this order, and returns where their results arrive. Waits while too many calls are under
    /// way or the ring is full. `code_epoch` is the number of the code that any thread wrote last.
    ///
    /// # Errors
    ///
    /// When arguments are too long: then nothing is submitted. When the pipeline has ended: why.
    pub(crate) fn submit<'a>(
        &self,
        code_epoch: u64,
        calls: impl ExactSizeIterator<Item = (u64, &'a [u8])> + Clone,
    ) -> Result<Arc<Completion>> {
        for (_, args) in calls.clone() {
            if args.len() as u64 > PAYLOAD_BYTES_MAX {
                return Err(Error::exhausted(format!(
                    "arguments of {} bytes; at most {PAYLOAD_BYTES_MAX} travel in one call",
                    args.len()
                )));
            }
        }
        if !self.lifeline.end().origin().is_here() {
            return Err(forked());
        }
        if calls.len() == 0 {
            let mut nothing = Completion::default();
            nothing.expect(0);
            return Ok(Arc::new(nothing));
        }
        let mut sender = self.sender.lock();
        if self.has_ended() {
            return Err(self.reason().error());
        }
        let completion = sender.note(calls.len())?;
        let sent = sender.send_all(self, code_epoch, calls);
        sender.outbound.wake();
        match sent {
            Ok(()) => Ok(completion),
            Err(error) => {
                self.end(&error);
                Err(self.reason().error())
            }
        }
    }

    /// Receives for all waiters until `has_room`.
    #[cold]
    pub(super) fn wait_for_room(
        &self,
        sender: &mut Sender,
        mut has_room: impl FnMut(&mut Sender) -> bool,
    ) -> Result<()> {
        sender.outbound.wake();
        while !has_room(sender) {
            if self.has_ended() {
                return Err(self.reason().error());
            }
            let mut receiver = self.leadership.demand(|| self.lifeline.end().nudge());
            receiver.lead(self, Deadline::SESSION_END, |_| has_room(sender));
            self.stop_leading(receiver);
        }
        Ok(())
    }

    /// Waits until `enough` results have arrived at a completion, or all of them, or until no more will come. False when the
    /// deadline passes first.
    pub(crate) fn wait(&self, completion: &Completion, enough: usize, deadline: Deadline) -> bool {
        let mut follower = None;
        let has_enough = loop {
            if completion.has(enough) {
                break true;
            }
            let receiver = match &follower {
                None => self.leadership.try_take(),
                Some(follower) => self.leadership.take_or_follow(follower),
            };
            match (receiver, &follower) {
                (Some(mut receiver), _) => {
                    receiver.lead(self, deadline, |came| came && completion.has(enough));
                    self.stop_leading(receiver);
                }
                (None, Some(follower)) => follower.wait(deadline),
                (None, None) => {
                    let queued = Arc::new(Follower::default());
                    let waiter = Waiter::Thread(Arc::clone(&queued), enough);
                    self.set_waiter(completion, Some(waiter));
                    follower = Some(queued);
                }
            }
            if deadline.has_passed() {
                break completion.has(enough);
            }
        };
        if let Some(follower) = follower {
            self.set_waiter(completion, None);
            self.leadership.withdraw(&follower);
        }
        has_enough
    }

    /// Ready when all results have arrived at a completion, or no more will come. Otherwise the task is woken when that is so,
    /// provided that some thread receives: by [`Caller::listen`], [`Caller::poll`] or a wait.
    pub(crate) fn poll_for(&self, completion: &Completion, context: &Context<'_>) -> Poll<()> {
        if completion.has(usize::MAX) {
            return Poll::Ready(());
        }
        self.poll();
        let mut state = completion.lock();
        if state.has(usize::MAX) {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        match state.waiter.replace(Waiter::Task(waker)) {
            Some(Waiter::Task(_)) => {}
            _ => self.count_task(true),
        }
        drop(state);
        if self.has_ended() {
            self.poll();
        }
        Poll::Pending
    }

    /// Receives what has arrived, unless another thread is receiving. Does not wait. Returns how many results came.
    pub(crate) fn poll(&self) -> usize {
        let Some(mut receiver) = self.leadership.try_take() else { return 0 };
        let came = receiver.receive(self);
        self.stop_leading(receiver);
        came
    }

    /// Receives whenever a task waits, until the pipeline ends. For a thread of its own.
    pub(crate) fn listen(&self) {
        while !self.has_ended() {
            if self.tasks.load(Ordering::Acquire) == 0 {
                self.listener.wait(Deadline::SESSION_END);
                continue;
            }
            match self.leadership.take_or_follow(&self.listener) {
                Some(mut receiver) => {
                    let is_idle = |_| self.tasks.load(Ordering::Acquire) == 0;
                    receiver.lead(self, Deadline::SESSION_END, is_idle);
                    self.stop_leading(receiver);
                }
                None => self.listener.wait(Deadline::SESSION_END),
            }
        }
        self.leadership.withdraw(&self.listener);
        self.poll();
    }

    /// Takes back a completion for which no thread waits any more, and a used buffer of results.
    pub(crate) fn recycle(&self, mut completion: Arc<Completion>, used: Arrived) {
        // Not a completion that the receiver still fills. Does not wait for the lock: a submitter that holds it may be waiting
        // for room.
        if let Some(inner) = Arc::get_mut(&mut completion)
            && inner.renew(used)
            && let Some(mut sender) = self.sender.try_lock()
        {
            sender.keep(completion);
        }
    }

    /// Stops waiting for the results that have not arrived at a completion: each is dropped and counted when it comes.
    pub(crate) fn expire(&self, completion: &Completion) {
        completion.lock().is_expired = true;
        self.set_waiter(completion, None);
    }

    fn set_waiter(&self, completion: &Completion, waiter: Option<Waiter>) {
        let before = std::mem::replace(&mut completion.lock().waiter, waiter);
        if let Some(Waiter::Task(_)) = before {
            self.count_task(false);
        }
    }

    /// Ends the pipeline for this reason: every call under way and every later one fails. The first reason is kept. Results
    /// that were received before can still be taken.
    pub(crate) fn end(&self, error: &Error) {
        self.reason.lock().get_or_insert_with(|| Reason::new(error));
        self.lifeline.end().announce();
        self.listener.call();
    }

    /// Ends the pipeline, and tells the executor that no more calls will come. No thread may wait for results any more.
    pub(crate) fn close(&self) {
        self.end(&Error::disconnected("the pipeline was closed"));
        self.sender.lock().outbound.close();
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.lifeline.end().has_come()
    }

    /// Ends the pipeline if the executor's thread at the other end, or its process, is gone.
    pub(super) fn look_after_executor(&self) {
        if self.lifeline.is_cut() && !self.has_ended() {
            self.end(&self.lifeline.why());
        }
    }

    /// Calls submitted so far.
    pub(crate) fn calls(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Results received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Results so far that came after their calls had timed out.
    pub(crate) fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    pub(super) fn reason(&self) -> Reason {
        let reason = self.reason.lock().clone();
        reason.unwrap_or_else(|| Reason::new(&self.lifeline.why()))
    }

    /// Wakes the executor, which may be waiting for room in the ring of results.
    #[cold]
    pub(super) fn wake_executor(&self) {
        sleep::wake_anyway(&self.executor);
    }

    /// Counts a task that begins or ends to wait.
    pub(super) fn count_task(&self, is_more: bool) {
        if !is_more {
            self.tasks.fetch_sub(1, Ordering::AcqRel);
        } else if self.tasks.fetch_add(1, Ordering::AcqRel) == 0 {
            self.listener.call();
        }
    }

    /// Gives the lead back and wakes the tasks whose results came: their wakers may do anything, even submit calls.
    fn stop_leading(&self, mut receiver: Box<Receiver>) {
        let wakers = std::mem::take(&mut receiver.wakers);
        self.leadership.give_back(receiver);
        for waker in wakers {
            waker.wake();
        }
    }
}
