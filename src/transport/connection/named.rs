//! A lane in a segment with a name: the controller makes it, one executor attaches to it.
//!
//! Line 1 of the segment identifies both processes: process number and start time of the creator, then of the attached one.
//!
//! | event | what removes the name |
//! |---|---|
//! | an executor attaches | that executor, so no name is left whatever happens afterwards |
//! | the creator times out | the creator |
//! | the creator is killed while it waits | the next process that makes or opens any name, since no such process lives |
//!
//! Each side watches the other's process: when it ends, the lane is closed.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::shm::{Found, Names, Segment};
use crate::sync::Ordering;
use crate::sys::futex::{self, Seen};
use crate::sys::io::identified::Identified;
use crate::sys::process::child::Watched;
use crate::transport::Closer;
use crate::transport::lane::segment;
use crate::transport::wait::poll_policy::PollPolicy;
use crate::transport::{Lane, Side};
use crate::wire::layout::{
    ATTACHED_STARTED_WORD, ATTACHED_WORD, CREATOR_STARTED_WORD, CREATOR_WORD, HEADER, MAGIC,
    SEGMENT_WORDS, SPIN_NS_WORD,
};

/// The number of the attached process when the creator has timed out.
const WITHDRAWN: u64 = u64::MAX;

/// One end of a lane in a named segment.
#[derive(Debug)]
pub(in crate::transport) struct Named {
    pub(in crate::transport) lane: Lane,
    pub(in crate::transport) side: Side,
    closer: Closer,
    /// Ends the watch when it is dropped.
    _watch: Identified,
}

impl Named {
    /// Makes a segment under a name and waits until an executor has attached to it.
    ///
    /// # Errors
    ///
    /// When a live process has taken the name. When no executor has come in time: the name is free then.
    pub(in crate::transport) fn create(name: &str, timeout: Duration) -> Result<Self> {
        let deadline = Deadline::after(timeout);
        let segment = {
            let names = Names::lock()?;
            remove_stale(&names);
            if let Found::Segment(taken) = names.open(name)? {
                let creator = taken.words()[CREATOR_WORD].load(Ordering::Relaxed);
                return Err(Error::invalid(format!(
                    "the segment name {name} is taken by process {creator}"
                )));
            }
            let segment = names.create(name, SEGMENT_WORDS * 8)?;
            introduce(&segment);
            segment
        };
        let words = segment.words();
        let attached = &words[ATTACHED_WORD];
        loop {
            let pid = attached.load(Ordering::Acquire);
            if pid != 0 {
                let started = words[ATTACHED_STARTED_WORD].load(Ordering::Relaxed);
                return Self::watch(segment, Side::Controller, pid, started);
            }
            if deadline.has_passed() {
                let names = Names::lock()?;
                let order = Ordering::AcqRel;
                if attached.compare_exchange(0, WITHDRAWN, order, Ordering::Acquire).is_ok() {
                    names.remove(name);
                    return Err(Error::timeout(format!(
                        "nobody attached to the segment named {name} within {timeout:?}"
                    )));
                }
                continue;
            }
            futex::wait(&[Seen { word: attached, value: 0, is_private: false }], deadline);
        }
    }

    /// Attaches to the segment that a live process made under a name, and removes the name.
    ///
    /// # Errors
    ///
    /// When there is none, or it is not one of this version.
    pub(in crate::transport) fn attach(name: &str) -> Result<Self> {
        let names = Names::lock()?;
        remove_stale(&names);
        let Found::Segment(segment) = names.open(name)? else {
            return Err(Error::invalid(format!("no process waits at a segment named {name}")));
        };
        segment::check(&segment, HEADER, SEGMENT_WORDS, &format!("the segment named {name}"))?;
        let words = segment.words();
        let pid = u64::from(std::process::id());
        words[ATTACHED_STARTED_WORD].store(Watched::started(pid).unwrap_or(0), Ordering::Relaxed);
        let attached = &words[ATTACHED_WORD];
        // Release: the creator that sees the number sees the start time.
        let before = attached.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire);
        if let Err(other) = before {
            return Err(Error::invalid(format!(
                "process {other:#x} is at the segment named {name} already"
            )));
        }
        names.remove(name);
        drop(names);
        futex::wake(attached);
        let creator = words[CREATOR_WORD].load(Ordering::Relaxed);
        let started = words[CREATOR_STARTED_WORD].load(Ordering::Relaxed);
        Self::watch(segment, Side::Executor, creator, started)
    }

    /// This side of the lane, closed as soon as the process at the other one ends.
    fn watch(segment: Segment, side: Side, peer: u64, started: u64) -> Result<Self> {
        let lane = Lane::new(&Arc::new(segment), side);
        let [closer, closes] = [lane.closer(), lane.closer()];
        let failed = |error| Error::os(format!("watching process {peer}"), error);
        let (stopped, watch) = std::io::pipe().map_err(failed)?;
        match Watched::open(peer, started)? {
            None => closer.close(),
            Some(process) => {
                let thread = std::thread::Builder::new().name("farcall-watch".to_owned());
                let watching = move || {
                    if process.wait(stopped.as_fd()) {
                        closes.close();
                    }
                };
                drop(thread.stack_size(64 << 10).spawn(watching).map_err(failed)?);
            }
        }
        Ok(Self { lane, side, closer, _watch: Identified::new(watch.into()) })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.closer.close();
    }
}

/// Stores the creator of a segment and then, last of all, the segment's header.
fn introduce(segment: &Segment) {
    let words = segment.words();
    let pid = u64::from(std::process::id());
    words[CREATOR_WORD].store(pid, Ordering::Relaxed);
    words[CREATOR_STARTED_WORD].store(Watched::started(pid).unwrap_or(0), Ordering::Relaxed);
    PollPolicy::default().store(&words[SPIN_NS_WORD]);
    for (word, value) in words.iter().zip(HEADER).rev() {
        word.store(value, Ordering::Release);
    }
}

/// Removes the names of segments whose creators are gone. No creator is just writing its header: that takes the lock, which
/// the caller holds.
fn remove_stale(names: &Names) {
    for name in names.all() {
        let is_stale = match names.open(&name) {
            Ok(Found::Segment(segment)) => !has_creator(&segment),
            Ok(Found::Unfinished) => true,
            // The name of another user's segment, or of a segment that was removed meanwhile.
            Ok(Found::Nothing) | Err(_) => false,
        };
        if is_stale {
            names.remove(&name);
        }
    }
}

/// True when the process that made a segment lives.
fn has_creator(segment: &Segment) -> bool {
    let words = segment.words();
    if words.len() <= CREATOR_STARTED_WORD || words[0].load(Ordering::Acquire) != MAGIC {
        return false;
    }
    let [pid, started] =
        [CREATOR_WORD, CREATOR_STARTED_WORD].map(|at| words[at].load(Ordering::Relaxed));
    Watched::started(pid) == Some(started)
}
