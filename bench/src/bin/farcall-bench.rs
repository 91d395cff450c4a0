//! Runs a plan: `farcall-bench [--rounds N] [--vs NAME]... [--size SIZE]... [--threads N] [--pipeline N] [--json]`.
//!
//! Invariant: a small host for tests of the harness; `farcall bench` is the command for users.

use std::process::ExitCode;
use std::time::Duration;

use farcall_bench::{Effort, Plan, Result, serve_if_child};

fn main() -> ExitCode {
    serve_if_child();
    farcall::executor::run_if_spawned();
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
    let mut plan = Plan::new(Effort { rounds_min: 200, duration_min: Duration::ZERO })?;
    let mut as_json = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--rounds" => plan.effort.rounds_min = value()?.parse()?,
            "--vs" => plan.versus.push(value()?.parse()?),
            "--size" => plan.sizes.push(value()?.parse()?),
            "--threads" => plan.threads = value()?.parse()?,
            "--pipeline" => plan.in_flight = value()?.parse()?,
            "--json" => as_json = true,
            other => {
                return Err(format!(
                    "{other}: not one of --rounds, --vs, --size, --threads, --pipeline, --json"
                )
                .into());
            }
        }
    }
    let report = plan.run(&mut |_, _| {})?;
    Ok(if as_json { report.to_json() } else { report.to_string() })
}
