//! Sixteen threads that link, call, replace and remove code of one executor at once.
//!
//! Invariant: a call through the stub that all of them redirect returns what some function that is still there returns; at the
//! end every byte is free again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farcall::controller::{Controller, Launch, ObjectLayer, Redirectable};
use farcall::jit::{ExecutionSession, ResourceTracker};
use farcall::link::ObjectFile;
use farcall::{ExecutorAddr, Prot};
use farcall_bench::{TinyObject, tiny_code};

const THREADS: u64 = 16;
/// As long as removing waits for the calls that may be in what is removed.
const PATIENCE: Duration = Duration::from_secs(10);

struct Churn {
    controller: Controller,
    session: ExecutionSession,
    layer: ObjectLayer,
    shared: Redirectable,
    /// What the stub leads to. Who replaces it removes what was there.
    current: Mutex<Option<ResourceTracker>>,
    rounds: AtomicU64,
}

impl Churn {
    fn new() -> Self {
        let launch = Launch::new().program(env!("CARGO_BIN_EXE_farcall"));
        let controller = launch.start().expect("an executor");
        let session = ExecutionSession::new();
        session.set_error_reporter(|error| panic!("{error}"));
        let layer = ObjectLayer::new(&session, &controller);
        let shared = controller.create_redirectable(ExecutorAddr::NULL).expect("a stub");
        let (current, rounds) = (Mutex::default(), AtomicU64::new(0));
        Self { controller, session, layer, shared, current, rounds }
    }

    /// What one thread does until the time is up.
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

            // The last one is neither lost nor removed twice: both happen under the lock.
            let mut current = self.current.lock().expect("no panic");
            self.shared.redirect(function).expect("replaced");
            let replaced = current.replace(tracker);
            drop(current);
            let found = self.call(self.shared.address());
            assert!(found >> 32 < THREADS && found & 0xffff_ffff > 0, "{found:#x}");

            assert!(self.controller.calls_under_way().wait(PATIENCE), "calls of constants return");
            if let Some(tracker) = replaced {
                tracker.remove().expect("removed");
            }
        }
        self.rounds.fetch_add(round, Ordering::Relaxed);
    }

    fn call(&self, function: ExecutorAddr) -> u64 {
        let result = self.controller.call(function, &[]).expect("a result");
        u64::from_le_bytes(result.try_into().expect("eight bytes"))
    }

    /// Where the next memory of each protection would be.
    fn next(&self) -> [ExecutorAddr; 3] {
        let memory = self.controller.allocate([1; 3]).expect("memory");
        Prot::ALL.map(|prot| memory.range(prot).start)
    }
}

fn churn(duration: Duration) -> u64 {
    let churn = Churn::new();
    let base = churn.next();
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
    assert_eq!(churn.next(), base, "something was left");
    churn.session.end_session().expect("ended");
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
