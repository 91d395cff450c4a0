//! User-defined functions over Arrow's columns: an expression, compiled at run time with Cranelift, runs in another process over a
//! million rows in place. A crash of an expression is an error, and the columns are as before.
//!
//! ```text
//! cargo run --release -p farcall-cranelift --example udf
//! ```
//!
//! The number behind `--` counts the rounds to measure, 200 without it. A round runs the same code over the same columns in this
//! process and in the executor. The exit status is 1 when the executor handles fewer than 0.95 times as many rows in a second.
#![allow(unsafe_code, reason = "the kernel of cranelift-jit is called by its address")]

#[path = "../expressions/code.rs"]
#[allow(dead_code, reason = "the expressions example compiles whole functions, too")]
mod code;
mod columns;
mod kernel;
#[path = "../expressions/syntax.rs"]
mod syntax;

use std::error::Error;
use std::mem;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use arrow_array::{Float64Array, RecordBatch};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::default_libcall_names;
use farcall::controller::region::{Access, Region, RegionHeap};
use farcall::controller::{Executor, ExecutorBuilder};
use farcall_cranelift::{FarcallBuilder, FarcallModule};

use columns::{Column, sales, table};
use kernel::Kernel;
use syntax::parse;

type Failure = Box<dyn Error + Send + Sync>;

const ROWS: usize = 1_000_000;
const ROUNDS: usize = 200;
/// A call of a million rows takes about this long. Both sides poll as long before they sleep: waking a sleeper takes a tenth of it.
const SPIN: Duration = Duration::from_millis(1);
/// The least rows a second, as a multiple of those in process.
const BAR: f64 = 0.95;

const TOTAL: &str = "total(price, quantity, discount) = price * quantity * (1 - discount)";
/// `abort` is the function of the C library.
const CRASH: &str = "crash(price) = abort(price)";

fn main() -> Result<ExitCode, Failure> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let rounds = std::env::args().nth(1).map_or(Ok(ROUNDS), |rounds| rounds.parse())?;
    // The executor reads the batch and cannot write it; results are in a region of their own.
    let inputs = RegionHeap::new(Region::new(1 << 28, Access::ReadOnly)?);
    let results = RegionHeap::new(Region::new(1 << 28, Access::ReadWrite)?);
    let batch = sales(&inputs, ROWS)?;

    let executor = start(&inputs, &results)?;
    let total = run(&executor, TOTAL, &batch, &results)?;
    let error = run(&executor, CRASH, &batch, &results).err().ok_or("abort has returned")?;
    println!("{CRASH}: {error}");

    let executor = start(&inputs, &results)?; // another executor, for the same columns
    assert_eq!(run(&executor, TOTAL, &batch, &results)?, total, "the crash has changed nothing");
    let sum: f64 = total.values().iter().sum();
    println!("{TOTAL}: {ROWS} rows, {sum:.2} together");

    if rounds == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let [near, far] = measure(&executor, &batch, &results, rounds)?;
    let ratio = near.as_secs_f64() / far.as_secs_f64();
    let [near, far] = [near, far].map(|time| ROWS as f64 / time.as_secs_f64() / 1e6);
    println!(
        "million rows a second (medians of {rounds}): {near:.0} in process, {far:.0} in the executor"
    );
    println!("ratio {ratio:.3}, bar {BAR}");
    Ok(if ratio >= BAR { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts an executor and attaches both regions until it ends.
fn start(inputs: &RegionHeap, results: &RegionHeap) -> Result<Executor, Failure> {
    let executor = ExecutorBuilder::new().this_program().spin(SPIN).start()?;
    for heap in [inputs, results] {
        executor.attach(heap.clone())?;
    }
    Ok(executor)
}

/// Compiles an expression and runs it over a batch. The result is a column in the region.
fn run(
    executor: &Executor,
    expression: &str,
    batch: &RecordBatch,
    results: &RegionHeap,
) -> Result<Float64Array, Failure> {
    let definition = parse(expression)?;
    let mut module = FarcallModule::new(FarcallBuilder::new(executor, default_libcall_names())?);
    let id = kernel::compile(&mut module, &definition)?;
    module.finalize_definitions()?;
    let kernel = executor.process()?.function::<Kernel>(module.get_finalized_function(id)?);

    let columns = table(results, batch, &definition.parameters)?;
    let result = Column::new(results, batch.num_rows())?;
    kernel.call((columns.address(), result.address(), i64::try_from(batch.num_rows())?))?;
    // SAFETY: the kernel has returned, and nothing else in the executor knows the column.
    Ok(unsafe { result.into_array() })
}

/// The medians of the kernel's time in this process and in the executor, in turns, over the same columns.
fn measure(
    executor: &Executor,
    batch: &RecordBatch,
    results: &RegionHeap,
    rounds: usize,
) -> Result<[Duration; 2], Failure> {
    let definition = parse(TOTAL)?;
    let mut near = JITModule::new(JITBuilder::new(default_libcall_names())?);
    let near_id = kernel::compile(&mut near, &definition)?;
    near.finalize_definitions()?;
    let mut far = FarcallModule::new(FarcallBuilder::new(executor, default_libcall_names())?);
    let far_id = kernel::compile(&mut far, &definition)?;
    far.finalize_definitions()?;

    // SAFETY: the function was compiled with this type, and the module outlives the calls.
    let near_kernel: Kernel = unsafe { mem::transmute(near.get_finalized_function(near_id)) };
    let far_kernel = executor.process()?.function::<Kernel>(far.get_finalized_function(far_id)?);
    let columns = table(results, batch, &definition.parameters)?;
    let [near_result, far_result] = [Column::new(results, ROWS)?, Column::new(results, ROWS)?];
    let rows = i64::try_from(ROWS)?;
    let mut times = [Vec::new(), Vec::new()];
    // The first tenth warms caches up.
    for round in 0..rounds + rounds.div_ceil(10) {
        let begun = Instant::now();
        near_kernel(columns.address(), near_result.address(), rows);
        let near_time = begun.elapsed();
        let begun = Instant::now();
        far_kernel.call((columns.address(), far_result.address(), rows))?;
        let far_time = begun.elapsed();
        if round >= rounds.div_ceil(10) {
            times[0].push(near_time);
            times[1].push(far_time);
        }
    }
    // SAFETY: all kernels have returned.
    let arrays = [near_result, far_result].map(|result| unsafe { result.into_array() });
    assert_eq!(arrays[0], arrays[1]);
    Ok(times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    }))
}
