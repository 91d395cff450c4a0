//! Mutation testing: variants of a program run against its tests, each in a copy of one executor. A copy may crash or hang.
//!
//! The state that the tests need is prepared once, before the snapshot. Each variant finds it as it was then, and is linked beside it.

mod compile;

use std::error::Error;
use std::time::{Duration, Instant};

use farcall::ErrorKind;
use farcall::controller::{CallOptions, ExecutorBuilder, Library, Snapshot};
use farcall::link::ObjectFile;

/// Runs before the snapshot.
const FIXTURE: &str = "
    #include <stdlib.h>
    int *values;
    int runs;
    void prepare(void) {
        values = malloc(4 * sizeof *values);
        for (int i = 0; i < 4; i++) values[i] = i < 3 ? i + 5 : 1000;
    }
";

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
    extern int *values, runs;
    int first_failure(void) {
        if (runs++ != 0) return 9; /* another variant was here */
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
const RUNS: u32 = 100;

fn main() -> Result<(), Box<dyn Error>> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let executor = ExecutorBuilder::new().this_program().start()?;
    let fixture = executor.library("fixture");
    fixture.add_object(&compile::compile("fixture.o", FIXTURE)?)?;
    fixture.function::<extern "C" fn()>("prepare").bind()?.call(())?;
    let snapshot = Snapshot::take(executor)?;

    let tests = compile::compile("tests.o", TESTS)?;
    let original = compile::compile("original.o", PROGRAM)?;
    let started = Instant::now();
    for _ in 0..RUNS {
        if run(&snapshot, &fixture, &original, &tests)? != 0 {
            return Err("the tests fail without a mutation".into());
        }
    }
    let each = started.elapsed() / RUNS;
    println!("the program itself: {RUNS} copies, linked and run in {each:.1?} each");
    for (before, after) in MUTATIONS {
        let mutant = compile::compile("mutant.o", &PROGRAM.replacen(before, after, 1))?;
        let verdict = match run(&snapshot, &fixture, &mutant, &tests) {
            Ok(0) => "SURVIVED: no test tells it from the original".to_owned(),
            Ok(test) => format!("killed by test {test}"),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::Timeout) => {
                format!("killed: it still ran after {TIMEOUT:?}")
            }
            Err(error) => format!("killed: {error}"),
        };
        println!("{before:>13} -> {after:22} {verdict}");
    }
    Ok(())
}

/// Runs the tests of a program in a copy of its own, which ends here. Returns the number of the first failure, or 0.
fn run(
    snapshot: &Snapshot,
    fixture: &Library,
    program: &ObjectFile,
    tests: &ObjectFile,
) -> farcall::Result<i32> {
    let copy = snapshot.spawn()?;
    let dylib = fixture.in_copy(&copy)?;
    dylib.add_object(program)?;
    dylib.add_object(tests)?;
    dylib
        .function::<extern "C" fn() -> i32>("first_failure")
        .bind()?
        .call_with(&CallOptions::new().timeout(TIMEOUT), ())
}
