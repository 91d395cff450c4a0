//! Lives of sessions, in a hundred thousand orders that shuttle makes up.
//!
//! Four threads call in both directions, detach, shut down and disconnect one session at any moment, add services and wait for
//! its end; callbacks come early and late, and functions and handlers answer at once or later. All of it is the code that
//! runs, tasks have threads of their own. Whoever waits for ever is what shuttle calls a deadlock.
//!
//! Invariant: each model is also run with a fault, which is found.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Count, Ordering as CountOrdering};

use ::shuttle::rand::{Rng, thread_rng};
use ::shuttle::scheduler::RandomScheduler;
use ::shuttle::thread::{self, JoinHandle};

use super::builder::Fault;
use super::{
    Answer, BootstrapInfo, Done, InProcess, InProcessController, Reply, Service, Session,
    SessionBuilder, SessionHandle,
};
use crate::ExecutorAddr;
use crate::error::{Error, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

const SCHEDULES: usize = 100_000;
/// Calls that one thread makes, of each kind.
const CALLS: u64 = 2;
/// The tag of the handler.
const TAG: u64 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// In the session.
    Fault(Fault),
    /// In the access: a call that comes too late is not refused.
    StrandsCalls,
}

/// What was met in all schedules together.
#[derive(Default)]
struct Tally {
    schedules: Count,
    results: Count,
    ends: Count,
    late: Count,
}

/// What happens to one session.
#[derive(Default)]
struct World {
    /// Spans of managed code that run.
    running: AtomicU64,
    /// Callbacks of detach and shutdown that have run.
    told: AtomicU64,
    /// How often the handler of the disconnect ran.
    disconnects: AtomicU64,
    /// Calls that have completed.
    completed: AtomicU64,
    /// Tasks, and answers that come later.
    others: Mutex<Vec<JoinHandle<()>>>,
}

fn count(count: &Count) {
    count.fetch_add(1, CountOrdering::Relaxed);
}

impl World {
    fn start(&self, work: impl FnOnce() + Send + 'static) {
        self.others.lock().push(thread::spawn(work));
    }

    /// Answers now, or on another thread, or not at all.
    fn answer(&self, reply: Reply, answer: Answer) {
        match thread_rng().gen_range(0..4) {
            0 => self.start(move || reply.send(answer)),
            1 => drop(reply),
            _ => reply.send(answer),
        }
    }

    fn complete(&self, outcome: Result<Vec<u8>>, tally: &Tally) {
        self.completed.fetch_add(1, Ordering::SeqCst);
        match outcome {
            Ok(bytes) => {
                assert_eq!(bytes, [7]);
                count(&tally.results);
            }
            Err(error) if error.is_remote() => {}
            Err(error) => {
                assert!(error.is_disconnected(), "{error}");
                count(&tally.ends);
            }
        }
    }
}

/// A service that is told each stage once, in order, and that managed code relies on.
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

/// Runs a function of the controller's choice.
fn run(world: &World, session: &SessionHandle, tally: &Tally, args: Vec<u8>, reply: Reply) {
    world.running.fetch_add(1, Ordering::SeqCst);
    thread::yield_now();
    if thread_rng().gen_bool(0.3) {
        // Nested: this thread waits, the controller's handler answers.
        let outcome = session.call(TAG, args.clone());
        world.complete(outcome, tally);
        world.completed.fetch_sub(1, Ordering::SeqCst);
    }
    world.answer(reply, Ok(args));
    world.running.fetch_sub(1, Ordering::SeqCst);
}

fn calls_out(world: &Arc<World>, session: &SessionHandle, tally: &Arc<Tally>) {
    for _ in 0..CALLS {
        let (inner, counts) = (Arc::clone(world), Arc::clone(tally));
        session.call_controller(TAG, vec![7], move |outcome| {
            // A call that is refused completes on the thread that makes it, and holds nothing up.
            let is_answered = !matches!(&outcome, Err(error) if error.is_disconnected());
            inner.running.fetch_add(u64::from(is_answered), Ordering::SeqCst);
            inner.complete(outcome, &counts);
            inner.running.fetch_sub(u64::from(is_answered), Ordering::SeqCst);
        });
        world.complete(session.call(TAG, vec![7]), tally);
    }
}

fn calls_in(
    world: &Arc<World>,
    controller: &InProcessController,
    function: ExecutorAddr,
    tally: &Arc<Tally>,
) {
    for _ in 0..2 * CALLS {
        let (inner, counts) = (Arc::clone(world), Arc::clone(tally));
        controller.call(function, vec![7], move |outcome| {
            inner.complete(outcome, &counts);
        });
    }
}

/// A callback that has to run once.
fn telling(world: &Arc<World>) -> impl FnOnce() + Send + use<> {
    let world = Arc::clone(world);
    move || {
        world.told.fetch_add(1, Ordering::SeqCst);
    }
}

fn session_of(world: &Arc<World>, planted: Planted, tally: &Arc<Tally>) -> Session {
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
    let (runs, counts) = (Arc::clone(world), Arc::clone(tally));
    let options = options.function("function", move |session, args, reply| {
        run(&runs, session, &counts, args, reply);
    });
    let options = options.expect("a function").service(Watch::new(world));
    options.build().expect("a session")
}

/// One session, attached at some moment, and four threads.
fn life(planted: Planted, tally: &Arc<Tally>) {
    count(&tally.schedules);
    let world = Arc::new(World::default());
    let session = session_of(&world, planted, tally);
    let answers = Arc::clone(&world);
    let (access, controller) =
        InProcess::new(move |_, args, reply| answers.answer(reply, Ok(args)));
    if planted == Planted::StrandsCalls {
        access.strands_calls();
    }
    let handle = SessionHandle::clone(&session);
    let attach = thread::spawn(move || match handle.attach(access) {
        Ok(()) => {}
        Err(error) => assert!(error.is_invalid_argument(), "{error}"),
    });
    let mut threads = vec![attach];
    {
        let (world, session, tally) = (Arc::clone(&world), session.clone(), Arc::clone(tally));
        threads.push(thread::spawn(move || calls_out(&world, &session, &tally)));
    }
    {
        let (world, tally, controller) =
            (Arc::clone(&world), Arc::clone(tally), controller.clone());
        let function = session.bootstrap_info().symbols().get("function").expect("offered");
        threads.push(thread::spawn(move || calls_in(&world, &controller, function, &tally)));
    }
    {
        let (world, session) = (Arc::clone(&world), session.clone());
        threads.push(thread::spawn(move || {
            (0..thread_rng().gen_range(0..60)).for_each(|_| thread::yield_now());
            match thread_rng().gen_range(0..3) {
                0 => controller.disconnect(),
                1 => controller.abandon(Error::remote("tired")),
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
    count(&tally.late);
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
    let tally = Arc::new(Tally::default());
    let inner = Arc::clone(&tally);
    let mut config = ::shuttle::Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = ::shuttle::FailurePersistence::None;
    let scheduler = RandomScheduler::new_from_seed(11, SCHEDULES);
    ::shuttle::Runner::new(scheduler, config).run(move || life(planted, &inner));
    let [schedules, results, ends, late] =
        [&tally.schedules, &tally.results, &tally.ends, &tally.late]
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
