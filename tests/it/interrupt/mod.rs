//! Calls that are ended while their process lives on.
//!
//! Invariant: an interrupted call has time enough to end on a loaded machine, so no test depends on how long that takes.

mod cancelled;
mod confined;
mod errors;
mod exact;
mod exceptions;
mod kinds;
mod many;
mod nested;
mod programs;
mod refused;
mod runtimes;
mod wrappers;

use std::path::Path;
use std::thread;
use std::time::Duration;

use farcall::controller::{CallOptions, Executor, Library, OnDeadline, RestartPolicy};
use farcall::link::ObjectFile;
use farcall::{Error, ErrorKind};

use crate::testkit::corpus::{self, Build, PLAIN};
use crate::testkit::launch;

/// Far more than an interrupt takes.
const GRACE: Duration = Duration::from_secs(20);

/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(5);

/// An executor with objects of `tests/sources/interrupt`.
struct Session {
    executor: Executor,
    library: Library,
}

type Count = extern "C" fn() -> i64;
type Run = extern "C" fn(i64);

impl Session {
    fn start(source: &str) -> Self {
        Self::of(launch::executor(), source, PLAIN)
    }

    fn supervised(source: &str, policy: RestartPolicy) -> Self {
        Self::of(launch::builder().restart(policy).start().expect("an executor"), source, PLAIN)
    }

    fn of(executor: Executor, source: &str, build: Build<'_>) -> Self {
        let library = executor.library("interrupt");
        let session = Self { executor, library };
        session.add(source, build);
        session
    }

    /// A session without objects.
    fn empty() -> Self {
        let executor = launch::executor();
        let library = executor.library("interrupt");
        Self { executor, library }
    }

    fn add(&self, source: &str, build: Build<'_>) {
        let path = corpus::object(&format!("interrupt/{source}"), build);
        let name = Path::new(source).with_extension("o").display().to_string();
        let bytes = std::fs::read(path).expect("just compiled");
        let object = ObjectFile::parse(name, bytes).expect("an object");
        self.library.add_object(&object).expect("added");
    }

    fn pid(&self) -> i32 {
        self.executor.process().expect("a process").pid()
    }

    /// The result of a function without arguments.
    fn number(&self, function: &str) -> i64 {
        self.library.function::<Count>(function).call(()).expect("it returns")
    }

    /// The error of a function that is ended as these options say.
    fn ended(&self, function: &str, options: &CallOptions<'_>) -> Error {
        let function = self.library.function::<extern "C" fn()>(function).bind().expect("linked");
        function.call_with(options, ()).expect_err("it has no end")
    }

    /// Returns the result of `call`, while another thread interrupts all calls again and again.
    fn interrupt_all_until<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| {
            let caller = scope.spawn(call);
            while !caller.is_finished() {
                self.executor.interrupt_all(GRACE).expect("sent");
                thread::sleep(PAUSE);
            }
            caller.join().expect("no panic")
        })
    }

    /// Interrupts a function after a moment.
    fn interrupt(&self, function: &str) -> Error {
        let error = self.ended(function, &options(1));
        assert_eq!(error.kind(), ErrorKind::Interrupted, "{function}: {error}");
        error
    }
}

/// A call that is interrupted after this many milliseconds. It is never abandoned: a failure is a death.
fn options(ms: u64) -> CallOptions<'static> {
    let options = CallOptions::new().timeout(Duration::from_millis(ms)).grace(GRACE);
    options.on_deadline(OnDeadline::InterruptOrKill)
}
