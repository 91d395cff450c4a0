//! Attacked calls. Linked code does random things to what it shares with its host. The host's calls end in time all the same,
//! and nothing stays behind a session.
//!
//! `ATTACK_CASES` says how many calls there are, `ATTACK_SEED` with which seed they begin. The seed in a complaint
//! repeats its session.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use farcall::{Error, ErrorKind};
use fastrand::Rng;

use crate::apart::{self, Apart};
use crate::counts::Counts;
use crate::session::Session;
use crate::ways::{self, Attacked, Pid, Way};

const NAME: &str = "random::attacked_calls_end_in_time_and_leave_nothing";
const CASES: usize = 2_000;
/// Calls of one session, at most.
const CALLS_MAX: u64 = 8;
/// When it is clear that a session hangs.
const HANG: Duration = Duration::from_secs(6);
/// This many hangs and other faults are enough to know.
const FAULTS_MAX: usize = 12;
/// The time by which a deadline may be missed.
const OVERSHOOT_MAX: Duration = Duration::from_secs(1);

/// The deeds of linked code, in the order of its numbers in `random.c`.
const DEEDS: [&str; 19] = [
    "store few words",
    "store many words",
    "zero",
    "replay",
    "store later",
    "jam sockets",
    "send descriptors",
    "stop",
    "leave a child",
    "close descriptors",
    "unmap",
    "leave",
    "raise",
    "use up memory",
    "start threads",
    "use up descriptors",
    "spin",
    "overflow the stack",
    "rest",
];

/// One call and what it was asked to do.
#[derive(Debug, Clone)]
struct Case {
    seed: u64,
    deeds: Vec<u64>,
    timeout: Duration,
}

impl Case {
    fn from(numbers: &mut Rng) -> Self {
        // Half of all deeds are stores.
        let mut deed = || match numbers.u64(..2) {
            0 => numbers.u64(..5),
            _ => numbers.u64(..DEEDS.len() as u64),
        };
        let mut deeds = vec![deed()];
        while deeds.len() < 4 && deed() % 2 == 0 {
            deeds.push(deed());
        }
        let timeout = Duration::from_micros(1000 + numbers.u64(..7000));
        Self { seed: numbers.u64(..), deeds, timeout }
    }

    fn args(&self) -> Vec<u8> {
        let numbers = std::iter::once(self.seed).chain(self.deeds.iter().copied());
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    fn names(&self) -> String {
        let name = |deed: &u64| DEEDS[usize::try_from(*deed).expect("a deed")];
        self.deeds.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

/// The reports of a session while it runs.
#[derive(Debug)]
enum Told {
    /// The executor has this number.
    Started(Pid),
    /// This call begins.
    Begun(Case),
    /// It has ended so, this long after its deadline.
    Ended(String, Option<Duration>),
    /// The session was let go of.
    Over,
}

/// The outcomes of all calls.
#[derive(Debug, Default)]
struct Totals {
    cases: usize,
    sessions: BTreeMap<String, usize>,
    outcomes: BTreeMap<String, usize>,
    overshoots: Vec<Duration>,
    hangs: Vec<String>,
    faults: Vec<String>,
}

#[test]
fn attacked_calls_end_in_time_and_leave_nothing() {
    if let Some(way) = apart::case().and_then(|case| Way::named(&case)) {
        return ways::serve(way);
    }
    let cases = number_of("ATTACK_CASES").map_or(CASES, |cases| cases.try_into().expect("a count"));
    let bound_s = 240 + cases as u64 / 5;
    Apart::within(bound_s).run(|| attack(cases));
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

fn attack(cases: usize) {
    let seed = number_of("ATTACK_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_secs() ^ u64::from(now.subsec_nanos()) << 20)
    });
    println!("attack: ATTACK_SEED={seed}");
    let ways = std::env::var("ATTACK_WAY").ok().map_or(Way::ALL.to_vec(), |name| {
        vec![Way::named(&name).unwrap_or_else(|| panic!("no way is called {name}"))]
    });
    let mut totals = Totals::default();
    // Now everything is made that the process makes once.
    for way in &ways {
        let (sender, _told) = mpsc::channel();
        let way = *way;
        thread::spawn(move || session(way, &mut Rng::with_seed(0), 0, &sender))
            .join()
            .expect("no panic");
    }
    let mut before = Counts::now();
    let mut next = seed;
    while totals.cases < cases && totals.hangs.len() + totals.faults.len() < FAULTS_MAX {
        let mut numbers = Rng::with_seed(next);
        let way = ways[usize::try_from(numbers.u64(..ways.len() as u64)).expect("a way")];
        let place = format!("{way:?} with ATTACK_SEED={next}");
        let has_hung = !watch(way, numbers, &place, &mut totals);
        *totals.sessions.entry(format!("{way:?}")).or_default() += 1;
        if has_hung {
            // It keeps what it has.
            before = Counts::now();
        } else if let Err(more) = before.nothing_more() {
            totals.faults.push(format!("{place}: {more}"));
            before = Counts::now();
        }
        next = Rng::with_seed(next).u64(..);
    }
    let sum = Session::start("ends").call("add", &[2, 3]);
    totals.report();
    assert_eq!(sum.expect("a new executor works"), 5);
    assert!(totals.hangs.is_empty(), "hang: {}", totals.hangs.join("\nhang: "));
    assert!(totals.faults.is_empty(), "{}", totals.faults.join("\n"));
    let most = totals.overshoots.iter().max().copied().unwrap_or_default();
    assert!(most <= OVERSHOOT_MAX, "a deadline was missed by {most:?}");
}

/// Runs a session on a thread of its own; false when it hangs.
fn watch(way: Way, mut numbers: Rng, place: &str, totals: &mut Totals) -> bool {
    let (sender, told) = mpsc::channel();
    let runner = thread::spawn(move || {
        let calls = 1 + numbers.u64(..CALLS_MAX);
        session(way, &mut numbers, calls, &sender);
    });
    let (mut pid, mut last) = (None, None);
    loop {
        match told.recv_timeout(HANG) {
            Ok(Told::Started(number)) => pid = Some(number),
            Ok(Told::Begun(case)) => last = Some(case),
            Ok(Told::Ended(outcome, overshoot)) => {
                let case = last.as_ref().map(Case::names).unwrap_or_default();
                if overshoot.is_some_and(|over| over > OVERSHOOT_MAX) {
                    totals.faults.push(format!("{place}: {case}: {outcome}: {overshoot:?} late"));
                }
                totals.cases += 1;
                *totals.outcomes.entry(outcome).or_default() += 1;
                totals.overshoots.extend(overshoot);
            }
            Ok(Told::Over) => {
                runner.join().expect("it has nothing left to do");
                return true;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let case = last.as_ref().map(Case::names).unwrap_or_default();
                totals.faults.push(format!("{place}: {case}: panic"));
                return runner.join().is_err();
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let case = last.as_ref().map(Case::names).unwrap_or_default();
                totals.hangs.push(format!("{place}: {case}"));
                if let Some(pid) = pid {
                    pid.kill();
                }
                totals.cases += 1;
                return false;
            }
        }
    }
}

/// Some calls of one session, and its end.
fn session(way: Way, numbers: &mut Rng, calls: u64, told: &mpsc::Sender<Told>) {
    // No thread listens any more when it has hung.
    let tell = |what| drop(told.send(what));
    let mut attacked = match Attacked::start(way, NAME) {
        Ok(attacked) => attacked,
        Err(error) => {
            tell(Told::Ended(format!("no start: {error}"), None));
            return tell(Told::Over);
        }
    };
    tell(Told::Started(attacked.pid()));
    for _ in 0..calls {
        let case = Case::from(numbers);
        let (args, timeout) = (case.args(), case.timeout);
        tell(Told::Begun(case));
        let start = Instant::now();
        let outcome = attacked.call(&args, timeout);
        let took = start.elapsed();
        let goes_on = match &outcome {
            Ok(_) => true,
            Err(error) => !error.is_disconnected() && error.kind() != ErrorKind::Timeout,
        };
        tell(Told::Ended(label(&outcome), took.checked_sub(timeout)));
        if !goes_on {
            break;
        }
    }
    attacked.end();
    tell(Told::Over);
}

/// The kind of an outcome.
fn label(outcome: &Result<Vec<u8>, Error>) -> String {
    let error = match outcome {
        Ok(_) => return "result".to_owned(),
        Err(error) => error,
    };
    match error.death() {
        Some(death) if death.signal.is_some() => format!("death by {}", death.signal.unwrap_or(0)),
        Some(_) => "exit".to_owned(),
        None if error.kind() == ErrorKind::Timeout => "timeout".to_owned(),
        None if error.kind() == ErrorKind::Violation => "violation".to_owned(),
        None if error.is_disconnected() => "disconnected".to_owned(),
        None if error.kind() == ErrorKind::Remote => "refused by the executor".to_owned(),
        None => "another error".to_owned(),
    }
}

impl Totals {
    fn report(&mut self) {
        self.overshoots.sort_unstable();
        let count = self.overshoots.len();
        let at = |thousandths: usize| {
            let place = (count * thousandths / 1000).min(count.saturating_sub(1));
            self.overshoots.get(place).copied().unwrap_or_default()
        };
        println!("attack: {} cases, {:?} sessions", self.cases, self.sessions);
        println!("attack: outcomes {:?}", self.outcomes);
        println!(
            "attack: {count} calls reached their deadline; late p50 {:?}, p99 {:?}, p99.9 {:?}, most {:?}",
            at(500),
            at(990),
            at(999),
            at(1000)
        );
        println!("attack: {} hangs, {} other faults", self.hangs.len(), self.faults.len());
    }
}
