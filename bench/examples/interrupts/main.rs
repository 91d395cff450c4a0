//! Interrupts calls of many kinds of code at random moments: `interrupts COUNT [checked] [NAME]`.
//!
//! COUNT interrupts are made of each kind whose name has NAME in it. Behind each one, the next calls on the same thread have to be right,
//! and the executor's heap, streams and thread-locals whole. With `checked`, the C library checks each block that the executor frees.
//!
//! The time of a call begins at its deadline and ends with the caller's error.
//!
//! Invariant: what is not right ends the program with an error, and so do threads, descriptors and memory that stay.

mod held;
mod kinds;
mod sources;

use std::time::{Duration, Instant};

use farcall_bench::{Machine, Result};

use held::Held;
use kinds::{Ended, Kind, Session};

const USAGE: &str = "usage: interrupts COUNT [checked] [NAME]";
/// The interrupts of a kind before its memory is looked at first: what is made once is made then.
const FIRST: usize = 50;

fn main() -> Result<()> {
    farcall::executor::run_if_spawned();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (count, is_checked, name) = match args[..] {
        [count] => (count, false, ""),
        [count, "checked"] => (count, true, ""),
        [count, "checked", name] => (count, true, name),
        [count, name] => (count, false, name),
        _ => return Err(USAGE.into()),
    };
    let count = count.parse::<usize>()?;
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| kind.name().contains(name)).collect();
    if kinds.is_empty() {
        return Err(format!("no kind has {name} in its name").into());
    }
    println!("{}", Machine::read());
    println!(
        "| code | interrupts | p50, us | p99, us | p99.9, us | max, us | functions left without cleanups | executor's memory |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let begun = Instant::now();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut own = None;
    for kind in &kinds {
        let session = Session::start(*kind, is_checked)?;
        run(&session, count, &mut random)?;
        drop(session);
        let now = Held::of("self")?;
        let before = *own.get_or_insert(now);
        now.check(before, 0, 0)?;
    }
    let (before, now) = (own.unwrap_or_default(), Held::of("self")?);
    println!("host behind the first kind: {before}; behind the last one: {now}");
    let total = count * kinds.len();
    println!("interrupts: {total} cases in {:.0?}", begun.elapsed());
    Ok(())
}

/// Interrupts one kind of code.
fn run(session: &Session, count: usize, random: &mut Random) -> Result<()> {
    let kind = session.kind;
    let mut times = Vec::with_capacity(count);
    let mut skipped = 0;
    let mut first = None;
    for time in 0..count {
        // The first one of each process has time to make what is made once.
        let us = if time == 0 { 100_000 } else { 50 + random.next() % 950 };
        let timeout = Duration::from_micros(us);
        let ended = session.interrupt(timeout);
        let ended = ended.map_err(|error| format!("{}: {time}: {error}", kind.name()))?;
        let Ended { late, cleanups_skipped } = ended;
        times.push(late);
        skipped += cleanups_skipped;
        let whole = session.check(skipped);
        whole.map_err(|error| format!("{}: {time}: {error}", kind.name()))?;
        if time == FIRST.min(count / 2) {
            first = Some((time, session.held()?));
        }
    }
    let mut memory = String::new();
    if let Some((time, first)) = first {
        let now = session.held()?;
        now.check(first, count - time, kind.buffer_kib())
            .map_err(|error| format!("{}: {error}", kind.name()))?;
        memory = format!("{} to {} KiB", first.memory_kib, now.memory_kib);
    }
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 1000].as_secs_f64() * 1e6;
    let [p50, p99, p999, max] = [500, 990, 999, 1000].map(at);
    println!(
        "| {} | {count} | {p50:.0} | {p99:.0} | {p999:.0} | {max:.0} | {skipped} | {memory} |",
        kind.name()
    );
    Ok(())
}

/// Numbers that look random: xorshift, by Marsaglia.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
