//! `farcall bench`: round trips against the hardware floor, pipes and sockets, in one screen.

use std::time::Duration;

use farcall_bench::{Contest, CpuPair, Effort, Report};

use crate::status::{Failure, TOOL};

/// Fewer rounds than this say nothing.
const ROUNDS_MIN: usize = 20;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Measure for at least this long.
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Print the figures as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Measures and prints; the status is 0.
pub(crate) fn bench(options: &Options) -> Result<i32, Failure> {
    let report = measure(options).map_err(|error| Failure::new(TOOL, error))?;
    if options.json {
        println!("{}", report.to_json());
    } else {
        print!("{report}");
    }
    Ok(0)
}

fn measure(options: &Options) -> farcall_bench::Result<Report> {
    let duration_min = Duration::from_secs_f64(options.seconds);
    Contest::new(CpuPair::first_two()?)?.run(Effort { rounds_min: ROUNDS_MIN, duration_min })
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text}: not a number"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(_) => Ok(seconds),
        Err(error) => Err(format!("{text}: {error}")),
    }
}
