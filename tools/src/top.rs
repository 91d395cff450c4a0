//! `farcall top`: the published sessions of this user, with calls and their times, executors, memory and restarts.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use farcall::controller::Published;
use serde::Serialize;

use crate::output::print;
use crate::run::duration;
use crate::status::{Failure, TOOL};

/// The number of the form of the JSON. It is increased when a field is removed or changes its meaning.
const SCHEMA: u32 = 1;
/// The shortest time between two reports: to make one takes some milliseconds.
const EVERY_MIN: Duration = Duration::from_millis(10);
/// The cursor goes to the upper left corner, and what is below it is erased.
const NEW_SCREEN: &str = "\x1b[H\x1b[J";

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The time between two reports, over which calls are counted.
    #[arg(long, value_name = "DUR", default_value = "1s", value_parser = duration)]
    every: Duration,
    /// End after this number of reports.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Print each report as one line of JSON.
    #[arg(long)]
    json: bool,
}

/// The counts of all sessions in the time before.
#[derive(Serialize)]
struct Report {
    schema: u32,
    /// The time over which calls were counted.
    seconds: f64,
    sessions: Vec<Row>,
}

/// One session.
#[derive(Serialize)]
struct Row {
    /// The host's process number.
    host: u32,
    name: String,
    /// The process numbers of executors that live.
    executors: Vec<i32>,
    restarts: u64,
    /// All calls so far.
    calls: u64,
    calls_per_second: f64,
    /// Of the calls in that time; null if none was timed.
    p50_ns: Option<u128>,
    p99_ns: Option<u128>,
    memory_bytes: u64,
    age_seconds: u64,
}

/// Prints reports until it is interrupted, or as many as the options say.
///
/// # Errors
///
/// If there is no `/proc`, the time between two reports is too short, or standard output cannot be written.
pub(crate) fn top(options: &Options) -> Result<i32, Failure> {
    if options.every < EVERY_MIN {
        return Err(Failure::new(TOOL, format_args!("--every: at least {EVERY_MIN:?}")));
    }
    let mut before = Published::all()?;
    let mut seen = Instant::now();
    let mut left = options.count;
    while left != Some(0) {
        std::thread::sleep(options.every);
        let (now, passed) = (Published::all()?, seen.elapsed());
        seen = Instant::now();
        let report = Report::new(&before, &now, passed);
        print(if options.json { report.to_json()? } else { report.to_screen() })?;
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(0)
}

impl Report {
    fn new(before: &[Published], now: &[Published], passed: Duration) -> Self {
        let row = |session: &Published| {
            let earlier = before.iter().find(|earlier| earlier.id() == session.id());
            Row::new(session, earlier, passed)
        };
        let sessions = now.iter().map(row).collect();
        Self { schema: SCHEMA, seconds: passed.as_secs_f64(), sessions }
    }

    fn to_json(&self) -> Result<String, Failure> {
        let text = serde_json::to_string(self).map_err(|error| Failure::new(TOOL, error))?;
        Ok(text + "\n")
    }

    /// A table, on a screen of its own if standard output is a terminal.
    fn to_screen(&self) -> String {
        let is_terminal = io::stdout().is_terminal();
        let mut screen = if is_terminal { NEW_SCREEN.to_owned() } else { String::new() };
        let wide = self.sessions.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let wide = wide.max("NAME".len());
        let line = |screen: &mut String, fields: [&str; 9]| {
            let [host, name, executors, restarts, calls, p50, p99, memory, age] = fields;
            let _ = writeln!(
                screen,
                "{host:>10}  {name:wide$}  {executors:>9}  {restarts:>8}  {calls:>12}  {p50:>8}  {p99:>8}  {memory:>9}  {age:>8}"
            );
        };
        line(
            &mut screen,
            ["HOST", "NAME", "EXECUTORS", "RESTARTS", "CALLS/S", "P50", "P99", "MEMORY", "AGE"],
        );
        for row in &self.sessions {
            let texts = [
                row.host.to_string(),
                row.executors.len().to_string(),
                row.restarts.to_string(),
                format!("{:.0}", row.calls_per_second),
                row.p50_ns.map_or("-".to_owned(), time),
                row.p99_ns.map_or("-".to_owned(), time),
                format!("{:.1} MiB", mebibytes(row.memory_bytes)),
                age(row.age_seconds),
            ];
            let [host, executors, restarts, calls, p50, p99, memory, age] =
                texts.each_ref().map(String::as_str);
            line(&mut screen, [host, &row.name, executors, restarts, calls, p50, p99, memory, age]);
        }
        if self.sessions.is_empty() {
            screen.push_str(
                "no session is published; a host does that by ExecutorBuilder::publish\n",
            );
        }
        if !is_terminal {
            screen.push('\n');
        }
        screen
    }
}

impl Row {
    fn new(session: &Published, before: Option<&Published>, passed: Duration) -> Self {
        let calls = session.calls().wrapping_sub(before.map_or(0, Published::calls));
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let calls = calls as f64;
        let percentile = |share| session.percentile(share, before).map(|time| time.as_nanos());
        // A session that was published meanwhile has done all its calls since.
        let over = before.map_or(session.age().min(passed), |_| passed);
        Self {
            host: session.host(),
            name: session.name().to_owned(),
            executors: session.executors().to_vec(),
            restarts: session.restarts(),
            calls: session.calls(),
            calls_per_second: calls / over.as_secs_f64().max(1e-9),
            p50_ns: percentile(0.5),
            p99_ns: percentile(0.99),
            memory_bytes: session.memory_bytes(),
            age_seconds: session.age().as_secs(),
        }
    }
}

/// A time in the largest unit in which it is at least 1.
fn time(time_ns: u128) -> String {
    match time_ns {
        0..1_000 => format!("{time_ns} ns"),
        1_000..1_000_000 => format!("{}.{} us", time_ns / 1_000, time_ns / 100 % 10),
        1_000_000..1_000_000_000 => {
            format!("{}.{} ms", time_ns / 1_000_000, time_ns / 100_000 % 10)
        }
        _ => format!("{}.{} s", time_ns / 1_000_000_000, time_ns / 100_000_000 % 10),
    }
}

fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is printed with one digit")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
