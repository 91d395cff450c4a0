//! Calls that fight the request to end them: the host has its error in time, and loses nothing by it.
//!
//! Linked code may do anything in its own process. So a call ends by the interrupt, by its choice, or by the end of the process.
//! How late an error may be is measured here and printed; the bound leaves room for a busy machine.

use std::thread;
use std::time::{Duration, Instant};

use farcall::controller::{
    CallOptions, Confinement, Executor, ExecutorBuilder, Library, OnDeadline, RestartPolicy,
};
use farcall::link::ObjectFile;
use farcall::{Error, ErrorKind};

use crate::apart::{Apart, within};
use crate::counts::{Counts, expect_no_children, resident_kib};
use crate::session::launch;
use crate::sources;

const TIMEOUT: Duration = Duration::from_millis(30);
const GRACE: Duration = Duration::from_millis(10);
/// The delay that a busy machine may add.
const SLACK: Duration = Duration::from_secs(5);
/// When it is clear that nothing ends the call.
const HANG: Duration = Duration::from_secs(20);
/// Memory that an allocator may keep over some hundred sessions.
const KEPT_KIB: u64 = 8 << 10;

/// The demands of a fight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// The socket of the executor's own thread.
    Control,
}

/// How a fight ends, as far as that is certain at the default level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// The code cannot be interrupted, and does not end by itself.
    ByForce,
    Somehow,
}

/// The fights of `fights.cpp`, in its order.
const FIGHTS: [(&str, Needs, Ends); 25] = [
    ("blocks all signals", Needs::Nothing, Ends::ByForce),
    ("ignores all signals", Needs::Nothing, Ends::Somehow),
    ("handles the signal", Needs::Nothing, Ends::Somehow),
    ("jumps out of its handler", Needs::Nothing, Ends::Somehow),
    ("spins in noexcept", Needs::Nothing, Ends::Somehow),
    ("jumps out of a cleanup", Needs::Nothing, Ends::ByForce),
    ("spins in a cleanup", Needs::Nothing, Ends::ByForce),
    ("throws in a cleanup", Needs::Nothing, Ends::Somehow),
    ("exits in a cleanup", Needs::Nothing, Ends::Somehow),
    ("forks in its handler", Needs::Nothing, Ends::Somehow),
    ("answers twice", Needs::Nothing, Ends::Somehow),
    ("answers behind the end", Needs::Nothing, Ends::Somehow),
    ("steals the request", Needs::Control, Ends::Somehow),
    ("lies about the reason", Needs::Control, Ends::ByForce),
    ("sends malformed messages", Needs::Control, Ends::Somehow),
    ("floods the socket", Needs::Control, Ends::Somehow),
    ("closes the socket", Needs::Control, Ends::Somehow),
    ("blocks in vfork", Needs::Nothing, Ends::ByForce),
    ("stops itself", Needs::Nothing, Ends::ByForce),
    ("is stopped by a tracer", Needs::Nothing, Ends::ByForce),
    ("uses up threads", Needs::Nothing, Ends::ByForce),
    ("calls back without end", Needs::Nothing, Ends::Somehow),
    ("floods its thread with signals", Needs::Nothing, Ends::Somehow),
    ("scribbles over its lanes", Needs::Nothing, Ends::Somehow),
    ("has a small stack for handlers", Needs::Nothing, Ends::Somehow),
];

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Lane,
    Pipeline,
}

/// An executor with the fights.
struct Ring {
    executor: Executor,
    library: Library,
}

type Fight = extern "C" fn(i64) -> i64;
type Number = extern "C" fn() -> i64;

impl Ring {
    fn start(launch: &ExecutorBuilder) -> Self {
        let executor = launch.start().expect("an executor");
        let library = executor.library("fights");
        library.define_handler("ask", |question: i64| question + 1).expect("defined");
        let bytes = std::fs::read(sources::path("fights")).expect("compiled");
        library
            .add_object(&ObjectFile::parse("fights.o", bytes).expect("an object"))
            .expect("added");
        library.link().expect("linked");
        Self { executor, library }
    }

    fn number(&self, function: &str, timeout: Duration) -> farcall::Result<i64> {
        let options = CallOptions::new().timeout(timeout).on_deadline(OnDeadline::Kill);
        self.library.function::<Number>(function).call_with(&options, ())
    }

    /// Makes one fight, and returns how it ended and how late.
    fn fight(
        &self,
        number: usize,
        way: Way,
        choice: OnDeadline,
    ) -> (farcall::Result<i64>, Duration) {
        let function = self.library.function::<Fight>("fight").bind().expect("linked");
        let argument = i64::try_from(number).expect("few");
        let begun = Instant::now();
        let outcome = match way {
            Way::Lane => {
                let options = CallOptions::new().timeout(TIMEOUT).grace(GRACE);
                function.call_with(&options.on_deadline(choice), (argument,))
            }
            // The request is for all calls, by another thread.
            Way::Pipeline => thread::scope(|scope| {
                let call = function.submit((argument,));
                scope.spawn(|| {
                    thread::sleep(TIMEOUT);
                    let _ = self.executor.interrupt_all(GRACE);
                });
                call.and_then(|call| call.wait_timeout(TIMEOUT + GRACE))
            }),
        };
        let late = begun.elapsed().saturating_sub(TIMEOUT + GRACE);
        (outcome, late)
    }
}

/// A builder of executors at this level.
fn builder(confinement: Option<Confinement>) -> ExecutorBuilder {
    match confinement {
        None => launch(),
        Some(confinement) => launch().confine(confinement.allow_missing()),
    }
}

/// The choices of a call's end, which decide how long an executor that fights may live.
const CHOICES: [OnDeadline; 2] = [OnDeadline::InterruptOrKill, OnDeadline::Interrupt];

/// Checks that the choice allows this end.
fn check(what: &str, choice: OnDeadline, ends: Ends, error: &Error) {
    let is_interrupted = error.kind() == ErrorKind::Interrupted;
    let is_late = error.to_string().contains("did not return");
    let is_abandoned = error.kind() == ErrorKind::Timeout && error.death().is_none();
    if ends == Ends::ByForce {
        assert!(!is_interrupted && is_late, "{what}: {error}");
    }
    match choice {
        OnDeadline::InterruptOrKill => {
            assert!(!is_abandoned, "{what}: {error}");
            assert!(ends == Ends::Somehow || error.death().is_some(), "{what}: {error}");
        }
        _ => assert!(ends == Ends::Somehow || is_abandoned, "{what}: {error}"),
    }
}

/// Makes every fight once over a way, each in an executor of its own. Returns how late the errors were.
fn round(
    launch: &ExecutorBuilder,
    way: Way,
    choice: OnDeadline,
    is_default: bool,
) -> Vec<(usize, Duration)> {
    let only = std::env::var("ATTACK_FIGHT").ok();
    let mut times = Vec::new();
    for (number, (name, needs, ends)) in FIGHTS.into_iter().enumerate() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let what = format!("{name}, {way:?}, {choice:?}");
        let launch = launch.clone();
        let ends = if is_default { ends } else { Ends::Somehow };
        let told = what.clone();
        let fought = within(HANG, &what, move || {
            let ring = Ring::start(&launch);
            if needs == Needs::Control
                && ring.number("take_control", HANG).expect("it returns") == 0
            {
                return None;
            }
            let (outcome, late) = ring.fight(number, way, choice);
            if let Err(error) = &outcome {
                check(&told, choice, ends, error);
            } else {
                assert!(ends == Ends::Somehow, "{told}: {outcome:?}");
            }
            let overflow = ring.number("overflow", SLACK / 10).unwrap_or(0);
            assert_eq!(overflow, 0, "{told}: bytes that the handler has written");
            let begun = Instant::now();
            drop(ring);
            Some((outcome, late, begun.elapsed()))
        });
        let Some((outcome, late, end)) = fought else {
            println!("attack: {what}: skipped: the system gives no way to the control socket");
            continue;
        };
        let told =
            outcome.map_or_else(|error| error.to_string(), |number| format!("returned {number}"));
        println!("attack: {what}: {late:?} late, its end took {end:?}: {told}");
        assert!(late < SLACK, "{what}: {late:?} late: {told}");
        times.push((number, late));
    }
    times
}

/// Fights at this level until there were some 200, and compares what the host has.
fn fights(confinement: Option<Confinement>, rounds: usize) {
    let is_default = confinement.is_none();
    let launch = builder(confinement);
    let all = || {
        let mut times = Vec::new();
        for choice in CHOICES {
            times.extend(round(&launch, Way::Lane, choice, is_default));
        }
        let killed = launch.clone().restart(RestartPolicy::new().kill_on_timeout());
        times.extend(round(&killed, Way::Pipeline, OnDeadline::Interrupt, false));
        times
    };
    let mut times = all();
    let (before, resident) = (Counts::now(), resident_kib());
    for _ in 1..rounds {
        times.extend(all());
    }
    before.expect_nothing_more("fights");
    expect_no_children();
    let now = resident_kib();
    println!("attack: {} fights: resident {resident} KiB became {now} KiB", times.len());
    assert!(now < resident + KEPT_KIB, "resident: {resident} KiB became {now} KiB");
    times.sort_by_key(|(_, late)| *late);
    let at = |share: usize| times[(times.len() - 1) * share / 100].1;
    let (worst, most) = times[times.len() - 1];
    println!(
        "attack: late p50 {:?}, p99 {:?}, most {most:?} ({})",
        at(50),
        at(99),
        FIGHTS[worst].0
    );
}

#[test]
fn calls_that_fight_an_interrupt_end_in_time() {
    Apart::within(240).run(|| fights(None, 3));
}

#[test]
fn calls_that_fight_under_the_strict_level_end_in_time() {
    Apart::within(240).run(|| fights(Some(Confinement::strict()), 2));
}
