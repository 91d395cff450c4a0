//! `farcall demo`: what farcall does, in one screen. Needs no compiler: the objects are built in.
//!
//! Invariant: every figure is measured in this run, and every result is checked. A wrong result ends the demo.

use std::fmt::Display;
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use farcall::ExecutorAddr;
use farcall::controller::{Executor, ExecutorBuilder, Library, Process};
use farcall::link::ObjectFile;
use farcall_bench::{BusyPlan, CpuPair, Effort, Plan, Report, TinyObject, tiny_code};

use crate::status::{Failure, TOOL};

/// An address where nothing is mapped. A write there ends the process.
const NOWHERE: u32 = 0xdad_beef;
const SIGSEGV: i32 = 11;

/// Prints a line as `println!` does, but returns an error instead of a panic.
macro_rules! say {
    ($($text:tt)*) => { print(format_args!("{}\n", format_args!($($text)*))) };
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Calls to time.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    calls: u32,
    /// How long to compare farcall with pipe and socket; 0 is one round.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    seconds: u64,
}

/// Shows all steps in order, and returns exit code 0.
///
/// # Errors
///
/// If a step fails or its result is wrong.
pub(crate) fn demo(options: &Options) -> Result<i32, Failure> {
    let object = TinyObject::new()
        .function("add", tiny_code::ADD)
        .function("crash", &tiny_code::poke(NOWHERE));
    let object = ObjectFile::parse("demo.o", object.bytes())?;

    let program = load(&object)?;
    call(&program, options.calls)?;
    crash(program)?;
    let program = start_again(&object)?;
    replace(&program.executor)?;
    drop(program);
    compare(Effort { rounds_min: 1, duration: Duration::from_secs(options.seconds) })?;
    beside_busy_loops(Duration::from_secs(options.seconds) / 6)?;
    Ok(0)
}

/// The object, linked in an executor of its own. The executor ends when this is dropped.
struct Program {
    executor: Executor,
    process: Process,
    dylib: Library,
    add: ExecutorAddr,
}

impl Program {
    fn link(executor: Executor, object: &ObjectFile) -> Result<Self, Failure> {
        let dylib = executor.library("the demo");
        dylib.add_object(object)?;
        let add = dylib.lookup("add")?;
        let process = executor.process()?;
        Ok(Self { executor, process, dylib, add })
    }
}

fn load(object: &ObjectFile) -> Result<Program, Failure> {
    let started = Instant::now();
    let executor = start()?;
    let process = executor.process()?;
    let took = started.elapsed();
    let (ours, theirs) = (std::process::id(), process.pid());
    say!("1 load     process {ours} has started executor {theirs} in {took:.1?}")?;

    let before = process.stats().calls;
    let started = Instant::now();
    let program = Program::link(executor, object)?;
    let took = started.elapsed();
    let messages = program.process.stats().calls - before;
    let Program { add, .. } = program;
    say!("           and linked demo.o there in {took:.1?}, {messages} messages: add is at {add}")?;
    Ok(program)
}

fn call(program: &Program, calls: u32) -> Result<(), Failure> {
    let mut samples = Vec::with_capacity(usize::try_from(calls).unwrap_or_default());
    let mut sum = Vec::new();
    let started = Instant::now();
    for number in 0..u64::from(calls) {
        let args = arguments([number, 1]);
        sum.clear();
        let sent = Instant::now();
        program.process.call_into(program.add, &args, &mut sum)?;
        samples.push(sent.elapsed());
        check("add", &sum, number + 1)?;
    }
    let took = started.elapsed();
    samples.sort_unstable();
    let [p50, p99, p99_9] =
        [500, 990, 999].map(|rank| samples[(samples.len() * rank).div_ceil(1000) - 1]);
    say!("2 call     {calls} calls of add, one after the other, each sum checked: {took:.2?}")?;
    say!("           p50 {p50:?}, p99 {p99:?}, p99.9 {p99_9:?}, one clock read included")
}

/// Calls the function that ends the executor by a signal, and checks the error.
fn crash(program: Program) -> Result<(), Failure> {
    let crash = program.dylib.lookup("crash")?;
    let started = Instant::now();
    let Err(error) = program.process.call(crash, &[]) else {
        return Err(Failure::new(TOOL, "crash has returned"));
    };
    let took = started.elapsed();
    let is_reported = error.death().is_some_and(|death| {
        death.signal == Some(SIGSEGV)
            && death.fault_address == Some(NOWHERE.into())
            && death.location.as_deref().is_some_and(|at| at.starts_with("crash+"))
    });
    if !is_reported {
        return Err(Failure::new(
            TOOL,
            format_args!("crash should end by SIGSEGV at {NOWHERE:#x} in crash, but: {error}"),
        ));
    }
    say!(
        "3 crash    a call of crash, which writes to {NOWHERE:#x}, is an error after {took:.1?}:"
    )?;
    say!("           {error}")
}

fn start_again(object: &ObjectFile) -> Result<Program, Failure> {
    let started = Instant::now();
    let program = Program::link(start()?, object)?;
    check("add", &program.process.call(program.add, &arguments([2, 3]))?, 5)?;
    let took = started.elapsed();
    let pid = program.process.pid();
    say!("4 restart  executor {pid} started, the same object linked, 2 + 3 = 5 in {took:.1?}")?;
    Ok(program)
}

fn replace(executor: &Executor) -> Result<(), Failure> {
    let process = executor.process()?;
    let (old, old_at) = link_version(executor, 1)?;
    let (_new, new_at) = link_version(executor, 2)?;
    check("version 1", &process.call(old_at, &[])?, 1)?;
    say!("5 replace  version() at {old_at} returns 1; version 2, linked at {new_at}, 2")?;

    let before = process.stats().calls;
    let started = Instant::now();
    old.clear()?;
    let took = started.elapsed();
    let messages = process.stats().calls - before;
    let (_newest, newest_at) = link_version(executor, 3)?;
    check("version 2", &process.call(new_at, &[])?, 2)?;
    if newest_at != old_at {
        let problem = format_args!("{old_at} should be free, but version 3 is at {newest_at}");
        return Err(Failure::new(TOOL, problem));
    }
    say!(
        "           version 1 removed in {took:.1?}, {messages} messages; {newest_at} is used again"
    )
}

/// Links a function that returns `version`, and calls it.
fn link_version(executor: &Executor, version: u64) -> Result<(Library, ExecutorAddr), Failure> {
    let object = TinyObject::new().function("version", &tiny_code::constant(version));
    let dylib = executor.library("a version");
    dylib.add_object(&ObjectFile::parse("version.o", object.bytes())?)?;
    let function = dylib.lookup("version")?;
    check("version", &executor.process()?.call(function, &[])?, version)?;
    Ok((dylib, function))
}

/// The rows that fit on the screen, beside the floors.
const ROWS: [&str; 7] = [
    "null call",
    "call back",
    "nested round",
    "4 KiB code + call",
    "4 KiB data + call",
    "pipe pair",
    "Unix stream",
];

fn compare(effort: Effort) -> Result<(), Failure> {
    let report = Plan::new(effort)
        .and_then(|mut plan| {
            plan.only = ROWS.map(str::to_owned).to_vec();
            plan.run(&mut |_, _| ControlFlow::Continue(()))
        })
        .map_err(|error| Failure::new(TOOL, error))?;
    let Report { cpus: CpuPair { caller, server }, elapsed_s, .. } = report;
    let time = format!("the rows in turn, {elapsed_s:.1} s");
    say!("6 compare  8 bytes from CPU {caller} to CPU {server} and back, {time}")?;
    say!("           x2: times the two-line floor; block, p50..max: ns per round trip")?;
    if !report.is_optimized {
        say!("           a debug build says little: cargo run --profile demo -- demo")?;
    }
    let longest = report.sections.iter().rev().max_by_key(|section| section.rounds);
    longest.map_or(Ok(()), print)
}

/// One line of null calls and pipes beside a busy loop on each CPU.
fn beside_busy_loops(duration: Duration) -> Result<(), Failure> {
    let report = BusyPlan::new(duration).and_then(|mut plan| {
        let load = if plan.cpus.is_shared() { "one-cpu-1" } else { "each-1" };
        plan.loads = vec![load.to_owned()];
        plan.only = vec!["null call".to_owned()];
        plan.run(&mut |_, _| ControlFlow::Continue(()))
    });
    let report = report.map_err(|error| Failure::new(TOOL, error))?;
    let rows = report.loads.iter().flat_map(|load| &load.rows);
    let rows = rows.filter(|row| ["null call", "pipe pair"].contains(&row.name.as_str()));
    let shown = rows.map(|row| {
        let [p50, p99] = [row.p50_ns, row.p99_ns].map(Duration::from_nanos);
        format!("{} p50 {p50:.1?}, p99 {p99:.1?}", row.name.trim_end_matches(" pair"))
    });
    say!("7 busy     a busy loop on each CPU: {}", shown.collect::<Vec<_>>().join("; "))
}

fn start() -> Result<Executor, Failure> {
    Ok(ExecutorBuilder::new().this_program().start()?)
}

fn arguments(numbers: [u64; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (field, number) in bytes.chunks_exact_mut(8).zip(numbers) {
        field.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn check(what: &str, answer: &[u8], due: u64) -> Result<(), Failure> {
    if answer == due.to_le_bytes() {
        return Ok(());
    }
    Err(Failure::new(TOOL, format_args!("{what} returned the bytes {answer:?} instead of {due}")))
}

fn print(text: impl Display) -> Result<(), Failure> {
    let printed = write!(std::io::stdout(), "{text}");
    printed.map_err(|error| Failure::new(TOOL, format_args!("standard output: {error}")))
}
