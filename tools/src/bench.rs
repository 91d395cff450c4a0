//! `farcall bench`: round trips against the hardware floor, pipes and sockets, in one screen; or the way from objects to
//! `main` against a linker's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use farcall_bench::{Contest, CpuPair, Effort, LinkRace, LinkReport, Report};

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
    /// Measure `farcall run` of these objects and archives against linking them with ld.lld (or ld) and running that.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    link: Vec<PathBuf>,
    /// With --link: link with this library.
    #[arg(short = 'l', value_name = "NAME", requires = "link")]
    libraries: Vec<String>,
    /// With --link: the program's arguments; best such that it ends at once.
    #[arg(last = true, value_name = "ARGS", requires = "link")]
    args: Vec<OsString>,
}

/// Measures and prints; the status is 0.
pub(crate) fn bench(options: &Options) -> Result<i32, Failure> {
    if !options.link.is_empty() {
        let report = race(options).map_err(|error| Failure::new(TOOL, error))?;
        if options.json {
            println!("{}", report.to_json())
        } else {
            print!("{report}")
        }
        return Ok(0);
    }
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

fn race(options: &Options) -> farcall_bench::Result<LinkReport> {
    let farcall = std::env::current_exe()?;
    let mut race = LinkRace::new(&farcall, &options.link, &options.libraries, &options.args)?;
    race.run(ROUNDS_MIN, Duration::from_secs_f64(options.seconds))
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text}: not a number"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(_) => Ok(seconds),
        Err(error) => Err(format!("{text}: {error}")),
    }
}
