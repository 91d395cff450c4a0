//! The requests of the controller to interrupt calls, as the acceptor's thread keeps them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::native;
use crate::error::Result;
use crate::executor::entry::unwind_boundary::served_calls::ServedCalls;
use crate::executor::process::eh_frame;
use crate::sync::Mutex;

/// A look at a thread follows the one before by this part of the time since the request. So a thread that cannot leave costs little. The
/// controller needs a CPU as well, and a machine may have few.
const INTERVAL_PART: u32 = 16;
/// Most threads leave their calls at the first look, and a second signal would make them slower.
const INTERVAL_FIRST: Duration = Duration::from_micros(20);
/// A thread that is still there may be in a function that it leaves without cleanups only behind several looks. It runs for this time
/// between two of them.
const INTERVAL_MIN: Duration = Duration::from_micros(5);
const INTERVAL_MAX: Duration = Duration::from_millis(1);
/// A look that is due within this time is polled for: a sleep would take longer.
const POLL_MAX: Duration = Duration::from_micros(20);
/// A look takes some microseconds. If it has not ended in this time, its thread waits for a CPU, perhaps for the polling thread's CPU.
const LOOK_MAX: Duration = Duration::from_micros(50);
/// Between two reads of the clock this long apart, another thread had the CPU.
const GAP_MIN: Duration = Duration::from_micros(50);
/// Behind such a gap no look is polled for in this time. A thread that polls beside others uses its share of the CPU up, and requests would
/// wait for it.
const CONTENDED: Duration = Duration::from_secs(1);

/// The lanes and pipelines that are served, and the requests to interrupt calls on them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// By the number of the lane or pipeline.
    served: Mutex<HashMap<u64, Service>>,
    pending: Mutex<Vec<Pending>>,
    /// No look is polled for until then; `None` if no other thread has had the CPU meanwhile.
    contended_until: Mutex<Option<Instant>>,
}

/// A lane or pipeline, for which the controller may have requests.
#[derive(Debug)]
enum Service {
    /// A pipeline for which a thread begins. The calls with these numbers, from the first to the last, do not begin.
    Awaited(Vec<(u64, u64)>),
    Begun(Arc<ServedCalls>),
}

#[derive(Debug)]
struct Pending {
    number: u64,
    served: Arc<ServedCalls>,
    call: u64,
    begun: Instant,
    next: Instant,
    /// When the controller is told why the call goes on, unless it was told.
    told_at: Option<Instant>,
    until: Instant,
}

impl Requests {
    /// A thread will serve the pipeline with this number.
    pub(crate) fn expect(&self, number: u64) {
        self.served.lock().insert(number, Service::Awaited(Vec::new()));
    }

    /// No thread will serve it.
    pub(crate) fn forget(&self, number: u64) {
        self.served.lock().remove(&number);
    }

    /// Runs `serve`, which serves the lane or pipeline with this number on the calling thread.
    ///
    /// # Errors
    ///
    /// As `serve`.
    pub(crate) fn while_serving<R>(
        &self,
        number: u64,
        served: &Arc<ServedCalls>,
        serve: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let awaited = self.served.lock().insert(number, Service::Begun(Arc::clone(served)));
        if let Some(Service::Awaited(cancelled)) = awaited {
            cancelled.into_iter().for_each(|(first, last)| _ = served.cancel(first, last));
        }
        let outcome = served.serve(serve);
        self.served.lock().remove(&number);
        self.pending.lock().retain(|pending| pending.number != number);
        native::release(served);
        outcome
    }

    /// Asks for the end of `calls` calls, from the number `call` on, on this lane or pipeline. Those that wait in a pipeline do not begin.
    /// Call 0 stands for the outermost call that runs now, and for all in it, if its number is `calls` at most. The looks at the thread end
    /// after the time `grace`.
    ///
    /// # Errors
    ///
    /// Why none of them can be interrupted.
    pub(crate) fn want(
        &self,
        number: u64,
        call: u64,
        calls: u64,
        grace: Duration,
    ) -> std::result::Result<(), String> {
        let is_for_running = call == 0;
        let last = call.saturating_add(calls.saturating_sub(1));
        let served = match self.served.lock().get_mut(&number) {
            Some(Service::Begun(served)) => Arc::clone(served),
            Some(Service::Awaited(_)) if is_for_running => return Ok(()),
            Some(Service::Awaited(cancelled)) => {
                cancelled.push((call, last));
                return Ok(());
            }
            None => return Err(format!("no thread serves number {number}")),
        };
        let call = if is_for_running {
            Some(served.calls().outermost()).filter(|running| *running <= calls).unwrap_or(0)
        } else {
            served.cancel(call, last)
        };
        if call == 0 {
            return Ok(());
        }
        native::install(&served).map_err(|error| error.to_string())?;
        served.note_obstacle(0, 0);
        served.calls().want(call);
        let begun = Instant::now();
        // The controller's time began before, and it wants to know.
        let told_at = begun.checked_add(grace / 4 * 3);
        let until = begun.checked_add(grace).unwrap_or(begun);
        let pending = Pending { number, served, call, begun, next: begun, told_at, until };
        self.pending.lock().push(pending);
        Ok(())
    }

    /// Looks at the threads whose time has come. Returns the time until the next look, if there is one. Also returns the lanes whose call
    /// goes on although the grace time is almost over, each with the reason.
    pub(crate) fn sample_due(&self) -> (Option<Duration>, Vec<(u64, String)>) {
        let mut goes_on = Vec::new();
        loop {
            let (next, newest) = self.sample_once(&mut goes_on);
            if !newest.is_some_and(|look| self.poll_for_next(&look)) {
                return (next, goes_on);
            }
        }
    }

    /// Polls until the next look is due. False if sleeping is better.
    fn poll_for_next(&self, newest: &Look) -> bool {
        let mut contended_until = self.contended_until.lock();
        if contended_until.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        let polled = newest.poll();
        if polled.is_none() {
            *contended_until = Instant::now().checked_add(CONTENDED);
        }
        polled == Some(true)
    }

    /// The same, once. Also returns the newest look if the next one follows soon.
    fn sample_once(&self, goes_on: &mut Vec<(u64, String)>) -> (Option<Duration>, Option<Look>) {
        let mut pending = self.pending.lock();
        if pending.is_empty() {
            return (None, None);
        }
        let now = Instant::now();
        let mut newest = None;
        pending.retain_mut(|pending| {
            let Pending { number, served, call, begun, next, told_at, until } = pending;
            if !served.calls().is_wanted(*call) {
                return false;
            }
            if told_at.take_if(|told_at| now >= *told_at).is_some() {
                goes_on.push((*number, native::obstacle(served)));
            }
            if now >= *until {
                served.calls().give_up(*call);
                return false;
            }
            if now >= *next {
                eh_frame::prepare();
                let ended = served.looks_ended();
                if !served.sample(*call, native::SIGNAL) {
                    return false;
                }
                let elapsed = now.saturating_duration_since(*begun);
                let least = if elapsed < INTERVAL_FIRST { INTERVAL_FIRST } else { INTERVAL_MIN };
                let interval = (elapsed / INTERVAL_PART).clamp(least, INTERVAL_MAX);
                *next = now + interval;
                // The thread has looked once, so it has a CPU, and does not wait for this thread's CPU.
                let is_soon = served.calls().samples() > 0 && interval <= POLL_MAX;
                newest = is_soon.then(|| Look { served: Arc::clone(served), ended, next: *next });
            }
            true
        });
        let next = pending.iter().map(|pending| pending.next.min(pending.until)).min();
        (next.map(|next| next.saturating_duration_since(now)), newest)
    }
}

/// A look at a thread, behind which another one follows soon.
struct Look {
    served: Arc<ServedCalls>,
    /// The looks that had ended before.
    ended: u64,
    next: Instant,
}

impl Look {
    /// Polls until the look has ended, its thread has run for a while, and the next look is due. False if the look does not end. `None` if
    /// another thread had the CPU meanwhile.
    fn poll(&self) -> Option<bool> {
        if !poll_until(|| self.served.looks_ended() != self.ended)? {
            return Some(false);
        }
        let next = self.next.max(Instant::now() + INTERVAL_MIN);
        poll_until(|| Instant::now() >= next)
    }
}

/// Polls for at most [`LOOK_MAX`]. Returns whether it is so by then; `None` if another thread had the CPU meanwhile.
fn poll_until(is_so: impl Fn() -> bool) -> Option<bool> {
    let start = Instant::now();
    let mut last = start;
    while !is_so() {
        let now = Instant::now();
        if now - last > GAP_MIN {
            return None;
        }
        if now - start > LOOK_MAX {
            return Some(false);
        }
        last = now;
        std::hint::spin_loop();
    }
    Some(true)
}
