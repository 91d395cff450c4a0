//! Many calls under a load that changes every 10 ms: is a wake-up ever lost?
//!
//! Busy loops start and stop, and both sides move between the CPUs, while a thread calls. It pauses now and then, so that the
//! executor falls asleep and has to be woken.
//!
//! Invariant: a call that does not return within 2 s ends the soak with an error.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, gettid};
use serde::Serialize;

use crate::contest::Progress;
use crate::machine::cpus::{pin_process, pin_to};
use crate::processes::busy_loop::BusyLoops;
use crate::{Callee, Contender, CpuPair, Result};

/// The load changes after this time.
const LOAD: Duration = Duration::from_millis(10);
/// A call that takes longer has lost a wake-up.
const CALL_MAX: Duration = Duration::from_secs(2);
/// Busy loops on each CPU at most.
const LOOPS: usize = 3;
/// A pause comes after one of this many calls.
const CALLS_PER_PAUSE: u64 = 512;
/// The longest pause. A waiter polls for 50 us before it sleeps.
const PAUSE_MAX: Duration = Duration::from_micros(200);

/// Calls under a load that changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Soak {
    /// The CPUs of the two sides, at the start.
    pub cpus: CpuPair,
    /// The number of calls.
    pub calls: u64,
}

/// The findings of a soak; its existence says that no wake-up was lost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Soaked {
    /// The calls that have returned.
    pub calls: u64,
    /// Their time.
    pub elapsed_s: f64,
    /// The loads, one after the other.
    pub loads: u64,
    /// The longest call in milliseconds.
    pub longest_ms: f64,
    /// True if the soak was interrupted.
    pub is_partial: bool,
}

/// The messages of the calling thread.
#[derive(Debug, Default)]
struct Count {
    calls: AtomicU64,
    longest_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Soak {
    /// Makes the calls. An interrupt ends them early.
    ///
    /// # Errors
    /// A call that does not return within 2 s, or fails; a process that cannot be made.
    pub fn run(self, progress: &mut Progress<'_>) -> Result<Soaked> {
        self.cpus.check()?;
        let callee = Callee::start(self.cpus)?;
        let executor = callee.process().pid().try_into()?;
        let call = callee.null_call();
        let count = Arc::new(Count::default());
        let CpuPair { caller, server } = self.cpus;
        let loops = BusyLoops::start(&[[Some(caller); LOOPS], [Some(server); LOOPS]].concat())?;
        let (ready, thread_id) = channel();
        let counted = Arc::clone(&count);
        let calls = self.calls;
        let thread = thread::Builder::new().name("soak".to_owned()).spawn(move || {
            // Fails if the other side is gone, which has an error of its own then.
            let _ = ready.send(gettid());
            let done = make(call, calls, &counted);
            counted.is_over.store(true, Ordering::Release);
            done
        })?;
        let thread_id = thread_id.recv()?;
        let start = Instant::now();
        let mut loads = 0;
        let is_partial = watch(&count, progress, self.calls, || {
            change(loads, self.cpus, &loops, thread_id, executor)?;
            loads += 1;
            Ok(())
        })?;
        let done = thread.join().map_err(|_| "the calling thread panicked")?;
        done?;
        Ok(Soaked {
            calls: count.calls.load(Ordering::Relaxed),
            elapsed_s: start.elapsed().as_secs_f64(),
            loads,
            longest_ms: count.longest_ns.load(Ordering::Relaxed) as f64 / 1e6,
            is_partial,
        })
    }
}

/// Changes the load until the calls are over; true if an interrupt ended them.
///
/// # Errors
/// When no call returns for [`CALL_MAX`].
fn watch(
    count: &Count,
    progress: &mut Progress<'_>,
    calls: u64,
    mut change: impl FnMut() -> Result<()>,
) -> Result<bool> {
    let (mut last, mut since, mut is_partial) = (0, Instant::now(), false);
    while !count.is_over.load(Ordering::Acquire) {
        change()?;
        thread::sleep(LOAD);
        let now = count.calls.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > CALL_MAX {
            return Err(format!(
                "call {} has not returned in {CALL_MAX:?}: a lost wake-up after {now} calls",
                now + 1
            )
            .into());
        }
        if progress("soak", now as f64 / calls.max(1) as f64).is_break() {
            is_partial = true;
            count.is_over.store(true, Ordering::Release);
        }
    }
    Ok(is_partial)
}

/// Makes calls until there are enough, or the soak is over.
fn make(mut call: impl Contender, calls: u64, count: &Count) -> Result<()> {
    for number in 1..=calls {
        let start = Instant::now();
        call.call()?;
        let took = u64::try_from(start.elapsed().as_nanos())?;
        count.longest_ns.fetch_max(took, Ordering::Relaxed);
        count.calls.store(number, Ordering::Relaxed);
        let draw = drawn(number);
        if draw.is_multiple_of(CALLS_PER_PAUSE) {
            let part = (draw >> 32) as f64 / f64::from(u32::MAX);
            thread::sleep(PAUSE_MAX.mul_f64(part));
        }
        if count.is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// Makes load `number`: some of the loops run, and each side may use one CPU, the other one, or both.
fn change(number: u64, cpus: CpuPair, loops: &BusyLoops, caller: Pid, executor: u32) -> Result<()> {
    let draw = drawn(number);
    // On the average a third of the loops; a third of the loads have none.
    let busy = if draw.is_multiple_of(3) { 0 } else { (draw >> 8) & (draw >> 16) };
    for index in 0..loops.len() {
        loops.set_running(index, busy >> index & 1 == 1)?;
    }
    let of = |draw: u64| match draw % 4 {
        0 => vec![cpus.caller],
        1 => vec![cpus.server],
        _ => vec![cpus.caller, cpus.server],
    };
    pin_to(caller, &of(draw >> 32))?;
    pin_process(executor, &of(draw >> 40))
}

/// A number that depends on `seed` alone, as good as a random one.
fn drawn(seed: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    hasher.finish()
}

impl Soaked {
    /// The figures as one JSON object on one line, without a final newline.
    ///
    /// # Errors
    /// None is known; the writer of the library could fail.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Soaked { calls, elapsed_s, loads, longest_ms, is_partial } = self;
        let end =
            if *is_partial { "interrupted; no lost wake-up so far" } else { "no lost wake-up" };
        write!(
            f,
            "soak     {calls} calls in {elapsed_s:.1} s under {loads} loads; the longest took {longest_ms:.1} ms; {end}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    struct Hanging;

    impl Contender for Hanging {
        fn name(&self) -> &str {
            "hanging"
        }
        fn call(&mut self) -> Result<()> {
            thread::sleep(Duration::from_secs(3600));
            Ok(())
        }
    }

    #[test]
    fn a_call_that_does_not_return_is_a_lost_wake_up() {
        let count = Arc::new(Count::default());
        let counted = Arc::clone(&count);
        thread::spawn(move || make(Hanging, 10, &counted).map_err(|error| error.to_string()));
        let ended = watch(&count, &mut |_, _| ControlFlow::Continue(()), 10, || Ok(()));
        let error = ended.unwrap_err().to_string();
        assert_eq!(error, "call 1 has not returned in 2s: a lost wake-up after 0 calls");
    }

    #[test]
    fn an_interrupt_ends_a_soak_and_is_said() {
        let count = Count::default();
        assert!(watch(&count, &mut |_, _| ControlFlow::Break(()), 10, || Ok(())).unwrap());
        let mut soaked =
            Soaked { calls: 5, elapsed_s: 1.0, loads: 3, longest_ms: 2.0, is_partial: false };
        assert!(soaked.to_string().ends_with("2.0 ms; no lost wake-up"), "{soaked}");
        soaked.is_partial = true;
        assert!(soaked.to_string().ends_with("interrupted; no lost wake-up so far"), "{soaked}");
    }
}
