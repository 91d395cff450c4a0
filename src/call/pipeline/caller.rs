//! The controller's end of a pipeline, shared by all threads that submit calls and wait for results.

use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::bundle::Alike;
use super::completion::{Arrived, Calls, Completion, Waiter};
use super::progress::Progress;
use super::receiver::Receiver;
use super::reception::Reception;
use super::sender::Sender;
use crate::call::counters::CallNumber;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::sleep::Follower;
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::transport::Polling;
use crate::transport::pipeline::{Inbound, Outbound};
use crate::wire::pipeline::sequence_after;

/// The controller's end of a pipeline.
#[derive(Debug)]
pub(crate) struct Caller {
    sender: Mutex<Sender>,
    reception: Reception,
    /// A thread receives for tasks, or the host polls.
    is_attended: AtomicBool,
    /// By which the controller tells the executor of it.
    number: u64,
}

impl Caller {
    /// The controller's end. Its first call has the number after `last_sequence`.
    pub(crate) fn new(
        (outbound, inbound, polling): (Outbound, Inbound, Polling),
        last_sequence: u64,
    ) -> Self {
        let progress = Progress::new(inbound.lifeline().clone(), outbound.peer_parker());
        let (sender, runs) = Sender::new(outbound, last_sequence);
        let receiver = Receiver::new(inbound, polling, runs, last_sequence);
        let reception = Reception::new(progress, receiver);
        let is_attended = AtomicBool::new(false);
        Self { sender: Mutex::new(sender), reception, is_attended, number: 0 }
    }

    /// The same end, of the pipeline with this number.
    pub(crate) fn with_number(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// The number of the pipeline.
    pub(crate) fn number(&self) -> u64 {
        self.number
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
            check_bytes(args.len())?;
        }
        self.submit_by(code_epoch, calls.len(), |sender| sender.send_all(&self.reception, calls))
    }

    /// As [`Caller::submit`], for calls that are alike.
    ///
    /// # Errors
    ///
    /// As [`Caller::submit`].
    pub(crate) fn submit_alike(
        &self,
        code_epoch: u64,
        calls: &Alike<'_>,
    ) -> Result<Arc<Completion>> {
        check_bytes(calls.shared.len() + calls.rest_bytes())?;
        self.submit_by(code_epoch, calls.calls, |sender| sender.send_alike(&self.reception, calls))
    }

    #[inline]
    fn submit_by(
        &self,
        code_epoch: u64,
        calls: usize,
        send: impl FnOnce(&mut Sender) -> Result<()>,
    ) -> Result<Arc<Completion>> {
        self.progress().lifeline_end().origin().check()?;
        if calls == 0 {
            let mut nothing = Completion::default();
            nothing.expect(Calls::default());
            return Ok(Arc::new(nothing));
        }
        let mut sender = self.sender.lock();
        if self.has_ended() {
            return Err(self.progress().reason());
        }
        let completion = sender.note(calls)?;
        let news = sender.send_news(&self.reception, code_epoch);
        let sent = news.and_then(|()| send(&mut sender));
        sender.outbound.wake();
        match sent {
            Ok(()) => Ok(completion),
            Err(error) => {
                self.end(&error);
                Err(self.progress().reason())
            }
        }
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
                None => self.reception.leadership.try_take(),
                Some(follower) => self.reception.leadership.take_or_follow(follower),
            };
            match (receiver, &follower) {
                (Some(receiver), _) => {
                    let has_enough = |came| came && completion.has(enough);
                    self.reception.lead(receiver, deadline, has_enough);
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
            self.reception.leadership.withdraw(&follower);
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
            _ => self.progress().count_task(true),
        }
        drop(state);
        if self.has_ended() {
            self.poll();
        }
        Poll::Pending
    }

    /// Receives what has arrived, unless another thread is receiving. Does not wait. Returns how many results came.
    pub(crate) fn poll(&self) -> usize {
        self.reception.poll()
    }

    /// Receives whenever a task waits, until the pipeline ends. For a thread of its own.
    pub(crate) fn listen(&self) {
        let (progress, leadership) = (self.progress(), &self.reception.leadership);
        while !progress.has_ended() {
            if !progress.has_tasks() {
                progress.wait_for_tasks();
                continue;
            }
            match leadership.take_or_follow(&progress.listener) {
                Some(receiver) => {
                    let is_idle = |_| !progress.has_tasks();
                    self.reception.lead(receiver, Deadline::SESSION_END, is_idle);
                }
                None => progress.wait_for_tasks(),
            }
        }
        leadership.withdraw(&progress.listener);
        self.poll();
    }

    /// Notes that the calling thread will receive for tasks. False when another one does.
    pub(crate) fn attend(&self) -> bool {
        !self.is_attended.swap(true, Ordering::Relaxed)
    }

    /// Notes that no thread receives for tasks.
    pub(crate) fn leave(&self) {
        self.is_attended.store(false, Ordering::Relaxed);
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

    /// Stops waiting for the results that have not arrived at a completion: each is dropped and counted when it comes. True when
    /// some may still come.
    pub(crate) fn expire(&self, completion: &Completion) -> bool {
        let is_missed = {
            let mut state = completion.lock();
            state.is_expired = true;
            !state.has(usize::MAX)
        };
        self.set_waiter(completion, None);
        is_missed
    }

    /// The calls at these places of a submission that have no result: the number of the first one, and how many they are.
    pub(crate) fn under_way(
        &self,
        completion: &Completion,
        places: Range<usize>,
    ) -> Option<(u64, u64)> {
        let Calls { first, count, .. } = completion.calls();
        let missing = completion.lock().missing();
        let start = places.start.max(count - missing);
        let calls = places.end.min(count).checked_sub(start).filter(|calls| *calls > 0)?;
        Some((sequence_after(first, start as u64), calls as u64))
    }

    /// True when all calls that were submitted before those of this completion have returned.
    pub(crate) fn is_next(&self, completion: &Completion) -> bool {
        self.received() >= completion.calls().before
    }

    /// Notes that the host has waited for these calls, and waits no more.
    pub(crate) fn abandon(&self, completion: &Completion) {
        let Calls { before, count, .. } = completion.calls();
        // Relaxed: calls that another thread submits meanwhile may or may not count.
        self.progress().abandoned.fetch_max(before + count as u64, Ordering::Relaxed);
    }

    /// True while a call that the host has abandoned may hold up the calls behind it.
    #[inline]
    pub(crate) fn is_held_up(&self) -> bool {
        self.progress().abandoned.load(Ordering::Relaxed) > self.received() && !self.has_ended()
    }

    fn set_waiter(&self, completion: &Completion, waiter: Option<Waiter>) {
        let before = std::mem::replace(&mut completion.lock().waiter, waiter);
        if let Some(Waiter::Task(_)) = before {
            self.progress().count_task(false);
        }
    }

    /// Ends the pipeline for this reason: every call under way and every later one fails. The first reason is kept. Results
    /// that were received before can still be taken.
    pub(crate) fn end(&self, error: &Error) {
        self.progress().end(error);
    }

    /// Ends the pipeline, and tells the executor that no more calls will come. No thread may wait for results any more.
    pub(crate) fn close(&self) {
        self.end(&Error::disconnected("the pipeline was closed"));
        self.sender.lock().outbound.close();
    }

    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.progress().has_ended()
    }

    /// The newest call that was submitted, if it may run.
    pub(crate) fn newest_call(&self) -> Option<CallNumber> {
        let call = self.calls();
        (call > self.received()).then_some(CallNumber { lane: self.number, call })
    }

    /// Calls submitted so far.
    pub(crate) fn calls(&self) -> u64 {
        self.progress().submitted.load(Ordering::Relaxed)
    }

    /// Results received so far.
    pub(crate) fn received(&self) -> u64 {
        self.progress().received.load(Ordering::Relaxed)
    }

    /// Results so far that came after their calls had timed out.
    pub(crate) fn late(&self) -> u64 {
        self.progress().late.load(Ordering::Relaxed)
    }

    fn progress(&self) -> &Progress {
        &self.reception.progress
    }
}

/// Checks that arguments of this size travel in one call.
///
/// # Errors
///
/// When they are too long.
#[inline]
fn check_bytes(bytes: usize) -> Result<()> {
    if bytes as u64 <= PAYLOAD_BYTES_MAX {
        return Ok(());
    }
    Err(Error::exhausted(format!(
        "arguments of {bytes} bytes; at most {PAYLOAD_BYTES_MAX} travel in one call"
    )))
}
