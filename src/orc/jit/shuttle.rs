//! A session with several threads, in 50,000 schedules of shuttle's:
//!
//! - one thread defines and removes;
//! - one looks up and waits;
//! - one looks up with a callback;
//! - one empties its tracker into another;
//! - each unit and each callback has a thread of its own.
//!
//! Units depend on each other in a circle, and hold memory, all of which must be released at the end.
//!
//! Invariant: the model finds two planted faults: memory that is recorded without the session's lock, and a unit that
//! never answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Count, Ordering as CountOrdering};

use ::shuttle::scheduler::RandomScheduler;
use ::shuttle::thread::{self, JoinHandle};

use super::*;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use crate::task::{Task, TaskDispatcher};
use crate::{ExecutorAddr, error};

const SCHEDULES: usize = 50_000;
/// Each depends on the next.
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Memory is recorded without the lock, under a key that was read before.
    Unlocked,
    /// A unit keeps its responsibility.
    Silent,
}

/// The memory that units hold in the executor.
#[derive(Default)]
struct Memory {
    by_key: Mutex<HashMap<ResourceKey, u64>>,
    live: Count,
}

impl ResourceManager for Memory {
    fn remove_resources(&self, _: &JITDylib, key: ResourceKey) -> error::Result<()> {
        let held = self.by_key.lock().remove(&key);
        self.live.fetch_sub(held.unwrap_or(0), CountOrdering::Relaxed);
        Ok(())
    }

    fn transfer_resources(&self, _: &JITDylib, to: ResourceKey, from: ResourceKey) {
        let mut by_key = self.by_key.lock();
        let held = by_key.remove(&from).unwrap_or(0);
        *by_key.entry(to).or_default() += held;
    }
}

impl Memory {
    fn record(&self, key: ResourceKey) {
        *self.by_key.lock().entry(key).or_default() += 1;
    }
}

struct World {
    session: ExecutionSession,
    dylib: JITDylib,
    memory: Arc<Memory>,
    planted: Planted,
    kept: Mutex<Vec<MaterializationResponsibility>>,
}

/// A thread for each task.
struct Threads(Mutex<Vec<JoinHandle<()>>>);

impl TaskDispatcher for Threads {
    fn dispatch(&self, task: Task) {
        self.0.lock().push(thread::spawn(move || task.run()));
    }

    fn shutdown(&self) {
        loop {
            let Some(task) = self.0.lock().pop() else { break };
            task.join().expect("no panic");
        }
    }
}

/// The outcomes of all schedules together.
#[derive(Default)]
struct Counters {
    schedules: Count,
    found: Count,
    missing: Count,
    failed: Count,
    defunct: Count,
}

fn count(count: &Count) {
    count.fetch_add(1, CountOrdering::Relaxed);
}

fn address(name: &str) -> ExecutorAddr {
    ExecutorAddr::new(u64::from(name.as_bytes()[0]))
}

impl World {
    /// A unit that supplies one of the names.
    fn unit(self: &Arc<Self>, number: usize, counters: &Arc<Counters>) -> Lazily {
        let (world, counters) = (Arc::clone(self), Arc::clone(counters));
        let interface = Interface::exporting([NAMES[number]]);
        Lazily::new(NAMES[number], interface, move |mut responsibility| {
            world.memory.live.fetch_add(1, CountOrdering::Relaxed);
            let (name, next) = (NAMES[number], NAMES[(number + 1) % NAMES.len()]);
            let symbol = Symbol::exported(address(name));
            if let Err(error) = responsibility.notify_resolved(&[(name.into(), symbol)].into()) {
                return world.fail(responsibility, error, &counters);
            }
            if world.planted == Planted::Silent && number == 2 {
                world.memory.live.fetch_sub(1, CountOrdering::Relaxed);
                return world.kept.lock().push(responsibility);
            }
            let order = vec![(world.dylib.clone(), JITDylibLookupFlags::MatchAllSymbols)];
            let names = vec![(Arc::from(next), SymbolLookupFlags::WeaklyReferenced)];
            let session = responsibility.session();
            let callback = move |found| world.emit(responsibility, name, next, found, &counters);
            session.lookup_async(LookupKind::Static, order, names, SymbolState::Resolved, callback);
        })
    }

    fn emit(
        &self,
        responsibility: MaterializationResponsibility,
        name: &str,
        next: &str,
        found: Result<SymbolMap>,
        counters: &Counters,
    ) {
        let found = match found {
            Ok(found) => found,
            Err(error) => return self.fail(responsibility, error, counters),
        };
        let recorded = match self.planted {
            Planted::Unlocked => {
                let key = responsibility.with_resource_key(|key| key);
                thread::yield_now();
                key.map(|key| self.memory.record(key))
            }
            _ => responsibility.with_resource_key(|key| self.memory.record(key)),
        };
        if let Err(error) = recorded {
            return self.fail(responsibility, error, counters);
        }
        let on = found.keys().cloned().inspect(|found| assert_eq!(&**found, next)).collect();
        let dependencies = vec![(self.dylib.clone(), on)];
        let group = DependencyGroup { symbols: vec![Arc::from(name)], dependencies };
        // Recorded memory goes with the tracker if this fails.
        let _ = responsibility.notify_emitted(&[group]);
    }

    fn fail(
        &self,
        responsibility: MaterializationResponsibility,
        error: Error,
        counters: &Counters,
    ) {
        self.memory.live.fetch_sub(1, CountOrdering::Relaxed);
        if error.kind() == ErrorKind::TrackerDefunct {
            count(&counters.defunct);
        }
        responsibility.fail(error);
    }
}

/// Checks that a lookup's result is a possible one.
fn check(found: Result<SymbolMap>, counters: &Counters) {
    match found {
        Ok(found) => {
            assert!(found.iter().all(|(name, symbol)| symbol.address == address(name)));
            count(&counters.found);
        }
        Err(error) if error.kind() == ErrorKind::SymbolsNotFound => count(&counters.missing),
        Err(error) => {
            assert!(error.kind() == ErrorKind::FailedToMaterialize, "{error}");
            count(&counters.failed);
        }
    }
}

fn session(planted: Planted, counters: &Arc<Counters>) {
    count(&counters.schedules);
    let tasks = Arc::new(Threads(Mutex::new(Vec::new())));
    let session = ExecutionSession::with_dispatcher(Arc::clone(&tasks) as Arc<dyn TaskDispatcher>);
    let dylib = session.create_dylib("main").expect("the first");
    let memory = Arc::new(Memory::default());
    session.register_resource_manager(Arc::clone(&memory) as Arc<dyn ResourceManager>);
    let kept = Mutex::new(Vec::new());
    let world = Arc::new(World { session, dylib, memory, planted, kept });
    let told = Arc::new(Count::new(0));

    let threads = [
        thread::spawn({
            let (world, counters) = (Arc::clone(&world), Arc::clone(counters));
            move || {
                for _ in 0..2 {
                    let tracker = world.dylib.create_tracker().expect("a tracker");
                    for number in [0, 1] {
                        // The thread that empties its tracker may have kept the names.
                        let _ = world.dylib.define_with(&tracker, world.unit(number, &counters));
                    }
                    thread::yield_now();
                    tracker.remove().expect("removed");
                }
            }
        }),
        thread::spawn({
            let (world, counters) = (Arc::clone(&world), Arc::clone(counters));
            move || {
                let order = vec![(world.dylib.clone(), JITDylibLookupFlags::MatchAllSymbols)];
                let names =
                    NAMES.map(|name| (Arc::from(name), SymbolLookupFlags::WeaklyReferenced));
                let (kind, ready) = (LookupKind::Static, SymbolState::Ready);
                check(world.session.lookup(kind, order, names.into(), ready), &counters);
            }
        }),
        thread::spawn({
            let (world, counters, told) =
                (Arc::clone(&world), Arc::clone(counters), Arc::clone(&told));
            move || {
                let order = vec![(world.dylib.clone(), JITDylibLookupFlags::MatchAllSymbols)];
                let names = vec![(Arc::from("a"), SymbolLookupFlags::Required)];
                let callback = move |found| {
                    count(&told);
                    check(found, &counters);
                };
                let (kind, ready) = (LookupKind::Static, SymbolState::Ready);
                world.session.lookup_async(kind, order, names, ready, callback);
            }
        }),
        thread::spawn({
            let (world, counters) = (Arc::clone(&world), Arc::clone(counters));
            move || {
                let tracker = world.dylib.create_tracker().expect("a tracker");
                let _ = world.dylib.define_with(&tracker, world.unit(2, &counters));
                thread::yield_now();
                // The symbols move to the default tracker.
                drop(tracker);
            }
        }),
    ];
    for thread in threads {
        thread.join().expect("no panic");
    }
    world.session.end_session().expect("ended");
    tasks.shutdown();
    assert_eq!(told.load(CountOrdering::Relaxed), 1, "a callback is called once");
    assert_eq!(world.memory.live.load(CountOrdering::Relaxed), 0, "memory is left");
}

fn explore(name: &str, planted: Planted) {
    let counters = Arc::new(Counters::default());
    let inner = Arc::clone(&counters);
    let mut config = ::shuttle::Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = ::shuttle::FailurePersistence::None;
    let scheduler = RandomScheduler::new_from_seed(11, SCHEDULES);
    ::shuttle::Runner::new(scheduler, config).run(move || session(planted, &inner));
    let [schedules, found, missing, failed, defunct] = [
        &counters.schedules,
        &counters.found,
        &counters.missing,
        &counters.failed,
        &counters.defunct,
    ]
    .map(|count| count.load(CountOrdering::Relaxed));
    println!(
        "shuttle jit {name}: {schedules} executions ({found} found, {missing} missing, {failed} failed, \
         {defunct} defunct)"
    );
    assert!(found > 100 && missing > 100 && failed > 100 && defunct > 100, "not all was met");
}

#[test]
fn define_lookup_materialize_and_remove_at_once() {
    explore("sessions", Planted::Nothing);
}

#[test]
#[should_panic(expected = "memory is left")]
fn memory_that_is_recorded_without_the_lock_is_found() {
    explore("that record too late", Planted::Unlocked);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_unit_that_never_answers_is_found() {
    explore("with a silent unit", Planted::Silent);
}
