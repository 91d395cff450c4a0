//! The kinds of code, each in an executor of its own, and the checks behind an interrupt.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use farcall::controller::{
    CallOptions, Executor, ExecutorBuilder, Function, Library, OnDeadline, RestartPolicy,
};
use farcall::{Error, ErrorKind};
use farcall_bench::Result;

use crate::held::Held;
use crate::sources;

/// The grace time of code that can be interrupted: a busy machine may need some of it.
const LONG: Duration = Duration::from_secs(5);
/// The calls until one has come so far in time as it should.
const TRIES_MAX: usize = 1000;
/// The grace time of code that is killed, as without an option.
const GRACE: Duration = Duration::from_millis(10);

/// A kind of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The function with this number in `kinds.cpp`.
    Cpp(i64, &'static str),
    /// It cannot be interrupted, so its process is killed.
    Killed(i64, &'static str),
    /// `drops.rs`.
    Rust,
    /// A loop that a handler of the host calls, which linked code waits for.
    Nested,
}

impl Kind {
    pub(crate) const ALL: [Self; 13] = [
        Self::Cpp(0, "endless loop"),
        Self::Cpp(1, "deep recursion"),
        Self::Cpp(2, "`malloc` and `free`"),
        Self::Cpp(3, "`fprintf` to a file"),
        Self::Cpp(4, "`memcpy` of 1 GiB"),
        Self::Cpp(5, "`sleep`"),
        Self::Cpp(6, "`read` of an empty pipe"),
        Self::Cpp(7, "futex wait"),
        Self::Cpp(8, "C++ that throws and catches"),
        Self::Cpp(9, "C++ strings"),
        Self::Rust,
        Self::Nested,
        Self::Killed(10, "blocks all signals: killed"),
    ];

    /// The memory that the code fills over many calls.
    pub(crate) fn buffer_kib(self) -> u64 {
        if matches!(self, Self::Cpp(4, _)) { 1 << 20 } else { 0 }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cpp(_, name) | Self::Killed(_, name) => name,
            Self::Rust => "Rust with guards",
            Self::Nested => "loop in a handler's call",
        }
    }
}

type Run = extern "C" fn(i64);
type Loop = extern "C" fn();
type Number = extern "C" fn() -> i64;
type Outer = extern "C" fn(i64) -> i64;

/// How a call has ended.
pub(crate) struct Ended {
    /// From its deadline to the caller's error.
    pub(crate) late: Duration,
    pub(crate) cleanups_skipped: u64,
}

/// An executor with one kind of code.
pub(crate) struct Session {
    pub(crate) kind: Kind,
    executor: Executor,
    kinds: Library,
    other: Library,
    /// The calls of the function that counts them, in the present process.
    counted: Cell<i64>,
    /// The time and the outcome of the call that the handler made last.
    inner: Arc<Inner>,
    functions: OnceCell<Functions>,
}

struct Functions {
    run: Function<Run>,
    check: Function<Number>,
    count: Function<Number>,
    begun: Function<Number>,
    cleaned: Function<Number>,
}

#[derive(Default)]
struct Inner {
    timeout_us: AtomicU64,
    ended: Mutex<Option<(Duration, farcall::Result<()>)>>,
}

impl Session {
    pub(crate) fn start(kind: Kind, is_checked: bool) -> Result<Self> {
        let mut builder = ExecutorBuilder::new().this_program();
        if is_checked {
            builder = builder.env("LD_PRELOAD", "libc_malloc_debug.so.0").env("MALLOC_CHECK_", "3");
        }
        if matches!(kind, Kind::Killed(..)) {
            builder = builder.restart(RestartPolicy::new());
        }
        let executor = builder.start()?;
        let [kinds, other] = ["kinds", "other"].map(|name| executor.library(name));
        kinds.add_object(&sources::object("kinds.cpp", "-DCOPY_BYTES=(1 << 30)")?)?;
        let inner = Arc::<Inner>::default();
        match kind {
            Kind::Rust => other.add_archive(&sources::archive("drops.rs")?)?,
            Kind::Nested => define_nested(&executor, &other, &inner)?,
            Kind::Cpp(..) | Kind::Killed(..) => {}
        }
        let (counted, functions) = (Cell::new(0), OnceCell::new());
        Ok(Self { kind, executor, kinds, other, counted, inner, functions })
    }

    /// Makes one call, which ends at its deadline.
    pub(crate) fn interrupt(&self, timeout: Duration) -> Result<Ended> {
        let options = options(timeout);
        let begun = Instant::now();
        let (late, outcome) = match self.kind {
            Kind::Cpp(number, _) => {
                let outcome = self.functions()?.run.call_with(&options.grace(LONG), (number,));
                (begun.elapsed().saturating_sub(timeout), outcome)
            }
            Kind::Killed(number, _) => self.kill(number, timeout)?,
            Kind::Rust => {
                let run = self.other.function::<Loop>("run");
                let outcome = run.call_with(&options.grace(LONG), ());
                (begun.elapsed().saturating_sub(timeout), outcome)
            }
            Kind::Nested => self.interrupt_inside(timeout)?,
        };
        let error = outcome.err().ok_or("it has returned")?;
        let told = error.interruption();
        match self.kind {
            Kind::Killed(..) => {
                let is_named = error.to_string().contains("did not return in time");
                if error.death().is_none() || !is_named {
                    return Err(format!("not killed: {error}").into());
                }
                // The next process.
                self.counted.set(0);
            }
            _ if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        Ok(Ended { late, cleanups_skipped: told.map_or(0, |told| told.cleanups_skipped) })
    }

    /// Makes a call that blocks the signal. A call that has not come so far is interrupted, and is made again.
    fn kill(&self, number: i64, timeout: Duration) -> Result<(Duration, farcall::Result<()>)> {
        let options = options(timeout).grace(GRACE);
        for _ in 0..TRIES_MAX {
            let begun = Instant::now();
            let outcome = self.functions()?.run.call_with(&options, (number,));
            let late = begun.elapsed().saturating_sub(timeout);
            if !matches!(&outcome, Err(error) if error.kind() == ErrorKind::Interrupted) {
                return Ok((late, outcome));
            }
        }
        Err("each call is interrupted".into())
    }

    /// The call that a handler makes ends, and the call that waits for the handler returns.
    fn interrupt_inside(&self, timeout: Duration) -> Result<(Duration, farcall::Result<()>)> {
        let us = u64::try_from(timeout.as_micros())?;
        self.inner.timeout_us.store(us, Ordering::Relaxed);
        for _ in 0..TRIES_MAX {
            let answer = self.other.function::<Outer>("outer").call((7,));
            let ended = self.inner.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
            if !matches!(answer, Ok(1014)) {
                return Err(format!("the outer call: {answer:?}; the inner one: {ended:?}").into());
            }
            let ended = ended.ok_or("the handler was not called")?;
            // The code has thread-locals, so each call of the handler opens a lane, whose call may not have begun by then.
            let told = ended.1.as_ref().err().map(ToString::to_string).unwrap_or_default();
            if !told.contains("opening a lane") {
                return Ok(ended);
            }
        }
        Err("no lane is opened in time".into())
    }

    /// Checks that the next calls are right, and that nothing of the process is damaged. `skipped` are the functions that were left without
    /// their cleanups so far.
    pub(crate) fn check(&self, skipped: u64) -> Result<()> {
        let functions = self.functions()?;
        let count = functions.count.call(())?;
        self.counted.set(self.counted.get() + 1);
        if count != self.counted.get() {
            return Err(format!("call {} is told that it is {count}", self.counted.get()).into());
        }
        let part = functions.check.call(())?;
        if part != 0 {
            return Err(format!("part {part} is damaged").into());
        }
        let (begun, cleaned) = (functions.begun.call(())?, functions.cleaned.call(())?);
        let missing = u64::try_from(begun - cleaned).unwrap_or(u64::MAX);
        if missing > skipped {
            return Err(format!("{cleaned} of {begun} cleanups were run, {skipped} skipped").into());
        }
        if self.kind == Kind::Rust {
            let order = self.other.function::<Number>("take_order").call(())?;
            // A call that ends before its loop has fewer guards.
            if ![0, 4, 34, 234].contains(&order) && skipped == 0 {
                return Err(format!("guards were dropped in the order {order}").into());
            }
        }
        Ok(())
    }

    /// The resources of the present process.
    pub(crate) fn held(&self) -> Result<Held> {
        Held::of(&self.executor.process()?.pid().to_string())
    }

    fn functions(&self) -> Result<&Functions> {
        if self.functions.get().is_none() {
            let number = |name: &str| self.kinds.function::<Number>(name);
            let functions = Functions {
                run: self.kinds.function("run"),
                check: number("check"),
                count: number("count"),
                begun: number("cleanups_begun"),
                cleaned: number("cleanups_run"),
            };
            // It was empty.
            let _ = self.functions.set(functions);
        }
        Ok(self.functions.get().ok_or("no functions")?)
    }
}

fn options(timeout: Duration) -> CallOptions<'static> {
    CallOptions::new().timeout(timeout).on_deadline(OnDeadline::InterruptOrKill)
}

/// A function that asks the host, whose handler makes the call that is to end.
fn define_nested(executor: &Executor, library: &Library, inner: &Arc<Inner>) -> Result<()> {
    library.add_object(&sources::object("loops.c", "-O2")?)?;
    let spin = library.lookup("spin")?;
    let weak = executor.process()?.downgrade();
    let inner = Arc::clone(inner);
    let ask = move |question: i64| -> std::result::Result<i64, Error> {
        let process = weak.upgrade().ok_or_else(|| Error::other("the session is over"))?;
        let timeout = Duration::from_micros(inner.timeout_us.load(Ordering::Relaxed));
        let spin = process.function::<Loop>(spin);
        let begun = Instant::now();
        let outcome = spin.call_with(&options(timeout).grace(LONG), ());
        let late = begun.elapsed().saturating_sub(timeout);
        *inner.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some((late, outcome));
        Ok(2 * question)
    };
    library.define_handler("ask", ask)?;
    Ok(library.add_object(&sources::object("nested.c", "-O2")?)?)
}
