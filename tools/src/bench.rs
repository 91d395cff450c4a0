//! `farcall bench`: round trips against the hardware floor, pipes and sockets, in one screen; or the way from objects to
//! `main` against a linker's.
//!
//! Invariant: all input is read and all output files are open before anything is measured.

use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use farcall_bench::Progress;
use farcall_bench::{
    BusyPlan, CpuPair, Effort, LinkRace, Origin, Output, Plan, Repeats, Report, Size, Soak, Versus,
};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::status::{Failure, INTERRUPTED, TOOL, WORSE};

/// A row has at most this many threads.
const THREADS_MAX: usize = 256;
/// A pipeline has at most this many calls in flight.
const CALLS_MAX: usize = farcall::limits::PIPELINE_CALLS_MAX;
/// The length of a run, of a run beside neighbours, and of a run that is repeated.
const SECONDS: f64 = 5.0;
const BUSY_SECONDS: f64 = 60.0;
const REPEATED_SECONDS: f64 = 2.0;
/// Steps of the progress bar.
const STEPS: f64 = 1_000.0;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Length of the whole run, in seconds: 5 if absent, with --busy 60; 0 measures one round. With --repeat: of each run, 2.
    #[arg(long, value_name = "N", value_parser = seconds)]
    seconds: Option<f64>,
    /// CPU of the calling thread and CPU of the servers, as 0,1; the first two allowed ones if absent.
    #[arg(long, value_name = "A,B")]
    cpus: Option<CpuPair>,
    /// Other transports to measure: pipe, unix, tcp, futex, eventfd, local, spin (farcall without sleep).
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "pipe,unix")]
    vs: Vec<Versus>,
    /// Payloads to carry there and back besides 8 bytes: 64, 4K, 1M.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sizes: Vec<Size>,
    /// Add a row with N threads that call at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = threads)]
    threads: usize,
    /// Add a row with N calls in flight over one pipeline.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = calls)]
    pipeline: usize,
    /// Measure this row only, by its name in the report, as "null call" or link; may be repeated. The floors stay.
    #[arg(long, value_name = "ROW")]
    only: Vec<String>,
    /// Save the report, with all histograms, as JSON in this file.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Compare each row with a saved report: better, worse or within noise. A worse row makes the exit code 1.
    #[arg(long, value_name = "FILE", conflicts_with = "csv")]
    compare: Option<PathBuf>,
    /// Judge the figures by the limits that the project sets itself: met or MISSED. They do not change the exit code.
    #[arg(long)]
    bars: bool,
    /// Print the report as one JSON object instead of text.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print the rows as CSV instead of text. Warnings go to standard error.
    #[arg(long)]
    csv: bool,
    /// Write the latencies of each row to a .hgrm file (the text form of HdrHistogram) in this directory.
    #[arg(long, value_name = "DIRECTORY")]
    hgrm: Option<PathBuf>,
    /// Draw the latencies as small panels of curves in an SVG file; with --link the time per object.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Measure farcall run of these objects and archives against linking them with wild, mold and ld.lld and running that.
    /// Without FILE, generated programs of 1 to 60,000 objects, with an archive of 10^6 symbols, and with 200 MB of data.
    #[arg(
        long, value_name = "FILE", num_args = 0..,
        conflicts_with_all = [
            "cpus", "vs", "sizes", "threads", "pipeline", "save", "compare", "bars", "csv", "hgrm"
        ]
    )]
    link: Option<Vec<PathBuf>>,
    /// Measure calls beside neighbours that want the CPU: busy loops, a build, a quota, other threads. LOAD is the name of one
    /// load, such as each-1; without LOAD all of them.
    #[arg(
        long, value_name = "LOAD", num_args = 0..,
        conflicts_with_all = [
            "vs", "sizes", "threads", "pipeline", "save", "compare", "bars", "hgrm", "svg", "link"
        ]
    )]
    busy: Option<Vec<String>>,
    /// With --busy: make N runs (20 if absent) of each named load, or each unpinned one, with new processes, and show the worst.
    #[arg(
        long, value_name = "N", num_args = 0..=1, default_missing_value = "20", requires = "busy",
        conflicts_with = "csv", value_parser = clap::value_parser!(u16).range(1..)
    )]
    repeat: Option<u16>,
    /// Make N calls (10^8 if absent) under a load that changes every 10 ms. Each call must return within 2 seconds.
    #[arg(
        long, value_name = "N", num_args = 0..=1, default_missing_value = "100000000",
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with_all = [
            "seconds", "vs", "sizes", "threads", "pipeline", "only", "save", "compare", "bars", "csv", "hgrm",
            "svg", "link", "busy"
        ]
    )]
    soak: Option<u64>,
    /// With --link: link with this library.
    #[arg(short = 'l', value_name = "NAME", requires = "link")]
    libraries: Vec<String>,
    /// With --link: the program's arguments; choose them so that the program ends at once.
    #[arg(last = true, value_name = "ARGS", requires = "link")]
    args: Vec<OsString>,
}

impl Options {
    /// The length of a run, `default` if no other was asked for.
    fn duration(&self, default: f64) -> Duration {
        Duration::from_secs_f64(self.seconds.unwrap_or(default))
    }
}

/// Measures and prints; returns the exit code.
///
/// # Errors
/// Bad input, an output file that cannot be written, a busy or missing CPU, and a process that fails.
pub(crate) fn bench(options: &Options) -> Result<i32, Failure> {
    let done = match options {
        Options { link: Some(files), .. } => race(options, files),
        Options { soak: Some(calls), .. } => soak(options, *calls),
        Options { busy: Some(loads), repeat: Some(runs), .. } => repeat(options, loads, *runs),
        Options { busy: Some(loads), .. } => busy(options, loads),
        _ => measure(options),
    };
    done.map_err(|error| Failure::new(TOOL, error))
}

/// Runs the plan, writes the files and prints the report.
fn measure(options: &Options) -> farcall_bench::Result<i32> {
    let plan = plan(options)?;
    plan.check()?;
    let saved = options.compare.as_deref().map(read_saved).transpose()?;
    let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
    let (save, svg) = (open(&options.save)?, open(&options.svg)?);
    if let Some(directory) = &options.hgrm {
        Output::check_directory(directory)?;
    }
    let mut report = shown(|progress| plan.run(progress))?;
    if let Some(saved) = &saved {
        report.changes = Some(report.changes_since(saved));
    }
    // The figures are printed even if a disk became full meanwhile.
    print(options, &report)?;
    if let Some(output) = save {
        output.write(report.to_json()?.as_bytes())?;
    }
    if let Some(output) = svg {
        output.write(report.to_svg()?.as_bytes())?;
    }
    if let Some(directory) = &options.hgrm {
        report.write_hgrm(directory)?;
    }
    let is_worse = report.changes.is_some_and(|changes| changes.is_worse());
    Ok(if report.is_partial { INTERRUPTED } else { i32::from(is_worse) * WORSE })
}

fn plan(options: &Options) -> farcall_bench::Result<Plan> {
    let duration = options.duration(SECONDS);
    let mut plan = Plan::new(Effort { rounds_min: 1, duration })?;
    plan.cpus = options.cpus.unwrap_or(plan.cpus);
    plan.versus.clone_from(&options.vs);
    plan.sizes.clone_from(&options.sizes);
    plan.threads = options.threads;
    plan.in_flight = options.pipeline;
    plan.only.clone_from(&options.only);
    plan.has_bars = options.bars;
    plan.command = Some(std::env::current_exe()?);
    plan.origin = origin();
    Ok(plan)
}

/// This build and the flags behind `farcall bench`.
fn origin() -> Origin {
    let flags = std::env::args_os().skip(2).map(|flag| flag.to_string_lossy().into_owned());
    Origin::new(option_env!("FARCALL_COMMIT"), flags.collect())
}

/// Reads the report that `--save` wrote.
fn read_saved(path: &Path) -> farcall_bench::Result<Report> {
    let complain = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| complain(&error))?;
    Ok(Report::from_json(&text).map_err(|error| complain(&error))?)
}

/// Runs a plan behind a progress bar, which only a terminal shows. An interrupt ends the run after the current step, and the
/// report is partial.
fn shown<T>(
    run: impl FnOnce(&mut Progress<'_>) -> farcall_bench::Result<T>,
) -> farcall_bench::Result<T> {
    // Blocked here and, by inheritance, in all processes that the plan starts: the terminal sends an interrupt to each of them.
    let interrupt = SigSet::from(Signal::SIGINT);
    interrupt.thread_block()?;
    let interrupts =
        SignalFd::with_flags(&interrupt, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    #[expect(clippy::cast_possible_truncation, reason = "a share of the steps")]
    #[expect(clippy::cast_sign_loss, reason = "a share is positive")]
    let steps = |share: f64| (share * STEPS) as u64;
    let bar = ProgressBar::new(steps(1.0));
    bar.set_style(ProgressStyle::with_template("{msg:10} {wide_bar} {percent:3} % {elapsed}")?);
    let report = run(&mut |what, share| {
        if bar.message() != what {
            bar.set_message(what);
        }
        bar.set_position(steps(share));
        match interrupts.read_signal() {
            Ok(Some(_)) => ControlFlow::Break(()),
            Ok(None) | Err(_) => ControlFlow::Continue(()),
        }
    });
    bar.finish_and_clear();
    // An interrupt in the last step changes nothing; the next one ends this process as usual.
    while let Ok(Some(_)) = interrupts.read_signal() {}
    interrupt.thread_unblock()?;
    report
}

/// Prints the report in the form that was asked for.
fn print(options: &Options, report: &Report) -> farcall_bench::Result<()> {
    let content = if options.csv {
        for warning in &report.warnings {
            eprintln!("farcall: warning: {warning}");
        }
        report.to_csv()?
    } else if options.json {
        format!("{}\n", report.to_json()?).into_bytes()
    } else {
        report.to_string().into_bytes()
    };
    write_out(&content)
}

fn write_out(content: &[u8]) -> farcall_bench::Result<()> {
    let written = std::io::stdout().write_all(content);
    Ok(written.map_err(|error| format!("standard output: {error}"))?)
}

/// Runs the races against linkers and prints their report.
fn race(options: &Options, files: &[PathBuf]) -> farcall_bench::Result<i32> {
    let svg = options.svg.as_deref().map(Output::open).transpose()?;
    let race = LinkRace {
        farcall: std::env::current_exe()?,
        origin: origin(),
        duration: options.duration(SECONDS),
        only: options.only.clone(),
    };
    let report = match files {
        [] => race.of_generated()?,
        _ => race.of_files(files, &options.libraries, &options.args)?,
    };
    let text = if options.json { report.to_json()? } else { report.to_string() };
    write_out(format!("{}\n", text.trim_end()).as_bytes())?;
    if let Some(output) = svg {
        output.write(report.to_svg()?.as_bytes())?;
    }
    Ok(0)
}

/// Measures calls beside neighbours, and prints their report.
fn busy(options: &Options, loads: &[String]) -> farcall_bench::Result<i32> {
    let mut plan = BusyPlan::new(options.duration(BUSY_SECONDS))?;
    plan.cpus = options.cpus.unwrap_or(plan.cpus);
    plan.loads = loads.to_vec();
    plan.only.clone_from(&options.only);
    plan.origin = origin();
    plan.check()?;
    let report = shown(|progress| plan.run(progress))?;
    if options.csv {
        write_out(&report.to_csv()?)?;
    } else {
        let text = if options.json { report.to_json()? } else { report.to_string() };
        write_out(format!("{}\n", text.trim_end()).as_bytes())?;
    }
    Ok(if report.is_partial { INTERRUPTED } else { 0 })
}

/// Measures loads again and again, and prints the worst run.
fn repeat(options: &Options, loads: &[String], runs: u16) -> farcall_bench::Result<i32> {
    let repeats = Repeats {
        cpus: options.cpus.map_or_else(CpuPair::first_two, Ok)?,
        loads: loads.to_vec(),
        only: options.only.clone(),
        runs: runs.into(),
        run: options.duration(REPEATED_SECONDS),
        origin: origin(),
    };
    repeats.check()?;
    let report = shown(|progress| repeats.run(progress))?;
    let text = if options.json { report.to_json()? } else { report.to_string() };
    write_out(format!("{}\n", text.trim_end()).as_bytes())?;
    Ok(if report.is_partial { INTERRUPTED } else { 0 })
}

/// Makes calls under a load that changes.
fn soak(options: &Options, calls: u64) -> farcall_bench::Result<i32> {
    let soak = Soak { cpus: options.cpus.map_or_else(CpuPair::first_two, Ok)?, calls };
    let soaked = shown(|progress| soak.run(progress))?;
    let text = if options.json { soaked.to_json()? } else { soaked.to_string() };
    write_out(format!("{text}\n").as_bytes())?;
    Ok(if soaked.is_partial { INTERRUPTED } else { 0 })
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
