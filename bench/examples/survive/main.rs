//! The cost of surviving: `survive restart|calls|starts|bombs [ROUNDS]`.
//!
//! - `restart`: supervised executors, from a death to the next right answer.
//! - `calls`: by handles that survive, and by level of confinement.
//! - `starts`: by level of confinement and by fork; the memory of the sweeper.
//! - `bombs`: the calls of one executor while another one runs a bomb.
//!
//! Invariant: what is compared is measured in turns. Where calls are timed, the calling thread is on the first CPU, and its
//! executor on the second; all else runs on any.

mod bombs;
mod calls;
mod restarts;
mod starts;

use std::time::{Duration, Instant};

use farcall::link::ObjectFile;
use farcall_bench::{CpuPair, Result, TinyObject};

const USAGE: &str = "usage: survive restart|calls|starts|bombs [ROUNDS]";

fn main() -> Result<()> {
    farcall::executor::run_if_spawned();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [part, rounds @ ..] = &args[..] else { return Err(USAGE.into()) };
    if *part == restarts::NOTHING {
        return Ok(());
    }
    let rounds: usize = rounds.first().unwrap_or(&"200").parse()?;
    let cpus = CpuPair::first_two()?;
    match *part {
        "restart" => restarts::run(rounds),
        "calls" => calls::run(rounds, cpus),
        "starts" => starts::run(rounds),
        "bombs" => bombs::run(rounds, cpus),
        _ => Err(USAGE.into()),
    }
}

/// The times of one kind of event.
#[derive(Debug, Default)]
struct Times(Vec<Duration>);

impl Times {
    fn add(&mut self, since: Instant) {
        self.0.push(since.elapsed());
    }

    /// The time within which this many of a thousand events lay.
    fn quantile(&mut self, of_thousand: usize) -> Duration {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * of_thousand / 1000).copied().unwrap_or_default()
    }

    fn print(&mut self, name: &str) {
        let [p50, p99, p999] = [500, 990, 999].map(|part| self.quantile(part));
        let count = self.0.len();
        println!("{name:47} p50 {p50:>8.1?}  p99 {p99:>8.1?}  p99.9 {p999:>8.1?}  of {count}");
    }
}

/// An object whose functions, `function_N` for these numbers, return their numbers.
fn functions(name: &str, numbers: std::ops::Range<u32>) -> Result<ObjectFile> {
    let object = numbers.fold(TinyObject::new(), |object, number| {
        // mov eax, number; ret
        let [a, b, c, d] = number.to_le_bytes();
        object.function(&format!("function_{number}"), &[0xb8, a, b, c, d, 0xc3])
    });
    Ok(ObjectFile::parse(name, object.bytes())?)
}
