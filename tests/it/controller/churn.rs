//! Sixteen threads that link, call, replace and remove code of one executor at once.
//!
//! Invariant: a call through the stub that all threads redirect returns the number of a function that is not removed. At the
//! end every byte is free again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use farcall::ExecutorAddr;
use farcall::controller::Process;
use farcall::controller::hotswap::Redirectable;
use farcall::link::ObjectFile;
use farcall::orc::ObjectLayer;
use farcall::orc::{ExecutionSession, JITDylib, ResourceTracker};
use farcall::task::{TaskDispatcher, ThreadPool};
use farcall_bench::{TinyObject, tiny_code};

use crate::jit::objects::object;
use crate::testkit::held::next;
use crate::testkit::launch;

const THREADS: u64 = 16;
/// One in this many rounds has objects that refer to each other.
const CIRCLE: u64 = 8;

struct Churn {
    process: Process,
    pool: Arc<ThreadPool>,
    session: ExecutionSession,
    layer: ObjectLayer,
    shared: Redirectable,
    /// The code that the stub leads to. The thread that redirects it hands this over, to be removed when no call is in it.
    current: Mutex<Option<ResourceTracker>>,
    /// They refer to each other.
    parts: [ObjectFile; 4],
    rounds: AtomicU64,
}

impl Churn {
    fn new() -> Self {
        let launch = launch::builder();
        let process = launch.start().expect("an executor").process().expect("an executor");
        let pool = Arc::new(ThreadPool::new(2));
        let tasks = Arc::clone(&pool) as Arc<dyn TaskDispatcher>;
        let session = ExecutionSession::with_dispatcher(tasks);
        session.set_error_reporter(|error| panic!("{error}"));
        let layer = ObjectLayer::new(&session, &process);
        let shared = process.create_redirectable(ExecutorAddr::NULL).expect("a stub");
        let parts = [1, 2, 11, 12].map(object);
        let (current, rounds) = (Mutex::default(), AtomicU64::new(0));
        Self { process, pool, session, layer, shared, current, parts, rounds }
    }

    /// The work of one thread until the time is up.
    fn run(&self, thread: u64, until: Instant) {
        let dylib = self.session.create_dylib(format!("thread {thread}")).expect("another");
        let mut round = 0;
        while Instant::now() < until {
            round += 1;
            let value = thread << 32 | round;
            let name = format!("f{round}");
            let object = TinyObject::new().function(&name, &tiny_code::constant(value));
            let object = ObjectFile::parse("f.o", object.unwound().bytes()).expect("an object");
            let tracker = dylib.create_tracker().expect("a tracker");
            self.layer.add(&tracker, &object).expect("added");
            let function = dylib.lookup(&name).expect("linked").address;
            assert_eq!(self.call(function), value);

            // The last one is neither lost nor handed over twice: both happen under the lock.
            let mut current = self.current.lock().expect("no panic");
            match current.replace(tracker) {
                Some(old) => self.shared.redirect_and_remove(function, old),
                None => self.shared.redirect(function),
            }
            .expect("replaced");
            drop(current);
            let found = self.call(self.shared.address());
            assert!(found >> 32 < THREADS && found & 0xffff_ffff > 0, "{found:#x}");
            if round % CIRCLE == 1 {
                self.link_circle(&dylib, round);
            }
        }
        self.rounds.fetch_add(round, Ordering::Relaxed);
    }

    /// Links objects that refer to each other, calls them, and removes them one by one.
    fn link_circle(&self, dylib: &JITDylib, round: u64) {
        let trackers = [(); 4].map(|()| dylib.create_tracker().expect("a tracker"));
        for (tracker, part) in trackers.iter().zip(&self.parts) {
            self.layer.add(tracker, part).expect("added");
        }
        let call = |name: &str, argument| {
            let address = dylib.lookup(name).expect("found").address;
            let function = self.process.function::<extern "C" fn(i32) -> i32>(address);
            function.call((argument,)).expect("a result")
        };
        let argument = i32::try_from(round % 100).expect("small");
        assert_eq!(call("even", argument), 1 - argument % 2);
        assert_eq!(call("twice", 0), 84);
        trackers.iter().for_each(|tracker| tracker.remove().expect("removed"));
    }

    fn call(&self, function: ExecutorAddr) -> u64 {
        let result = self.process.call(function, &[]).expect("a result");
        u64::from_le_bytes(result.try_into().expect("eight bytes"))
    }
}

fn churn(duration: Duration) -> u64 {
    let churn = Churn::new();
    let base = next(&churn.process);
    let until = Instant::now() + duration;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let churn = &churn;
            scope.spawn(move || churn.run(thread, until));
        }
    });
    if let Some(tracker) = churn.current.lock().expect("no panic").take() {
        tracker.remove().expect("removed");
    }
    assert_eq!(churn.process.remove_unused().expect("nothing failed"), 0, "no call is left");
    assert_eq!(next(&churn.process), base, "something was left");
    churn.session.end_session().expect("ended");
    churn.pool.shutdown();
    churn.rounds.into_inner()
}

#[test]
fn many_threads_link_call_replace_and_remove_at_once() {
    assert!(churn(Duration::from_secs(1)) >= THREADS);
}

#[test]
#[ignore = "a minute: .ci/run runs it"]
fn soak_many_threads_link_call_replace_and_remove_at_once() {
    let duration = Duration::from_mins(1);
    let rounds = churn(duration);
    println!("soak: {rounds} functions linked, called, replaced and removed by {THREADS} threads");
    assert!(rounds > 1_000);
}
