//! Adds objects to one session, calls each, and removes them again. Prints what each tenth of them costs:
//! `growth OBJECTS one|many|batch [oldest|newest|scattered]`.
//!
//! - `one`: each object is a link of one dylib.
//! - `many`: each object has a dylib of its own; they are removed in the order of the last argument.
//! - `batch`: all objects are one link.
//!
//! Invariant: the figures are processor time of both processes, which a busy machine changes less than the time of day.

use std::fs;
use std::time::Duration;

use farcall::ExecutorAddr;
use farcall::controller::{Executor, ExecutorBuilder, Library, Process};
use farcall::link::ObjectFile;
use farcall_bench::{Result, TinyObject, tiny_code};

const USAGE: &str = "usage: growth OBJECTS one|many|batch [oldest|newest|scattered]";

fn main() -> Result<()> {
    farcall::executor::run_if_spawned();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let [objects, mode, order @ ..] = &args[..] else { return Err(USAGE.into()) };
    let objects: usize = objects.parse()?;
    let executor = ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;
    let mut meter = Meter::new(&process, objects);
    if *mode == "batch" {
        return batch(&executor, objects, &mut meter);
    }
    let mut dylibs: Vec<Library> = Vec::new();
    for number in 0..objects {
        if dylibs.is_empty() || *mode == "many" {
            dylibs.push(executor.library("main"));
        }
        let dylib = dylibs.last().ok_or("no dylib")?;
        dylib.add_object(&object(number)?)?;
        process.call(dylib.lookup(&name(number))?, &[0; 8])?;
        meter.done("added", number)?;
    }
    if order.first() == Some(&"newest") {
        dylibs.reverse();
    }
    if order.first() == Some(&"scattered") {
        // Every other one first, so that each leaves a hole.
        let parity = (0..dylibs.len()).map(|number| number % 2 == 0);
        let (even, odd): (Vec<_>, Vec<_>) = dylibs.into_iter().zip(parity).partition(|one| one.1);
        dylibs = even.into_iter().chain(odd).map(|(dylib, _)| dylib).collect();
    }
    let is_one = dylibs.len() == 1;
    for (number, dylib) in dylibs.into_iter().enumerate() {
        dylib.clear()?;
        meter.done("removed", if is_one { objects - 1 } else { number })?;
    }
    Ok(())
}

/// Adds all objects to a dylib that has a name already, then links them.
fn batch(executor: &Executor, objects: usize, meter: &mut Meter) -> Result<()> {
    let dylib = executor.library("main");
    dylib.define("known", ExecutorAddr::new(0x1000))?;
    for number in 0..objects {
        dylib.add_object(&object(number)?)?;
        meter.done("added", number)?;
    }
    dylib.link()?;
    meter.done("linked", objects - 1)?;
    dylib.clear()?;
    meter.done("removed", objects - 1)
}

fn name(number: usize) -> String {
    format!("function_{number}")
}

/// An object with a function, a variable and unwind information.
fn object(number: usize) -> Result<ObjectFile> {
    let object = TinyObject::new().function(&name(number), tiny_code::NULL_CALL);
    let object = object.variable(&format!("variable_{number}"), &[1; 8]).unwound();
    Ok(ObjectFile::parse(format!("{number}.o"), object.bytes())?)
}

/// Prints the processor time of the objects since the last line, at each tenth.
struct Meter {
    pids: [String; 2],
    objects: usize,
    last: [Duration; 2],
}

impl Meter {
    fn new(process: &Process, objects: usize) -> Meter {
        let pids = ["self".to_owned(), process.pid().to_string()];
        Meter { pids, objects, last: [Duration::ZERO; 2] }
    }

    fn done(&mut self, what: &str, number: usize) -> Result<()> {
        let tenth = (self.objects / 10).max(1);
        if !(number + 1).is_multiple_of(tenth) && number + 1 != self.objects {
            return Ok(());
        }
        let now = [busy(&self.pids[0])?, busy(&self.pids[1])?];
        let [ours, theirs] = [0, 1].map(|at| (now[at] - self.last[at]).as_secs_f64() * 1e6);
        println!(
            "{what:>8} to {number:>7}: controller {ours:>10.0} us, executor {theirs:>10.0} us"
        );
        self.last = now;
        Ok(())
    }
}

/// The time that the threads of a process have used a processor.
fn busy(pid: &str) -> Result<Duration> {
    let mut nanos = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let times = fs::read_to_string(task?.path().join("schedstat"))?;
        nanos += times.split(' ').next().ok_or("no time")?.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}
