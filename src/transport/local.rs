//! Two ends in one process: a ring of messages each way.
//!
//! Whoever waits polls first and then parks its thread. No wake is lost: the sleeper swaps its parker's word to say that it
//! sleeps and looks at the ring once more; the other side changes the ring and then swaps the word back. One of
//! the two swaps comes second, and who makes it sees what the first one did before its own.
//!
//! | the sleeper | the other side |
//! |---|---|
//! | swaps the word of its bell to "sleeps" | changes the ring |
//! | reads the ring once more | swaps that word back |
//!
//! One of the two swaps comes second. The thread that makes it sees what the other did before its own swap.
//!
//! Invariant: one side at a time owns a message; its bytes are moved, never shared.

use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rtrb::{Consumer, Producer, RingBuffer};

use super::Transport;
use super::message::Incoming;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::limits::{LOCAL_MESSAGES, PAYLOAD_BYTES_MAX, SPIN_NS};
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::wire::Kind;

/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// One end.
#[derive(Debug)]
pub(crate) struct Local {
    outbound: Producer<Message>,
    inbound: Consumer<Message>,
    /// What wakes this end, and the other one.
    own: Arc<Parker>,
    peer: Arc<Parker>,
}

#[derive(Debug)]
struct Message {
    kind: Kind,
    target: u64,
    posted: Option<u64>,
    payload: Vec<u8>,
}

/// Where an end sleeps.
#[derive(Debug, Default)]
struct Parker {
    sleeps: AtomicBool,
    sleeper: Mutex<Option<Thread>>,
    /// The end is gone.
    is_gone: AtomicBool,
}

impl Local {
    /// Two connected ends.
    pub(crate) fn pair() -> (Self, Self) {
        let (to_left, from_right) = RingBuffer::new(LOCAL_MESSAGES);
        let (to_right, from_left) = RingBuffer::new(LOCAL_MESSAGES);
        let [left, right] = [(); 2].map(|()| Arc::new(Parker::default()));
        let end = |outbound, inbound, own: &Arc<Parker>, peer: &Arc<Parker>| Self {
            outbound,
            inbound,
            own: Arc::clone(own),
            peer: Arc::clone(peer),
        };
        let ours = end(to_right, from_right, &left, &right);
        (ours, end(to_left, from_left, &right, &left))
    }

    fn push(
        &mut self,
        kind: Kind,
        target: u64,
        posted: Option<u64>,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<()> {
        if payload.len() as u64 > PAYLOAD_BYTES_MAX {
            return Err(Error::exhausted(format!(
                "a payload of {} bytes; at most {PAYLOAD_BYTES_MAX} travel in one call",
                payload.len()
            )));
        }
        let message = Message { kind, target, posted, payload: payload.to_vec() };
        let Self { outbound, own, peer, .. } = self;
        let has_room = own.wait(deadline, || {
            let is_gone = peer.is_gone.load(Ordering::Acquire);
            (is_gone || !outbound.is_full()).then_some(())
        });
        if peer.is_gone.load(Ordering::Acquire) {
            return Err(gone());
        }
        if has_room.is_none() {
            return Err(Error::timeout("the other end took nothing in time"));
        }
        // There is room, and only this end fills it.
        outbound.push(message).map_err(|_| Error::exhausted("a ring without room"))?;
        peer.unpark();
        Ok(())
    }
}

impl Transport for Local {
    fn send(&mut self, kind: Kind, target: u64, payload: &[u8], deadline: Deadline) -> Result<()> {
        self.push(kind, target, None, payload, deadline)
    }

    fn post(
        &mut self,
        kind: Kind,
        sequence: u64,
        target: u64,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<()> {
        self.push(kind, target, Some(sequence), payload, deadline)
    }

    fn receive(&mut self, deadline: Deadline, into: &mut Incoming) -> Result<bool> {
        let Self { inbound, own, peer, .. } = self;
        let came = own.wait(deadline, || {
            // In this order, so that messages sent before the end are received.
            let is_gone = peer.is_gone.load(Ordering::Acquire);
            match inbound.pop() {
                Ok(message) => Some(Some(message)),
                Err(_) => is_gone.then_some(None),
            }
        });
        match came {
            None => Ok(false),
            Some(None) => Err(gone()),
            Some(Some(Message { kind, target, posted, payload })) => {
                // The peer may wait for room.
                self.peer.unpark();
                into.set(kind, target, posted, payload);
                Ok(true)
            }
        }
    }

    /// Nothing: each end belongs to one thread, so no other thread waits.
    fn settle(&mut self, _sequence: u64) {}

    /// Nothing: a process sees its own writes.
    fn code_written(&mut self) {}
}

impl Drop for Local {
    fn drop(&mut self) {
        self.own.is_gone.store(true, Ordering::Release);
        self.peer.unpark();
    }
}

impl Parker {
    /// Polls `look` until it finds something, then sleeps between looks; `None` when it has found nothing by the deadline.
    fn wait<T>(&self, deadline: Deadline, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let mut polled_until = None;
        loop {
            for _ in 0..POLLS_PER_LOOK {
                if let Some(found) = look() {
                    return Some(found);
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now >= *polled_until.get_or_insert(now + Duration::from_nanos(SPIN_NS)) {
                return self.sleep(deadline, look);
            }
        }
    }

    #[cold]
    fn sleep<T>(&self, deadline: Deadline, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        *self.sleeper.lock() = Some(thread::current());
        loop {
            // [LOCAL] Acquire: pairs with the swap in `unpark`; release, for the thread to wake.
            self.sleeps.swap(true, Ordering::AcqRel);
            let found = look();
            let left = deadline.left();
            if found.is_some() || left.is_some_and(|left| left.is_zero()) {
                self.sleeps.swap(false, Ordering::AcqRel);
                return found;
            }
            match left {
                Some(left) => thread::park_timeout(left),
                None => thread::park(),
            }
        }
    }

    /// Wakes the end that sleeps here, if it does.
    #[inline]
    fn unpark(&self) {
        // [LOCAL] Release: who swaps after this sees what changed; acquire, for the thread to wake.
        if self.sleeps.swap(false, Ordering::AcqRel) {
            let sleeper = self.sleeper.lock();
            sleeper.iter().for_each(Thread::unpark);
        }
    }
}

fn gone() -> Error {
    Error::disconnected("the other end of the local connection is gone")
}
