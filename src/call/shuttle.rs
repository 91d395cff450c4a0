//! Sessions of several threads, in 100,000 random orders of shuttle.
//!
//! Threads call on lanes of their own, nested both ways, with deadlines and with calls posted ahead. The executor dies at any
//! moment, and two threads announce it. The controller's side is the real code; the executor is a few lines here. Shuttle
//! reports a thread that waits for ever as a deadlock.
//!
//! Invariant: each model also runs with a planted fault, which is found.

use std::sync::Arc;
use std::time::Instant;

use crate::deadline::Deadline;
use ::shuttle::rand::{Rng, thread_rng};
use ::shuttle::thread::{self, JoinHandle};

use super::endpoint::LaneEnd;
use super::lanes::{Lanes, Opened};
use super::outcome_counters::{self, OutcomeCounters, count};
use super::{Endpoint, Handler};
use crate::error::{ErrorKind, Result};
use crate::shm::Segment;
use crate::sync::{AtomicBool, Mutex, Ordering};
use crate::transport::{Incoming, Lane, Payload, Side, Transport};
use crate::wire::{Kind, layout};

const THREADS: u8 = 3;
const SCHEDULES: usize = 50_000;
/// The functions of the executor: the first answers, the second calls the controller first.
const LEAF: u64 = 1;
const BACK: u64 = 2;
/// The target of a posted call is this plus the number of its thread.
const POSTED: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A lane is opened of which the session is not told.
    UnknownLane,
    /// The executor says that a posted call has run before it has.
    TooEarly,
}

/// One session, and the executor.
struct World {
    lanes: Arc<Lanes>,
    planted: Planted,
    is_dead: AtomicBool,
    /// Which posted calls have run.
    ran: [AtomicBool; THREADS as usize],
    /// Threads that end when the session does.
    others: Mutex<Vec<JoinHandle<()>>>,
}

impl World {
    fn open(self: &Arc<Self>) -> Result<Opened> {
        let bytes = layout::SEGMENT_WORDS as u64 * 8;
        let segment = Arc::new(Segment::create(c"model", bytes, false)?);
        let lane = Lane::new(&segment, Side::Controller);
        let end = match self.planted {
            Planted::UnknownLane => Endpoint::new(lane),
            _ => self.lanes.add(lane)?,
        };
        let world = Arc::clone(self);
        self.start(move || {
            let _ = world.execute(&mut Lane::new(&segment, Side::Executor));
        });
        Ok(Opened::AwaitsSetup(end))
    }

    fn start(&self, work: impl FnOnce() + Send + 'static) {
        self.others.lock().push(thread::spawn(work));
    }

    /// The executor's side of a lane. `None` is its end.
    fn execute(&self, lane: &mut Lane) -> Option<()> {
        self.send(lane, Kind::Setup, 0, &[])?;
        self.serve(lane).map(drop)
    }

    fn send(&self, lane: &mut Lane, kind: Kind, target: u64, payload: &[u8]) -> Option<()> {
        if self.is_dead.load(Ordering::Relaxed) {
            return None;
        }
        lane.send(kind, target, payload, Deadline::SESSION_END).ok()
    }

    /// Serves calls until a result comes.
    fn serve(&self, lane: &mut Lane) -> Option<Vec<u8>> {
        let mut message = Incoming::new();
        loop {
            lane.receive(Deadline::SESSION_END, &mut message).ok()?;
            // A dead executor runs nothing, whatever is in the line.
            if self.is_dead.load(Ordering::Relaxed) {
                return None;
            }
            match (message.kind, message.posted) {
                (Kind::Call, Some(sequence)) => {
                    if self.planted == Planted::TooEarly {
                        lane.settle(sequence);
                        (0..50).for_each(|_| thread::yield_now());
                    }
                    let number = usize::try_from(message.target - POSTED).expect("a thread");
                    self.ran[number].store(true, Ordering::Relaxed);
                    lane.settle(sequence);
                }
                (Kind::Call, None) => {
                    let args = message.payload().bytes().into_owned();
                    let ran = &self.ran[usize::from(args[0])];
                    assert!(ran.load(Ordering::Relaxed), "{args:?} overtook what was posted");
                    let mut result = args.clone();
                    if message.target == BACK {
                        self.send(lane, Kind::Call, 0, &args)?;
                        result = self.serve(lane)?;
                    }
                    result.push(7);
                    self.send(lane, Kind::Result, 0, &result)?;
                }
                (Kind::Result, None) => return Some(message.payload().bytes().into_owned()),
                _ => return None,
            }
        }
    }
}

/// The controller's handlers: one, which calls the executor in turn.
#[derive(Clone)]
struct Handlers(Arc<World>);

impl Handler<Lane> for Handlers {
    type Reply = Vec<u8>;

    fn handle(
        &self,
        _target: u64,
        args: Payload<'_>,
        _: Vec<u8>,
    ) -> std::result::Result<Vec<u8>, String> {
        let call = |end: &LaneEnd| {
            end.call(self, Deadline::SESSION_END, LEAF, &args.bytes(), Incoming::to_vec)
        };
        let outcome = self.0.lanes.with(|| self.0.open(), call);
        outcome.map_err(|error| error.to_string())
    }

    fn ahead(&self, end: &LaneEnd, deadline: Deadline) -> Result<()> {
        self.0.lanes.go_ahead(end, deadline)
    }
}

/// What one thread of the controller does.
fn call(world: &Arc<World>, number: u8, outcomes: &OutcomeCounters) {
    let handlers = Handlers(Arc::clone(world));
    let note = |outcome: Result<Vec<u8>>, expected: &[u8]| match outcome {
        Ok(result) => {
            assert_eq!(result, expected);
            count(&outcomes.results);
        }
        Err(error) if error.kind() == ErrorKind::Timeout => count(&outcomes.late),
        Err(error) => {
            let is_over = error.is_disconnected() && error.kind() != ErrorKind::Violation
                || error.kind() == ErrorKind::Remote;
            assert!(is_over && world.is_dead.load(Ordering::Relaxed), "{error}");
            count(&outcomes.ends);
        }
    };
    world.lanes.posts.push(POSTED + u64::from(number), Vec::new());
    let outcome = world.lanes.with(
        || world.open(),
        |end| end.call(&handlers, Deadline::SESSION_END, BACK, &[number], Incoming::to_vec),
    );
    note(outcome, &[number, 7, 7]);
    let outcome = world.lanes.with_idle(
        Deadline::SESSION_END,
        || world.open(),
        |end| end.call(&handlers, Deadline::now(), LEAF, &[number], Incoming::to_vec),
        |end| {
            let handlers = handlers.clone();
            world.start(move || handlers.0.lanes.finish(end, &handlers));
        },
    );
    note(outcome, &[number, 7]);
}

/// Runs a session. If `dies`, the executor ends at any moment, and two threads close the lanes.
fn session(planted: Planted, dies: bool, outcomes: &Arc<OutcomeCounters>) {
    let world = Arc::new(World {
        lanes: Lanes::new(),
        planted,
        is_dead: AtomicBool::new(false),
        ran: Default::default(),
        others: Mutex::new(Vec::new()),
    });
    let mut threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (world, outcomes) = (Arc::clone(&world), Arc::clone(outcomes));
            thread::spawn(move || call(&world, number, &outcomes))
        })
        .collect();
    for _ in 0..if dies { 2 } else { 0 } {
        let world = Arc::clone(&world);
        threads.push(thread::spawn(move || {
            (0..thread_rng().gen_range(0..500)).for_each(|_| thread::yield_now());
            world.is_dead.store(true, Ordering::Relaxed);
            world.lanes.close();
        }));
    }
    for thread in threads {
        thread.join().expect("no panic");
    }
    world.is_dead.store(true, Ordering::Relaxed);
    world.lanes.close();
    loop {
        let Some(other) = world.others.lock().pop() else { break };
        other.join().expect("no panic");
    }
}

fn explore(name: &str, planted: Planted, dies: bool) {
    let name = format!("sessions {name}");
    outcome_counters::explore(&name, SCHEDULES, dies, move |outcomes| {
        session(planted, dies, outcomes)
    });
}

#[test]
fn sessions_of_several_threads() {
    explore("that live", Planted::Nothing, false);
}

#[test]
fn sessions_that_end_at_any_moment() {
    explore("that end", Planted::Nothing, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_lane_that_nobody_closes_is_found() {
    explore("with a lane unknown", Planted::UnknownLane, true);
}

#[test]
#[should_panic(expected = "overtook")]
fn a_posted_call_that_settles_too_early_is_found() {
    explore("that settle too early", Planted::TooEarly, false);
}
