//! The controller's part of a case, and the outcomes that are allowed.
//!
//! Invariant: everything from an honest peer is compared with what it sent.

use crate::deadline::Deadline;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::Totals;
use super::behaviour::Behaviour;
use super::peer::Peer;
use super::random::Random;
use crate::call::{Endpoint, Handler};
use crate::error::{Error, ErrorKind, Result};
use crate::limits::PAYLOAD_BYTES_MAX;
use crate::shm::Segment;
use crate::sps::Status;
use crate::sync::hostile::{answer_for, be_honest};
use crate::transport::{Incoming, Lane, Payload, Settled, Side, Transport};
use crate::wire::layout;

/// Levels that calls nest to.
const DEPTH_MAX: u32 = 4;

/// The transport under test: a lane, or a faulty one in its place.
pub(super) trait Tried: Transport {
    /// The word that tells that posted calls have run, where there is one.
    fn settled(&self) -> Option<Settled> {
        None
    }
}

impl Tried for Lane {
    fn settled(&self) -> Option<Settled> {
        Some(Lane::settled(self))
    }
}

struct Controller<T> {
    end: Endpoint<T>,
    peer: Rc<Peer>,
    random: RefCell<Random>,
    depth: Cell<u32>,
    handled: Cell<u64>,
    results: Cell<u64>,
    failures: Cell<u64>,
}

/// Runs the case with this number on what `make` makes of the controller's end of the lane.
pub(super) fn run<T: Tried>(
    number: u64,
    totals: &mut Totals,
    make: impl FnOnce(Lane, &Arc<Segment>) -> T,
) {
    let mut random = Random::new(number);
    let behaviour = Behaviour::new(number, &mut random);
    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    let Ok(segment) = Segment::create(c"hostile", bytes, false) else { return };
    let segment = Arc::new(segment);
    let peer = Rc::new(Peer::new(&segment, Random::new(!number), behaviour));
    answer_for(segment.words(), peer.clone());
    let lane = Lane::new(&segment, Side::Controller);
    peer.is_supervised_by(lane.closer());
    let end = Endpoint::new(make(lane, &segment));
    let controller = Controller {
        end,
        peer: Rc::clone(&peer),
        random: RefCell::new(random),
        depth: Cell::new(0),
        handled: Cell::new(0),
        results: Cell::new(0),
        failures: Cell::new(0),
    };
    match controller.session(totals) {
        Ok(()) => totals.ends += 1,
        Err(error) => {
            assert!(
                behaviour.may_break() || error.kind() != ErrorKind::Violation,
                "case {number}: honest, and yet {error}"
            );
            totals.violations += u64::from(error.kind() == ErrorKind::Violation);
            totals.ends += u64::from(error.kind() != ErrorKind::Violation);
            // An ended lane refuses further calls.
            let _ = controller.call(Deadline::SESSION_END, &[1; 60]);
            let _ = controller.end.post(1, &[2; 60], Deadline::SESSION_END);
        }
    }
    totals.results += controller.results.get();
    totals.failures += controller.failures.get();
    totals.handled += controller.handled.get();
    drop(controller);
    be_honest();
    peer.count(totals);
}

impl<T: Tried> Controller<T> {
    fn session(&self, totals: &mut Totals) -> Result<()> {
        self.end.receive_setup(Deadline::SESSION_END)?;
        let steps = 1 + self.random.borrow_mut().below(6);
        for _ in 0..steps {
            let (choice, length) = {
                let mut random = self.random.borrow_mut();
                (random.below(12), random.length())
            };
            let outcome = match choice {
                0 => self.post(length),
                1 => self.call(Deadline::now(), &vec![3; length]),
                2 if length == 0 => self.call(
                    Deadline::SESSION_END,
                    &vec![0; usize::try_from(PAYLOAD_BYTES_MAX).unwrap_or(0) + 1],
                ),
                _ => self.call_random(length),
            };
            match outcome {
                Err(error) if error.kind() == ErrorKind::Timeout => {
                    totals.late += 1;
                    match self.end.finish(self, Deadline::SESSION_END) {
                        Err(error) if error.kind() != ErrorKind::Remote => return Err(error),
                        _ => {}
                    }
                }
                Err(error)
                    if error.kind() != ErrorKind::Remote
                        && error.kind() != ErrorKind::Exhausted =>
                {
                    return Err(error);
                }
                _ => {}
            }
        }
        self.end.hang_up(Status(Ok(())), Deadline::SESSION_END)
    }

    fn call_random(&self, length: usize) -> Result<()> {
        let args = self.random.borrow_mut().bytes(length);
        self.call(Deadline::SESSION_END, &args)
    }

    /// Makes a call. Its result must be what the peer has sent.
    fn call(&self, deadline: Deadline, args: &[u8]) -> Result<()> {
        let outcome = self.end.call(self, deadline, 7, args, Incoming::to_vec);
        match &outcome {
            Ok(result) => {
                self.results.set(self.results.get() + 1);
                self.peer.check(result);
            }
            Err(error) if error.kind() == ErrorKind::Remote => {
                self.failures.set(self.failures.get() + 1)
            }
            Err(_) => {}
        }
        outcome.map(drop)
    }

    /// Posts a few calls, and perhaps waits until they have run.
    fn post(&self, length: usize) -> Result<()> {
        let mut last = 0;
        for at in 0..5 {
            last = self.end.post(at, &vec![4; length], Deadline::SESSION_END)?;
        }
        let settled = self.end.with_transport(|lane| lane.settled());
        if let Some(settled) = settled.filter(|_| self.random.borrow_mut().one_in(2)) {
            settled.wait(last, Deadline::SESSION_END)?;
        }
        self.call_random(length)
    }
}

impl<T: Tried> Handler<T> for Controller<T> {
    type Reply = Vec<u8>;

    fn handle(
        &self,
        target: u64,
        args: Payload<'_>,
        mut result: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, String> {
        let args = &*args.bytes();
        self.handled.set(self.handled.get() + 1);
        self.peer.check_call(args);
        if target.is_multiple_of(5) {
            return Err(format!("{target} is refused"));
        }
        if target % 2 == 1 && self.depth.get() < DEPTH_MAX {
            self.depth.set(self.depth.get() + 1);
            let length = self.random.borrow_mut().length();
            let outcome = self.call_random(length);
            self.depth.set(self.depth.get() - 1);
            outcome.map_err(|error: Error| error.to_string())?;
        }
        result.extend_from_slice(args);
        Ok(result)
    }
}
