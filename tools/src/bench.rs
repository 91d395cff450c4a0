//! `farcall bench`: round trips against the hardware floor, pipes and sockets, in one screen; or the way from objects to
//! `main` against a linker's.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use farcall_bench::{Effort, LinkRace, LinkReport, Plan, Report, Size, Versus};
use indicatif::{ProgressBar, ProgressStyle};

use crate::status::{Failure, TOOL};

/// Fewer rounds than this say nothing.
const ROUNDS_MIN: usize = 20;
/// More threads than this are not worth a row.
const THREADS_MAX: usize = 256;
/// More calls than this are never under way in a pipeline.
const CALLS_MAX: usize = farcall::limits::PIPELINE_CALLS_MAX;
/// Steps of the progress bar.
const STEPS: f64 = 1_000.0;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Measure for at least this long.
    #[arg(long, value_name = "N", default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// What else makes round trips: pipe, unix, tcp, futex, eventfd, local, spin (farcall without sleep).
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "pipe,unix")]
    vs: Vec<Versus>,
    /// Payloads to carry there and back besides 8 bytes: 64, 4K, 1M.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sizes: Vec<Size>,
    /// Let so many threads call at once, in a row of their own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    threads: usize,
    /// Have so many calls under way at a time, in a row of their own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = calls)]
    pipeline: usize,
    /// Print the figures as one JSON object.
    #[arg(long)]
    json: bool,
    /// Write each row's latencies to a .hgrm file in this directory.
    #[arg(long, value_name = "DIRECTORY")]
    hgrm: Option<PathBuf>,
    /// Draw the latencies.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Measure `farcall run` of these objects and archives against linking them with ld.lld (or ld) and running that.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["vs", "sizes", "threads", "pipeline", "hgrm", "svg"])]
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
    let text = if options.link.is_empty() { measure(options) } else { race(options) };
    println!("{}", text.map_err(|error| Failure::new(TOOL, error))?.trim_end());
    Ok(0)
}

/// Runs the contests and writes what was asked for; returns the table or the JSON.
fn measure(options: &Options) -> farcall_bench::Result<String> {
    let duration_min = Duration::from_secs_f64(options.seconds);
    let mut plan = Plan::new(Effort { rounds_min: ROUNDS_MIN, duration_min })?;
    plan.versus.clone_from(&options.vs);
    plan.sizes.clone_from(&options.sizes);
    plan.threads = options.threads;
    plan.in_flight = options.pipeline;
    plan.command = Some(std::env::current_exe()?);
    let report = run(&plan)?;
    if let Some(directory) = &options.hgrm {
        report.write_hgrm(directory)?;
    }
    if let Some(path) = &options.svg {
        report.write_svg(path)?;
    }
    Ok(if options.json { report.to_json() } else { report.to_string() })
}

/// Runs the plan behind a bar, which is seen on terminals alone.
fn run(plan: &Plan) -> farcall_bench::Result<Report> {
    #[expect(clippy::cast_possible_truncation, reason = "a share of the steps")]
    #[expect(clippy::cast_sign_loss, reason = "a share is positive")]
    let steps = |share: f64| (share * STEPS) as u64;
    let bar = ProgressBar::new(steps(1.0));
    bar.set_style(ProgressStyle::with_template("{msg:10} {wide_bar} {percent:3} % {elapsed}")?);
    let report = plan.run(&mut |what, share| {
        if bar.message() != what {
            bar.set_message(what);
        }
        bar.set_position(steps(share));
    });
    bar.finish_and_clear();
    report
}

fn race(options: &Options) -> farcall_bench::Result<String> {
    let farcall = std::env::current_exe()?;
    let mut race = LinkRace::new(&farcall, &options.link, &options.libraries, &options.args)?;
    let report: LinkReport = race.run(ROUNDS_MIN, Duration::from_secs_f64(options.seconds))?;
    Ok(if options.json { report.to_json() } else { report.to_string() })
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text}: not a number"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(_) => Ok(seconds),
        Err(error) => Err(format!("{text}: {error}")),
    }
}

fn threads(text: &str) -> Result<usize, String> {
    up_to(text, THREADS_MAX, "threads")
}

fn calls(text: &str) -> Result<usize, String> {
    up_to(text, CALLS_MAX, "calls")
}

fn up_to(text: &str, most: usize, what: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{text}: not a number of {what} from 1 to {most}"))
}
