//! Lives of sessions in 100,000 schedules of the model checker shuttle.
//!
//! Four threads call in both directions, detach, shut down and disconnect one session at any moment, add services and
//! wait for its end. Callbacks come early and late; functions and handlers answer at once or later. All of it is the
//! code that runs in programs; each task has a thread. Shuttle reports a thread that waits for ever as a deadlock.
//!
//! Invariant: each model also runs with a planted fault, which the checker must find.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Count, Ordering as CountOrdering};

use ::shuttle::rand::{Rng, thread_rng};
use ::shuttle::scheduler::RandomScheduler;
use ::shuttle::thread::{self, JoinHandle};

use super::life::core::Fault;
use super::{
    Answer, BootstrapInfo, Done, InProcess, InProcessController, Reply, Service, Session,
    SessionBuilder, SessionHandle,
};
use crate::ExecutorAddr;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

const SCHEDULES: usize = 100_000;
/// Calls of each kind that one thread makes.
const CALLS: u64 = 2;
/// The tag of the handler.
const TAG: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// In the session.
    Fault(Fault),
    /// A fault in the access: a late call is not refused.
    StrandsCalls,
}

/// Counters over all schedules.
#[derive(Default)]
struct Counters {
    schedules: Count,
    results: Count,
    ends: Count,
    late: Count,
}

/// Counters of one session.
#[derive(Default)]
struct World {
    /// Running spans of managed code.
    running: AtomicU64,
    /// Detach and shutdown callbacks that have run.
    told: AtomicU64,
    /// Runs of the disconnect handler.
    disconnects: AtomicU64,
    /// Completed calls.
    completed: AtomicU64,
    /// Threads of tasks and of late answers.
    others: Mutex<Vec<JoinHandle<()>>>,
}

fn count(count: &Count) {
    count.fetch_add(1, CountOrdering::Relaxed);
}

impl World {
    fn start(&self, work: impl FnOnce() + Send + 'static) {
        self.others.lock().push(thread::spawn(work));
    }

    /// Answers now, on another thread, or not at all.
    fn answer(&self, reply: Reply, answer: Answer) {
        match thread_rng().gen_range(0..4) {
            0 => self.start(move || reply.send(answer)),
            1 => drop(reply),
            _ => reply.send(answer),
        }
    }

    fn complete(&self, outcome: Result<Vec<u8>>, counters: &Counters) {
        self.completed.fetch_add(1, Ordering::SeqCst);
        match outcome {
            Ok(bytes) => {
                assert_eq!(bytes, [7]);
                count(&counters.results);
            }
            Err(error) if error.kind() == ErrorKind::Remote => {}
            Err(error) => {
                assert!(error.is_disconnected(), "{error}");
                count(&counters.ends);
            }
        }
    }
}

/// A service that checks that each stage comes once and in order, and that no managed code runs at the shutdown.
struct Watch {
    world: Arc<World>,
    detached: AtomicBool,
    shut_down: AtomicBool,
}

impl Watch {
    fn new(world: &Arc<World>) -> Self {
        let [detached, shut_down] = [AtomicBool::new(false), AtomicBool::new(false)];
        Self { world: Arc::clone(world), detached, shut_down }
    }
}

impl Service for Watch {
    fn on_detach(&self, done: Done, _: bool) {
        assert!(!self.detached.swap(true, Ordering::SeqCst), "detached twice");
        if thread_rng().gen_bool(0.5) {
            self.world.start(move || drop(done));
        }
    }

    fn on_shutdown(&self, done: Done) {
        assert!(self.detached.load(Ordering::SeqCst), "shut down before it was detached");
        assert!(!self.shut_down.swap(true, Ordering::SeqCst), "shut down twice");
        assert_eq!(self.world.running.load(Ordering::SeqCst), 0, "managed code runs");
        done.complete();
    }
}

/// Runs a function that the controller calls.
fn run(world: &World, session: &SessionHandle, counters: &Counters, args: Vec<u8>, reply: Reply) {
    world.running.fetch_add(1, Ordering::SeqCst);
    thread::yield_now();
    if thread_rng().gen_bool(0.3) {
        // Nested: this thread waits while the controller's handler answers.
        let outcome = session.call(TAG, args.clone());
        world.complete(outcome, counters);
        world.completed.fetch_sub(1, Ordering::SeqCst);
    }
    world.answer(reply, Ok(args));
    world.running.fetch_sub(1, Ordering::SeqCst);
}

fn calls_out(world: &Arc<World>, session: &SessionHandle, counters: &Arc<Counters>) {
    for _ in 0..CALLS {
        let (inner, counts) = (Arc::clone(world), Arc::clone(counters));
        session.call_controller(TAG, vec![7], move |outcome| {
            // A refused call completes on the calling thread and delays no shutdown.
            let is_answered = !matches!(&outcome, Err(error) if error.is_disconnected());
            inner.running.fetch_add(u64::from(is_answered), Ordering::SeqCst);
            inner.complete(outcome, &counts);
            inner.running.fetch_sub(u64::from(is_answered), Ordering::SeqCst);
        });
        world.complete(session.call(TAG, vec![7]), counters);
    }
}

fn calls_in(
    world: &Arc<World>,
    controller: &InProcessController,
    function: ExecutorAddr,
    counters: &Arc<Counters>,
) {
    for _ in 0..2 * CALLS {
        let (inner, counts) = (Arc::clone(world), Arc::clone(counters));
        controller.call(function, vec![7], move |outcome| {
            inner.complete(outcome, &counts);
        });
    }
}

/// A callback that must run once.
fn telling(world: &Arc<World>) -> impl FnOnce() + Send + use<> {
    let world = Arc::clone(world);
    move || {
        world.told.fetch_add(1, Ordering::SeqCst);
    }
}

fn session_of(world: &Arc<World>, planted: Planted, counters: &Arc<Counters>) -> Session {
    let tasks = Arc::clone(world);
    let options = SessionBuilder::bare(
        move |task| tasks.start(|| task.run()),
        BootstrapInfo::default(),
        |_, _, _, reply| reply.send(Err("no function".to_owned())),
    );
    let fault = match planted {
        Planted::Fault(fault) => Some(fault),
        _ => None,
    };
    let ends = Arc::clone(world);
    let options = options.fault(fault).on_disconnect(move |session, _| {
        assert_eq!(ends.disconnects.fetch_add(1, Ordering::SeqCst), 0, "told twice");
        if thread_rng().gen_bool(0.3) {
            session.shutdown(telling(&ends));
        } else {
            session.detach(telling(&ends));
        }
    });
    let (runs, counts) = (Arc::clone(world), Arc::clone(counters));
    let options = options.function("function", move |session, args, reply| {
        run(&runs, session, &counts, args, reply);
    });
    let options = options.expect("a function").service(Watch::new(world));
    options.build().expect("a session")
}

/// One session, attached at a random moment, and four threads.
fn life(planted: Planted, counters: &Arc<Counters>) {
    count(&counters.schedules);
    let world = Arc::new(World::default());
    let session = session_of(&world, planted, counters);
    let answers = Arc::clone(&world);
    let (access, controller) =
        InProcess::new(move |_, args, reply| answers.answer(reply, Ok(args)));
    if planted == Planted::StrandsCalls {
        access.strands_calls();
    }
    let handle = SessionHandle::clone(&session);
    let attach = thread::spawn(move || match handle.attach(access) {
        Ok(()) => {}
        Err(error) => assert!(error.kind() == ErrorKind::InvalidArgument, "{error}"),
    });
    let mut threads = vec![attach];
    {
        let (world, session, counters) =
            (Arc::clone(&world), session.clone(), Arc::clone(counters));
        threads.push(thread::spawn(move || calls_out(&world, &session, &counters)));
    }
    {
        let (world, counters, controller) =
            (Arc::clone(&world), Arc::clone(counters), controller.clone());
        let function = session.bootstrap_info().symbols().get("function").expect("offered");
        threads.push(thread::spawn(move || calls_in(&world, &controller, function, &counters)));
    }
    {
        let (world, session) = (Arc::clone(&world), session.clone());
        threads.push(thread::spawn(move || {
            (0..thread_rng().gen_range(0..60)).for_each(|_| thread::yield_now());
            match thread_rng().gen_range(0..3) {
                0 => controller.disconnect(),
                1 => controller.abandon(Error::remote("closing")),
                _ => {}
            }
            session.detach(telling(&world));
            session.add_service(Watch::new(&world));
            session.shutdown(telling(&world));
            session.wait();
        }));
    }
    (0..thread_rng().gen_range(0..60)).for_each(|_| thread::yield_now());
    session.shutdown(telling(&world));
    session.wait();
    count(&counters.late);
    session.shutdown(telling(&world));
    drop(session);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    loop {
        let Some(other) = world.others.lock().pop() else { break };
        other.join().expect("no panic");
    }
    assert_eq!(world.completed.load(Ordering::SeqCst), 4 * CALLS, "each call exactly once");
    assert_eq!(world.disconnects.load(Ordering::SeqCst), 1, "the handler exactly once");
    assert_eq!(world.told.load(Ordering::SeqCst), 5, "each callback exactly once");
}

fn explore(name: &str, planted: Planted) {
    let counters = Arc::new(Counters::default());
    let inner = Arc::clone(&counters);
    let mut config = ::shuttle::Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = ::shuttle::FailurePersistence::None;
    let scheduler = RandomScheduler::new_from_seed(11, SCHEDULES);
    ::shuttle::Runner::new(scheduler, config).run(move || life(planted, &inner));
    let [schedules, results, ends, late] =
        [&counters.schedules, &counters.results, &counters.ends, &counters.late]
            .map(|count| count.load(CountOrdering::Relaxed));
    println!(
        "shuttle lives {name}: {schedules} executions ({results} results, {ends} ends, {late} late)"
    );
    assert!(results > 1000 && ends > 1000, "{name}: not all was met");
}

#[test]
fn lives_of_sessions() {
    explore("of sessions", Planted::Nothing);
}

#[test]
#[should_panic(expected = "each callback exactly once")]
fn a_late_callback_that_is_lost_is_found() {
    explore("with a callback lost", Planted::Fault(Fault::LateCallbackWaits));
}

#[test]
#[should_panic(expected = "managed code runs")]
fn a_shutdown_that_does_not_drain_is_found() {
    explore("that do not drain", Planted::Fault(Fault::DoesNotDrain));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_call_that_is_stranded_is_found() {
    explore("with a call stranded", Planted::StrandsCalls);
}
