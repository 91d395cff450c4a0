//! The open pipelines of a session, and its own ones among them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::call::CallNumber;
use crate::call::pipeline::Caller;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::LANES_MAX;
use crate::sync::Mutex;

/// How long a call that was cancelled mostly takes to end, and how often a thread looks that waits for it.
const CANCELLED_TIME: Duration = Duration::from_millis(2);
const LOOK: Duration = Duration::from_micros(50);

/// The open pipelines of a session.
#[derive(Debug, Default)]
pub(crate) struct Pipelines(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    callers: Vec<Weak<Caller>>,
    /// The session is over: pipelines that are added end at once.
    is_closed: bool,
    /// Calls, and late results, of pipelines that were removed.
    removed: [u64; 2],
    /// A pipeline was removed while a call that was abandoned held it up.
    has_left_one: bool,
}

/// The pipelines of functions that were given none: one, and those that calls hold up which the host has abandoned.
#[derive(Debug, Default)]
pub(crate) struct OwnPipelines(Mutex<Own>);

#[derive(Debug, Default)]
struct Own {
    present: Option<Arc<Caller>>,
    others: Vec<Arc<Caller>>,
}

impl Pipelines {
    /// Adds a pipeline. It ends at once if the session is over.
    pub(crate) fn add(&self, caller: &Arc<Caller>) {
        let mut open = self.0.lock();
        open.callers.retain(|caller| caller.strong_count() > 0);
        if open.is_closed {
            caller.end(&gone());
        }
        open.callers.push(Arc::downgrade(caller));
    }

    /// Ends all pipelines, and those that are added later.
    pub(crate) fn close(&self) {
        let mut open = self.0.lock();
        open.is_closed = true;
        let callers: Vec<_> = open.callers.iter().filter_map(Weak::upgrade).collect();
        drop(open);
        for caller in callers {
            caller.end(&gone());
        }
    }

    /// The open pipelines.
    pub(crate) fn callers(&self) -> Vec<Arc<Caller>> {
        self.0.lock().callers.iter().filter_map(Weak::upgrade).collect()
    }

    /// The newest call of each pipeline with calls under way.
    pub(crate) fn under_way(&self) -> Vec<CallNumber> {
        self.callers().iter().filter_map(|caller| caller.newest_call()).collect()
    }

    /// True while a call that the host has abandoned may run.
    pub(crate) fn are_held_up(&self) -> bool {
        let has_left_one = self.0.lock().has_left_one;
        has_left_one || self.callers().iter().any(|caller| stays_held_up(caller))
    }

    /// Calls submitted so far, and results that arrived after their calls had timed out or were dropped.
    pub(crate) fn sums(&self) -> [u64; 2] {
        let open = self.0.lock();
        open.callers.iter().filter_map(Weak::upgrade).fold(open.removed, |[calls, late], caller| {
            [calls.wrapping_add(caller.calls()), late.wrapping_add(caller.late())]
        })
    }

    /// Removes a pipeline that was closed.
    pub(crate) fn forget(&self, caller: &Caller) {
        let is_held_up = stays_held_up(caller);
        let mut open = self.0.lock();
        let counts = [caller.calls(), caller.late()];
        for (sum, more) in open.removed.iter_mut().zip(counts) {
            *sum = sum.wrapping_add(more);
        }
        open.has_left_one |= is_held_up;
        open.callers.retain(|other| !std::ptr::eq(other.as_ptr(), caller));
    }
}

impl OwnPipelines {
    /// The pipeline for the next call, which no abandoned call holds up. `open` opens another, if needed, and `close` closes what
    /// is not needed.
    ///
    /// # Errors
    ///
    /// As `open`; when [`LANES_MAX`] pipelines are held up.
    pub(crate) fn present(
        &self,
        open: impl FnOnce() -> Result<Arc<Caller>>,
        close: impl FnOnce(&Caller),
    ) -> Result<Arc<Caller>> {
        if let Some(caller) = self.0.lock().free() {
            return Ok(caller);
        }
        // Late results may be there, which no thread has received.
        let known = self.0.lock().all();
        let ends_by = Deadline::after(CANCELLED_TIME);
        loop {
            known.iter().for_each(|caller| _ = caller.poll());
            if let Some(caller) = self.0.lock().change()? {
                return Ok(caller);
            }
            if known.is_empty() || ends_by.has_passed() {
                break;
            }
            // Another pipeline costs the executor a thread.
            std::thread::sleep(LOOK);
        }
        let opened = open()?;
        let mut own = self.0.lock();
        match own.change()? {
            // Another thread was faster.
            Some(caller) => {
                drop(own);
                close(&opened);
                Ok(caller)
            }
            None => {
                own.present = Some(Arc::clone(&opened));
                Ok(opened)
            }
        }
    }
}

impl Own {
    /// The present pipeline, if neither it nor another one is held up.
    fn free(&self) -> Option<Arc<Caller>> {
        let are_others_free = self.others.iter().all(is_free);
        self.present.as_ref().filter(|caller| are_others_free && is_free(caller)).map(Arc::clone)
    }

    fn all(&self) -> Vec<Arc<Caller>> {
        self.present.iter().chain(&self.others).map(Arc::clone).collect()
    }

    /// Makes a pipeline that is not held up the present one.
    ///
    /// # Errors
    ///
    /// When too many are held up.
    fn change(&mut self) -> Result<Option<Arc<Caller>>> {
        self.others.retain(|caller| !caller.has_ended());
        match self.present.take() {
            Some(caller) if is_free(&caller) => self.present = Some(caller),
            Some(caller) if !caller.has_ended() => self.others.push(caller),
            _ => {}
        }
        if self.present.is_none()
            && let Some(at) = self.others.iter().position(is_free)
        {
            self.present = Some(self.others.swap_remove(at));
        }
        if self.present.is_none() && self.others.len() >= LANES_MAX {
            return Err(Error::exhausted(format!(
                "{LANES_MAX} submitted calls were abandoned and have not returned; end the executor, or wait for them"
            )));
        }
        Ok(self.present.clone())
    }
}

/// True while a pipeline is held up, also when its late results are received.
fn stays_held_up(caller: &Caller) -> bool {
    caller.is_held_up() && {
        caller.poll();
        caller.is_held_up()
    }
}

fn is_free(caller: &Arc<Caller>) -> bool {
    !caller.has_ended() && !caller.is_held_up()
}

fn gone() -> Error {
    Error::disconnected("the peer is gone")
}
