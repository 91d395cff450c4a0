//! Runs the standard rows alone: `farcall-bench [--rounds N] [--json]`.
//!
//! Invariant: a small host for tests of the harness; `farcall bench` is the command for users.

use std::process::ExitCode;
use std::time::Duration;

use farcall_bench::{Contest, CpuPair, Effort, Result, serve_if_child};

fn main() -> ExitCode {
    serve_if_child();
    farcall::executor::serve_if_asked();
    match run() {
        Ok(text) => {
            println!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("farcall-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String> {
    let (mut rounds_min, mut as_json) = (200, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds_min = args.next().ok_or("--rounds needs a number")?.parse()?,
            "--json" => as_json = true,
            other => return Err(format!("{other}: not one of --rounds N, --json").into()),
        }
    }
    let effort = Effort { rounds_min, duration_min: Duration::ZERO };
    let report = Contest::new(CpuPair::first_two()?)?.run(effort)?;
    Ok(if as_json { report.to_json() } else { report.to_string() })
}
