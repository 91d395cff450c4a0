//! Runs a plan, counted in rounds: a small host for tests of the harness. `farcall bench` is the command for users.

use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use farcall_bench::{Effort, Plan, Result, serve_if_child};

const OPTIONS: &str = "--rounds, --vs, --size, --threads, --pipeline, --only, --bars, --json";

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
    let mut plan = Plan::new(Effort { rounds_min: 200, duration: Duration::ZERO })?;
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
            "--only" => plan.only.push(value()?),
            "--bars" => plan.has_bars = true,
            "--json" => as_json = true,
            other => return Err(format!("{other}: not one of {OPTIONS}").into()),
        }
    }
    let report = plan.run(&mut |_, _| ControlFlow::Continue(()))?;
    if as_json { report.to_json() } else { Ok(report.to_string()) }
}
