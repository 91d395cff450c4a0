//! A judge: runs submissions in C, which may be wrong or hostile, against tests, and prints a verdict for each.
//!
//! Each submission has an executor of its own, strictly confined: it can compute, and nothing else. A submission that hangs is interrupted
//! at its deadline, and killed if that is not possible. The compiler is not confined here; a judge for strangers runs it in a container,
//! since `#include` reads files.

mod compile;

use std::error::Error;
use std::time::{Duration, Instant};

use farcall::controller::{CallOptions, Confinement, ExecutorBuilder, RestartPolicy};
use farcall::{Error as Failure, ErrorKind};

/// The task: the sum of the squares of 1 to n. Arguments, and what is right.
const TESTS: [(i64, i64); 4] = [(0, 0), (1, 1), (3, 14), (100, 338_350)];

const SUBMISSIONS: [(&str, &str); 9] = [
    ("loop", "long solve(long n) { long s = 0; for (long i = 1; i <= n; i++) s += i * i; return s; }"),
    ("formula", "long solve(long n) { return n * (n + 1) * (2 * n + 1) / 6; }"),
    ("off by one", "long solve(long n) { long s = 0; for (long i = 1; i < n; i++) s += i * i; return s; }"),
    ("no braces", "long solve(long n) { return n * "),
    ("crash", "long solve(long n) { return n < 3 ? n : *(volatile long *)n; }"),
    ("endless", "long solve(long n) { for (volatile long i = 0;; i++); }"),
    (
        "memory bomb",
        "#include <stdlib.h>\n#include <string.h>\n
        long solve(long n) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
    ),
    (
        "file reader",
        "#include <fcntl.h>\n#include <unistd.h>\n
        long solve(long n) { char c; return read(open(\"/etc/passwd\", O_RDONLY), &c, 1) == 1 ? 338350 : -1; }",
    ),
    ("fork bomb", "#include <unistd.h>\nlong solve(long n) { for (;;) fork(); }"),
];

const DEADLINE: Duration = Duration::from_millis(200);
const MEMORY_BYTES_MAX: u64 = 64 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let confinement = Confinement::strict().memory_bytes_max(MEMORY_BYTES_MAX).descriptors_max(64);
    let builder = ExecutorBuilder::new().this_program().confine(confinement.allow_missing());
    println!("{}", builder.start()?.process()?.confinement());
    for (name, source) in SUBMISSIONS {
        let started = Instant::now();
        let verdict = judge(&builder, source)?;
        println!("{name:12} {verdict} ({:.0?})", started.elapsed());
    }
    Ok(())
}

/// The verdict on a submission.
fn judge(builder: &ExecutorBuilder, source: &str) -> Result<String, Box<dyn Error>> {
    let Ok(object) = compile::compile("submission.o", source) else {
        return Ok("does not compile".to_owned());
    };
    let executor = builder.clone().restart(RestartPolicy::new().kill_on_timeout()).start()?;
    let dylib = executor.library("submission");
    dylib.add_object(&object)?;
    let solve = dylib.function::<extern "C" fn(i64) -> i64>("solve");
    for (number, (argument, right)) in (1..).zip(TESTS) {
        match solve.call_with(&CallOptions::new().timeout(DEADLINE), (argument,)) {
            Ok(answer) if answer == right => {}
            Ok(answer) => return Ok(format!("wrong answer in test {number}: {answer}")),
            Err(error) => return Ok(format!("{} in test {number}", reason(&error))),
        }
    }
    Ok(format!("accepted: {} tests", TESTS.len()))
}

fn reason(error: &Failure) -> String {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::Timeout => format!("time limit of {DEADLINE:?}"),
        _ => error.to_string(),
    }
}
