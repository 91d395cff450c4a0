//! Tries millions of cases. They are the linker on damaged files and random programs, or the controller's side of a lane on an
//! executor that writes arbitrary words.
//!
//!     cargo run --release -p farcall-fuzz -- [CASES] [FIRST] [x86-64|aarch64]
//!     RUSTFLAGS="--cfg model --cfg hostile" CARGO_TARGET_DIR=target/hostile cargo run --release -p farcall-fuzz -- ...
//!
//! A case follows from its number, so a failed case can be repeated alone. A case fails when the code panics, makes something
//! wrong, takes too long, or takes too much memory.
//!
//! Invariant: the cases do not depend on the number of threads.

mod allocator;
#[cfg(not(hostile))]
mod case;
#[cfg(hostile)]
#[path = "lane.rs"]
mod case;
#[cfg(not(hostile))]
mod corpus;
mod watch;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use allocator::Counting;
use case::{NAME, Totals};
use watch::Watch;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The number of cases, unless the command line gives one.
const CASES: u64 = 1_000_000;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| match arguments.next() {
        Some(text) => text.parse().expect("CASES and FIRST are numbers"),
        None => default,
    };
    let (cases, first) = (number(CASES), number(0));
    match run(first, cases, arguments.next()) {
        Ok(totals) => {
            println!("{NAME}: {cases} cases: {totals}");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("{NAME}: {what}");
            ExitCode::FAILURE
        }
    }
}

/// Runs some cases, and stops at the first that fails. The linker's cases are for a processor.
fn run(first: u64, cases: u64, processor: Option<String>) -> Result<Totals, String> {
    let corpus = case::prepare(processor)?;
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let (next, end) = (AtomicU64::new(first), first.saturating_add(cases));
    let watch = Watch::new(threads);
    let work = |worker| {
        let mut totals = Totals::default();
        let outcome = loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                break Ok(());
            }
            watch.begin(worker, number);
            if let Err(what) = case::run(number, &corpus, &mut totals) {
                next.store(end, Ordering::Relaxed);
                break Err(format!("case {number}: {what}"));
            }
        };
        watch.end(worker);
        outcome.map(|()| totals)
    };
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|worker| scope.spawn(move || work(worker))).collect();
        watch.run();
        let mut all = Totals::default();
        for worker in workers {
            all.add(&worker.join().expect("a worker catches the panics of its cases")?);
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few enough for a run without optimisation.
    const CASES: u64 = 20_000;

    #[test]
    fn cases_do_no_harm() {
        do_no_harm(None);
    }

    #[test]
    #[cfg(not(hostile))]
    fn cases_for_aarch64_do_no_harm() {
        do_no_harm(Some("aarch64"));
        assert!(run(0, 1, Some("z80".to_owned())).unwrap_err().contains("is no processor"));
    }

    fn do_no_harm(processor: Option<&str>) {
        let totals = run(0, CASES, processor.map(str::to_owned)).unwrap();
        println!("{NAME}: {CASES} cases: {totals}");
        assert!(totals.has_both(CASES / 10), "{totals}");
    }
}
