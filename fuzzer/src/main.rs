//! `farcall-fuzzer`: fuzzes objects that define `LLVMFuzzerTestOneInput`, each execution in another process.
//!
//! Invariant: no code of the target runs in this process.

mod engine;
mod execution;
mod faults;
mod progress;
mod target;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use farcall::link::{Archive, ObjectFile};

use crate::engine::Plan;
use crate::execution::TargetExecutor;
use crate::faults::{Fault, Faults};
use crate::progress::{Limits, Progress};
use crate::target::{Recipe, Target};

/// Fuzz a function in another process. A crash costs one execution, and is saved under its name.
#[derive(Parser, Debug)]
#[command(name = "farcall-fuzzer", version, after_help = STATUS)]
struct Options {
    /// Objects and archives by clang with -fsanitize-coverage=trace-pc-guard, one of which defines LLVMFuzzerTestOneInput.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// A folder of inputs to start from. May be given several times.
    #[arg(long, value_name = "FOLDER")]
    corpus: Vec<PathBuf>,
    /// The folder for what is found: queue, crashes, hangs. Another run with the same folder goes on from its queue.
    #[arg(long, value_name = "FOLDER", default_value = "fuzz-out")]
    out: PathBuf,
    /// Run one input in a fresh process, say how it ends, and stop.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Stop after this time.
    #[arg(long)]
    seconds: Option<u64>,
    /// Stop after this many executions.
    #[arg(long)]
    executions: Option<u64>,
    /// An execution that takes longer is a hang.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    timeout_ms: u64,
    /// The private memory that the target may have.
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    memory_mib: u64,
    /// The longest input.
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    input_bytes_max: usize,
    /// Start a new copy after this many executions.
    #[arg(long, value_name = "EXECUTIONS", default_value_t = 100_000)]
    copy_executions_max: u64,
    /// A file of tokens that inputs are made of, as for AFL.
    #[arg(long, value_name = "FILE")]
    dictionary: Option<PathBuf>,
    /// A shared library that the target needs, such as libm.so.6. May be given several times.
    #[arg(long, value_name = "NAME")]
    library: Vec<String>,
    /// The seed of all random choices. Two runs with one seed do the same.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const STATUS: &str = "Exit status: 0 if no fault is new, 1 if one is, 2 if the run has failed.";

/// The longest input that the option allows.
const INPUT_BYTES_MAX: usize = 16 << 20;

fn main() -> ExitCode {
    farcall::executor::run_if_spawned();
    match run(&Options::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("farcall-fuzzer: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns the number of new faults.
fn run(options: &Options) -> Result<usize, Box<dyn Error>> {
    if options.input_bytes_max > INPUT_BYTES_MAX {
        return Err(format!("inputs have at most {INPUT_BYTES_MAX} bytes").into());
    }
    let mut target = Target::start(recipe(options)?)?;
    if let Some(path) = &options.replay {
        return replay(&mut target, path);
    }
    println!("{} edges", target.counters() - 1);
    if let Some(reason) = target.without_snapshot() {
        println!("no snapshot, so the target is linked again after each fault: {reason}");
    }
    let faults = Faults::new(&options.out)?;
    let queue = options.out.join("queue");
    fs::create_dir_all(&queue)?;
    let plan = Plan {
        seeds: options.corpus.clone(),
        dictionary: options.dictionary.clone(),
        queue,
        input_bytes_max: options.input_bytes_max,
        seed: options.seed,
    };
    let limits = Limits {
        executions_max: options.executions,
        time_max: options.seconds.map(Duration::from_secs),
    };
    let mut executor = TargetExecutor::new(target, faults, Progress::new(limits));
    Ok(engine::run(&plan, &mut executor)?)
}

fn recipe(options: &Options) -> Result<Recipe, Box<dyn Error>> {
    let (mut objects, mut archives) = (Vec::new(), Vec::new());
    for path in &options.files {
        let name = path.display().to_string();
        let bytes = fs::read(path).map_err(|error| format!("{name}: {error}"))?;
        if bytes.starts_with(b"!<arch>\n") {
            archives.push(Archive::parse(name, bytes)?);
        } else {
            objects.push(ObjectFile::parse(name, bytes)?);
        }
    }
    Ok(Recipe {
        objects,
        archives,
        libraries: options.library.clone(),
        memory_bytes_max: options.memory_mib << 20,
        input_bytes_max: options.input_bytes_max,
        timeout: Duration::from_millis(options.timeout_ms),
        executions_max: options.copy_executions_max,
    })
}

/// Says how one input ends.
fn replay(target: &mut Target, path: &Path) -> Result<usize, Box<dyn Error>> {
    let input = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut edges = vec![0; target.counters()];
    let end = target.run_fresh(&input, &mut edges)?;
    let fault = Fault::of(&end, &edges);
    match &fault {
        Some(fault) => print!("{}: {fault}", fault.name),
        None => println!("no fault"),
    }
    Ok(usize::from(fault.is_some()))
}
