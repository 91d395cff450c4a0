//! The one loop of every wait for the other side: poll quickly, poll between looks at the clock, yield or sleep.
//!
//! Polling finds an answer soonest while no other thread wants the CPU of this side. A thread that polls beside others spends its
//! share of the CPU on nothing. Then the scheduler lets the others run for a slice of some milliseconds, while the answer lies
//! there. A thread that sleeps gets the CPU as soon as the peer wakes it. So a side looks for signs that its CPU is wanted. None
//! of them costs a system call:
//!
//! | sign | what it says | the side |
//! |---|---|---|
//! | the peer stored the number of this CPU ([`CpuHints`]) | the peer needs this CPU to answer | yields, or sleeps at once |
//! | the same for [`SHARED_WAITS`] waits | the kernel leaves both sides on this CPU | leaves it, if it is the executor |
//! | a yield to that peer took more than [`YIELD_MAX`] | another thread had this CPU | does not yield for some milliseconds |
//! | over [`GAP_MIN`] between two looks at the clock | another thread had this CPU | sleeps, then polls for [`CONTENDED_SPIN`] |
//! | the first wait | the threads of the peer start, which need CPUs | polls for [`CONTENDED_SPIN`], then sleeps |
//! | none | no other thread wants this CPU | polls for the time that the user gave |
//!
//! A yield to the peer costs less than a sleep and a wake. Beside a third thread it costs a slice: Linux (6.6 and later) gives
//! the whole slice of a thread that yields to the next thread.

use std::time::{Duration, Instant};

use super::cpu_hints::CpuHints;
use super::poll_delay::PollDelay;
use super::poll_policy::PollPolicy;
use super::yielding::{YIELD_MAX, Yielding};
use crate::deadline::Deadline;
use crate::sync::yield_now;
use crate::sys::cpu;
use crate::transport::Side;

/// Turns ([`cpu::spin`]) between quick polls. Without them this side holds the line most of the time, and the peer hardly gets
/// it. `pause` takes four times longer than these turns, and more on some processors.
const TURNS_BETWEEN: usize = 10;
/// Polls within which a quick answer comes. Only behind them the waiter reads the CPU of its peer.
const POLLS_QUICK: u32 = if cfg!(model) { 1 } else { 32 };
/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = if cfg!(model) { 1 } else { 64 };
/// To wake the peer takes about as long as polling usually lasts. A side that had to wake its peer polls longer, by this
/// factor.
const WOKEN_FACTOR: u32 = 4;
/// The largest factor by which polling lasts longer where answers come a little later than polling usually lasts.
const SLOW_FACTOR_MAX: u32 = 8;
/// Two looks at the clock lie some microseconds apart, with an interrupt in between perhaps 10.
const GAP_MIN: Duration = Duration::from_micros(20);
/// Waits in a row on the CPU of the peer, after which the executor's thread leaves that CPU. A call between two busy CPUs costs a
/// tenth of a call on one.
const SHARED_WAITS: u32 = 64;
/// The least time between two moves: a move costs some microseconds, and may be in vain.
const LEAVE_PAUSE: Duration = Duration::from_millis(5);
/// How often a side yields to a peer on its CPU before it sleeps.
const YIELDS_MAX: u32 = 4;
/// How long a side polls while its CPU is contended: an answer of a peer that runs comes sooner.
const CONTENDED_SPIN: Duration = Duration::from_micros(2);
/// How long a gap is remembered, at first and at most. It is remembered twice as long if the next trial meets a gap again.
const CONTENDED_MIN: Duration = Duration::from_millis(2);
const CONTENDED_MAX: Duration = Duration::from_secs(1);

/// The questions of the loop to a waiter. The wait ends when the waiter has an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Has it come?
    Poll,
    /// Has the wait an end? Asked before a side polls for long or yields, and at each look at the clock.
    Look,
    /// Sleep until it comes, or something else does.
    Sleep {
        /// The peer was last seen on this CPU.
        shares_cpu: bool,
    },
}

/// How one side polls, and what it remembers from one wait to the next.
#[derive(Debug)]
pub(crate) struct Polling {
    policy: PollPolicy,
    delay: PollDelay,
    /// No wait has polled for long so far.
    is_new: bool,
    /// The peer was asleep and had to be woken.
    woke_peer: bool,
    /// The factor by which polling lasts longer, since answers came late recently.
    slow_factor: u32,
    contention: Contention,
    /// The CPUs of both sides.
    cpu_hints: CpuHints,
    /// Both sides were on one CPU when this side last looked.
    shares_cpu: bool,
    departure: Departure,
    yielding: Yielding,
}

impl Polling {
    pub(in crate::transport) fn new(policy: PollPolicy, cpu_hints: CpuHints) -> Self {
        let contention = Contention { until: None, memory: CONTENDED_MIN };
        Self {
            policy,
            delay: PollDelay::new(),
            is_new: true,
            woke_peer: false,
            slow_factor: 1,
            contention,
            cpu_hints,
            shares_cpu: false,
            departure: Departure { shared_waits: 0, last: None },
            yielding: Yielding::new(),
        }
    }

    /// The same for a wait of its own, at a peer that has started already.
    pub(in crate::transport) fn once(policy: PollPolicy, cpu_hints: CpuHints) -> Self {
        Self { is_new: false, ..Self::new(policy, cpu_hints) }
    }

    /// Says that the peer was woken: its answer takes longer this time.
    pub(in crate::transport) fn peer_was_woken(&mut self) {
        self.woke_peer = true;
    }

    /// Waits until `at` has an answer. The first one may be there at any moment, so there is no pause before the first poll.
    #[inline(always)]
    pub(crate) fn wait<T>(
        &mut self,
        deadline: Deadline,
        mut at: impl FnMut(Moment) -> Option<T>,
    ) -> T {
        match self.at_once(|| at(Moment::Poll)) {
            Some(answer) => answer,
            None => self.slowly(deadline, at),
        }
    }

    /// Polls as often as [`Polling::quickly`], with no pause of its own but the shortest.
    #[inline(always)]
    fn at_once<T>(&self, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
        if self.shares_cpu {
            return None;
        }
        for _ in 0..POLLS_QUICK {
            if let Some(answer) = poll() {
                return Some(answer);
            }
            std::hint::spin_loop();
        }
        None
    }

    /// Polls where an answer is due after a time that this side learns. A side on whose CPU the peer was last seen does not poll: the
    /// peer needs that CPU to answer.
    #[inline(always)]
    pub(super) fn quickly<T>(&mut self, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
        if self.shares_cpu {
            return None;
        }
        self.delay.pause();
        if let Some(answer) = poll() {
            return Some(answer);
        }
        for _ in 1..POLLS_QUICK {
            cpu::spin(TURNS_BETWEEN);
            if let Some(answer) = poll() {
                self.delay.was_too_short();
                return Some(answer);
            }
        }
        None
    }

    /// Goes on where the quick polls found nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn slowly<T>(
        &mut self,
        deadline: Deadline,
        mut at: impl FnMut(Moment) -> Option<T>,
    ) -> T {
        loop {
            let answer = self.round(deadline, &mut at);
            if let Some(answer) = answer.or_else(|| self.at_once(|| at(Moment::Poll))) {
                return answer;
            }
        }
    }

    /// Polls for as long as the policy and this CPU allow, or yields, and then sleeps once. `None` when the sleep brought nothing.
    fn round<T>(
        &mut self,
        deadline: Deadline,
        mut at: impl FnMut(Moment) -> Option<T>,
    ) -> Option<T> {
        let Some(mut stretch) = self.begin(deadline) else {
            return at(Moment::Look)
                .or_else(|| at(Moment::Poll))
                .or_else(|| self.give_way(|| at(Moment::Poll)))
                .or_else(|| at(Moment::Sleep { shares_cpu: true }));
        };
        loop {
            if let Some(answer) = at(Moment::Look) {
                return Some(answer);
            }
            for _ in 0..POLLS_PER_LOOK {
                if let Some(answer) = at(Moment::Poll) {
                    self.answered(&stretch);
                    return Some(answer);
                }
                std::hint::spin_loop();
            }
            if !self.goes_on(&mut stretch) {
                break;
            }
        }
        self.delay.begin_anew();
        let answer = at(Moment::Sleep { shares_cpu: false });
        self.answered(&stretch);
        answer
    }

    /// Begins to poll. `None` when the peer needs this CPU.
    fn begin(&mut self, deadline: Deadline) -> Option<Stretch> {
        let woke_peer = std::mem::take(&mut self.woke_peer);
        self.shares_cpu = chance().unwrap_or_else(|| {
            let shares_cpu = self.cpu_hints.share_cpu();
            if self.cpu_hints.side() == Side::Executor && self.departure.is_due(shares_cpu) {
                return !cpu::leave() || self.cpu_hints.share_cpu();
            }
            shares_cpu
        });
        if self.shares_cpu {
            return None;
        }
        let start = Instant::now();
        let is_contended = self.contention.is_remembered(start);
        let limit = if std::mem::take(&mut self.is_new) || is_contended {
            self.policy.spin.min(CONTENDED_SPIN)
        } else {
            let woken_factor = if woke_peer { WOKEN_FACTOR } else { 1 };
            self.policy.spin.saturating_mul(woken_factor.max(self.slow_factor))
        };
        let limit = deadline.left_at(start).map_or(limit, |left| limit.min(left));
        Some(Stretch { start, last: start, limit, is_contended })
    }

    /// Offers this CPU to the peer on it until there is an answer. Does nothing while other threads want the CPU as well, since one of
    /// them would get a whole slice.
    fn give_way<T>(&mut self, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
        if !self.yielding.is_due() {
            return None;
        }
        let mut last = Instant::now();
        for _ in 0..YIELDS_MAX {
            yield_now();
            let answer = poll();
            let now = Instant::now();
            if now - last > YIELD_MAX {
                // An executor without a call has lost nothing: the peer may have used the CPU for its own work.
                if answer.is_some() || self.cpu_hints.side() == Side::Controller {
                    self.yielding.took_long(now);
                }
                return answer;
            }
            if answer.is_some() {
                self.yielding.was_short();
                return answer;
            }
            last = now;
        }
        None
    }

    /// Looks at the clock. False when polling ends: its time is over, or another thread wants this CPU.
    fn goes_on(&mut self, stretch: &mut Stretch) -> bool {
        if let Some(goes_on) = chance() {
            return goes_on;
        }
        let now = Instant::now();
        if stretch.meets_gap(now) {
            self.contention.remember(now);
            stretch.is_contended = true;
            return false;
        }
        let goes_on = now - stretch.start < stretch.limit;
        if !goes_on && !stretch.is_contended {
            self.contention.forget();
        }
        goes_on
    }

    /// Says that the answer has come, by polling or while this side slept.
    fn answered(&mut self, stretch: &Stretch) {
        if !stretch.is_contended {
            self.contention.forget();
            self.took(stretch.start.elapsed());
        }
    }

    /// Notes how long an answer took that did not come at once.
    fn took(&mut self, time: Duration) {
        let reach = |factor| self.policy.spin.saturating_mul(factor);
        if time > reach(SLOW_FACTOR_MAX) {
            // No calls come, or the called function takes long: sleeping is right.
            self.slow_factor = 1;
        } else if time > reach(self.slow_factor) / 2 {
            self.slow_factor = (self.slow_factor * 2).min(SLOW_FACTOR_MAX);
        }
    }
}

/// The time for which a wait polls.
#[derive(Debug)]
struct Stretch {
    start: Instant,
    /// The last look at the clock.
    last: Instant,
    limit: Duration,
    /// Other threads want this CPU.
    is_contended: bool,
}

impl Stretch {
    /// True when another thread had this CPU since the last look.
    fn meets_gap(&mut self, now: Instant) -> bool {
        let gap = now - std::mem::replace(&mut self.last, now);
        gap > GAP_MIN
    }
}

/// Whether other threads want the CPU of this side, as gaps between polls have told.
#[derive(Debug)]
struct Contention {
    /// Until then a wait polls for [`CONTENDED_SPIN`] only. The first wait behind it is a trial.
    until: Option<Instant>,
    /// How long the next gap is remembered.
    memory: Duration,
}

impl Contention {
    fn is_remembered(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    fn remember(&mut self, now: Instant) {
        self.until = Some(now + self.memory);
        self.memory = (self.memory * 2).min(CONTENDED_MAX);
    }

    /// A trial has polled and met no gap.
    fn forget(&mut self) {
        (self.until, self.memory) = (None, CONTENDED_MIN);
    }
}

/// Whether to leave a CPU that the peer uses as well.
#[derive(Debug)]
struct Departure {
    /// Waits in a row on one CPU with the peer.
    shared_waits: u32,
    /// The last move.
    last: Option<Instant>,
}

impl Departure {
    /// Counts a wait. True when this side should leave its CPU now.
    fn is_due(&mut self, shares_cpu: bool) -> bool {
        self.shared_waits = if shares_cpu { self.shared_waits + 1 } else { 0 };
        if self.shared_waits < SHARED_WAITS {
            return false;
        }
        self.shared_waits = 0;
        let now = Instant::now();
        let is_due = self.last.is_none_or(|last| now - last > LEAVE_PAUSE);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// The models of shuttle decide by chance, so that sides begin and end to poll at any moment.
#[cfg(shuttle)]
fn chance() -> Option<bool> {
    use ::shuttle::rand::{Rng, thread_rng};
    Some(thread_rng().gen_bool(0.5))
}

#[cfg(not(shuttle))]
fn chance() -> Option<bool> {
    None
}

#[cfg(test)]
#[cfg(not(model))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::shm::Segment;
    use crate::sync::Ordering;

    const SPIN: Duration = Duration::from_micros(50);

    /// The polling of a controller, and the segment whose second word is the executor's CPU.
    fn polling(spin: Duration) -> (Arc<Segment>, Polling) {
        polling_of(Side::Controller, spin)
    }

    fn polling_of(side: Side, spin: Duration) -> (Arc<Segment>, Polling) {
        let segment = Arc::new(Segment::create(c"test", 4096, false).expect("memory"));
        let cpu_hints = CpuHints::new(&segment, [0, 1], side);
        let mut polling = Polling::new(PollPolicy::new(spin), cpu_hints);
        assert_eq!(limit(&mut polling), spin.min(CONTENDED_SPIN), "the peer starts");
        (segment, polling)
    }

    /// How long the next wait polls.
    fn limit(polling: &mut Polling) -> Duration {
        polling.begin(Deadline::SESSION_END).expect("the CPU is not shared").limit
    }

    #[test]
    fn polling_lasts_as_long_as_answers_take_within_reason() {
        let (_segment, mut polling) = polling(SPIN);
        polling.took(SPIN * 2);
        polling.took(SPIN * 2);
        assert_eq!(limit(&mut polling), SPIN * 4);
        polling.took(SPIN * 2);
        polling.took(SPIN);
        assert_eq!(limit(&mut polling), SPIN * 4);
        polling.took(SPIN * 8);
        polling.took(SPIN * 8);
        assert_eq!(limit(&mut polling), SPIN * SLOW_FACTOR_MAX);
        polling.took(Duration::from_secs(1));
        assert_eq!(limit(&mut polling), SPIN);
    }

    #[test]
    fn a_side_that_woke_the_peer_polls_longer_once() {
        let (_segment, mut polling) = polling(SPIN);
        polling.peer_was_woken();
        assert_eq!([limit(&mut polling), limit(&mut polling)], [SPIN * WOKEN_FACTOR, SPIN]);
    }

    #[test]
    fn endless_polling_has_no_factor() {
        let (_segment, mut polling) = polling(Duration::MAX);
        polling.peer_was_woken();
        polling.took(Duration::from_secs(1));
        assert_eq!(limit(&mut polling), Duration::MAX);
    }

    #[test]
    fn polling_ends_with_its_deadline() {
        let (_segment, mut polling) = polling(Duration::MAX);
        let stretch = polling.begin(Deadline::after(SPIN)).expect("the CPU is not shared");
        assert!(stretch.limit <= SPIN, "{:?}", stretch.limit);
    }

    #[test]
    fn a_gap_between_two_polls_ends_polling_and_shortens_the_next() {
        let (_segment, mut polling) = polling(Duration::MAX);
        let mut stretch = polling.begin(Deadline::SESSION_END).expect("the CPU is not shared");
        std::thread::sleep(GAP_MIN * 2);
        assert!(!polling.goes_on(&mut stretch));
        assert_eq!(limit(&mut polling), CONTENDED_SPIN);
        // That wait polled beside others: it says nothing about how long answers take.
        polling.answered(&stretch);
        assert_eq!((polling.slow_factor, limit(&mut polling)), (1, CONTENDED_SPIN));
    }

    #[test]
    fn polling_to_its_end_without_a_gap_ends_contention() {
        let (_segment, mut polling) = polling(SPIN);
        polling.contention.remember(Instant::now() - CONTENDED_MIN);
        let mut stretch = polling.begin(Deadline::SESSION_END).expect("the CPU is not shared");
        stretch.limit = Duration::ZERO;
        // Again where this thread loses its CPU between two lines.
        loop {
            (stretch.last, stretch.is_contended) = (Instant::now(), false);
            assert!(!polling.goes_on(&mut stretch));
            if !stretch.is_contended {
                break;
            }
        }
        assert_eq!(polling.contention.memory, CONTENDED_MIN);
    }

    #[test]
    fn contention_is_tried_again_later_and_later() {
        let mut contention = Contention { until: None, memory: CONTENDED_MIN };
        let start = Instant::now();
        contention.remember(start);
        assert!(contention.is_remembered(start + CONTENDED_MIN - GAP_MIN));
        assert!(!contention.is_remembered(start + CONTENDED_MIN));
        contention.remember(start);
        assert!(contention.is_remembered(start + CONTENDED_MIN));
        for _ in 0..20 {
            contention.remember(start);
        }
        assert!(!contention.is_remembered(start + CONTENDED_MAX));
        contention.forget();
        contention.remember(start);
        assert!(!contention.is_remembered(start + CONTENDED_MIN));
    }

    #[test]
    fn a_side_leaves_a_shared_cpu_behind_many_waits_and_seldom() {
        let mut departure = Departure { shared_waits: 0, last: None };
        let waits = |departure: &mut Departure, count: u32| {
            (0..count).filter(|_| departure.is_due(true)).count()
        };
        assert_eq!(waits(&mut departure, SHARED_WAITS - 1), 0);
        assert!(!departure.is_due(false));
        let begun = Instant::now();
        assert_eq!(waits(&mut departure, SHARED_WAITS), 1);
        // This thread may lose its CPU for longer than the pause.
        assert!(waits(&mut departure, SHARED_WAITS) == 0 || begun.elapsed() >= LEAVE_PAUSE);
        std::thread::sleep(LEAVE_PAUSE);
        assert_eq!(waits(&mut departure, SHARED_WAITS), 1);
    }

    #[test]
    fn a_side_gives_way_to_the_peer_on_its_cpu_and_not_to_others() {
        let (segment, mut polling) = polling(SPIN);
        segment.words()[1].store(cpu::current(), Ordering::Relaxed);
        while polling.begin(Deadline::SESSION_END).is_some() {
            // This thread was moved meanwhile.
            segment.words()[1].store(cpu::current(), Ordering::Relaxed);
        }
        assert!(polling.shares_cpu);
        let yields = || -> Option<()> { unreachable!("a yield beside other threads") };
        polling.yielding.took_long(Instant::now());
        assert_eq!(polling.give_way(yields), None);
        // A gap begins the time anew.
        std::thread::sleep(polling.yielding.pause());
        assert_eq!(polling.give_way(yields), None);
        polling.yielding.was_short();
        assert_eq!(polling.give_way(|| Some(())), Some(()));
        segment.words()[1].store(0, Ordering::Relaxed);
        assert!(polling.begin(Deadline::SESSION_END).is_some());
        assert!(!polling.shares_cpu);
    }

    #[test]
    fn a_long_yield_without_a_call_is_no_sign_for_an_executor() {
        let long = |answer: Option<()>| {
            move || {
                std::thread::sleep(YIELD_MAX * 2);
                answer
            }
        };
        for (side, answer, is_sign) in [
            (Side::Controller, None, true),
            (Side::Controller, Some(()), true),
            (Side::Executor, Some(()), true),
            (Side::Executor, None, false),
        ] {
            let (_segment, mut polling) = polling_of(side, SPIN);
            assert_eq!(polling.give_way(long(answer)), answer);
            assert_eq!(!polling.yielding.is_due(), is_sign, "{side:?}, {answer:?}");
        }
    }
}
