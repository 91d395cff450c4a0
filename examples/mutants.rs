//! Mutation testing: variants of a program run against its tests in another process. That process may crash or hang.
//!
//! The tests are parsed once; every link borrows them. After a variant that ends its executor a new one starts, in a few
//! milliseconds. All other variants share one executor.

mod compile;

use std::error::Error;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use farcall::controller::{Controller, Dylib, ExecutorBuilder};
use farcall::link::ObjectFile;

const PROGRAM: &str = "
    int clamp(int x, int low, int high) {
        if (x < low) return low;
        if (x > high) return high;
        return x;
    }
    int sum(const int *values, int count) {
        int sum = 0;
        for (int i = 0; i < count; i++) sum += values[i];
        return sum;
    }
";

/// Returns the number of the first test that fails.
const TESTS: &str = "
    int clamp(int, int, int), sum(const int *, int);
    static int runs;
    int main(void) {
        static const int values[] = {5, 6, 7, 1000};
        if (runs++ != 0) return 9; /* only fresh data passes */
        if (clamp(-5, 0, 10) != 0) return 1;
        if (clamp(50, 0, 10) != 10) return 2;
        if (clamp(5, 0, 10) != 5) return 3;
        return sum(values, 3) == 18 ? 0 : 4;
    }
";

/// The mutations: a piece of the program, and its replacement.
const MUTATIONS: [(&str, &str); 7] = [
    ("x < low", "x <= low"),
    ("x < low", "x > low"),
    ("return high", "return low"),
    ("sum += values", "sum -= values"),
    ("i < count", "i <= count"),
    ("values[i]", "values[i - (1L << 40)]"),
    ("i++", ""),
];

const TIMEOUT: Duration = Duration::from_millis(500);
const RUNS: u32 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let tests = compile::compile("tests.o", TESTS)?;
    let mut controller = start()?;

    let original = link(&controller, PROGRAM, &tests)?;
    let started = Instant::now();
    for _ in 0..RUNS {
        if original.run_fresh(["tests"])? != 0 {
            return Err("the tests fail without a mutation".into());
        }
    }
    let each = started.elapsed() / RUNS;
    println!("the program itself: {RUNS} runs with fresh data, linked once, {each:.1?} each");
    for (before, after) in MUTATIONS {
        let mutant = link(&controller, &PROGRAM.replacen(before, after, 1), &tests)?;
        let verdict = verdict(&controller, &mutant);
        println!("{before:>13} -> {after:22} {verdict}");
        if mutant.clear().is_err() {
            controller = start()?;
        }
    }
    Ok(())
}

fn start() -> farcall::Result<Controller> {
    ExecutorBuilder::new().this_program().start()
}

fn link(
    controller: &Controller,
    source: &str,
    tests: &ObjectFile,
) -> Result<Dylib, Box<dyn Error>> {
    let dylib = controller.create_dylib("mutant");
    dylib.keep_initial_data();
    dylib.add_object(&compile::compile("mutant.o", source)?)?;
    dylib.add_object(tests)?;
    dylib.link()?;
    Ok(dylib)
}

/// Runs the tests for at most [`TIMEOUT`].
fn verdict(controller: &Controller, mutant: &Dylib) -> String {
    let killer = controller.kill_handle();
    let (ended, end) = mpsc::channel::<()>();
    let timer = std::thread::spawn(move || {
        let is_late = end.recv_timeout(TIMEOUT) == Err(RecvTimeoutError::Timeout);
        if is_late {
            killer.kill();
        }
        is_late
    });
    let outcome = mutant.run_fresh(["tests"]);
    drop(ended);
    match (outcome, timer.join()) {
        (_, Ok(true)) => format!("killed: it still ran after {TIMEOUT:?}"),
        (Ok(0), _) => "SURVIVED: no test tells it from the original".to_owned(),
        (Ok(test), _) => format!("killed by test {test}"),
        (Err(error), _) => format!("killed: {error}"),
    }
}
