//! A null call by each kind of handle, and at each level of confinement, in turns.

use std::time::Instant;

use farcall::controller::{Confinement, ExecutorBuilder, Function, Process, RestartPolicy};
use farcall_bench::{CpuPair, Result};

use crate::{Times, functions};

/// The calls of one way before the next way's turn.
const CALLS: usize = 1000;

/// One way to call a function that returns 0. Both sides are pinned, each way's executor to the same CPU.
struct Way<'a> {
    name: &'static str,
    call: Box<dyn Fn() -> farcall::Result<i32> + 'a>,
    times: Times,
    /// Of [`CALLS`] calls each, without a clock between them: a clock's step is a tenth of a call.
    loops: Times,
}

impl<'a> Way<'a> {
    fn new(name: &'static str, call: impl Fn() -> farcall::Result<i32> + 'a) -> Self {
        Self { name, call: Box::new(call), times: Times::default(), loops: Times::default() }
    }
}

type Number = extern "C" fn() -> i32;

pub(crate) fn run(rounds: usize, cpus: CpuPair) -> Result<()> {
    let builder = ExecutorBuilder::new().this_program();
    let object = functions("functions.o", 0..1)?;
    let start = |builder: &ExecutorBuilder| -> Result<(Process, Function<Number>)> {
        let executor = builder.start()?;
        let process = executor.process()?;
        let dylib = executor.library("main");
        dylib.add_object(&object)?;
        let function = dylib.function::<Number>("function_0").bind()?;
        function.call(())?; // opens this thread's lane before it is pinned
        cpus.pin_server(process.pid().cast_unsigned())?;
        Ok((process, function))
    };
    // Where the kernel lacks a restriction, the start fails: such a figure would mean nothing.
    let [isolated, strict] = [Confinement::isolated(), Confinement::strict()]
        .map(|level| builder.clone().confine(level));
    let (_plain, plain) = start(&builder)?;
    let (_published, published) = start(&builder.clone().publish("survive"))?;
    let (_isolated, isolated) = start(&isolated)?;
    let (_strict, strict) = start(&strict)?;

    let supervised = builder.clone().restart(RestartPolicy::new()).start()?;
    let pool = builder.processes(2).restart(RestartPolicy::new()).start()?;
    let [of_one, of_pool] = [supervised.library("main"), pool.library("main")];
    of_one.add_object(&object)?;
    of_pool.add_object(&object)?;
    let [of_one, of_pool] = [of_one, of_pool].map(|dylib| dylib.function::<Number>("function_0"));
    of_one.call(())?;
    of_pool.call(())?;
    let [first, second] = [0, 1].map(|at| pool.on(at).ok_or("two executors"));
    for executor in [supervised, first?, second?] {
        cpus.pin_server(executor.process()?.pid().cast_unsigned())?;
    }

    let mut ways = [
        Way::new("call of a Function", || plain.call(())),
        Way::new("the same of a published session", || published.call(())),
        Way::new("the same of an isolated executor", || isolated.call(())),
        Way::new("the same of a strictly confined executor", || strict.call(())),
        Way::new("call of a Function", || of_one.call(())),
        Way::new("call of a pool of 2", || of_pool.call(())),
    ];
    let _pinned = cpus.pin_caller()?;
    for _ in 0..rounds {
        for way in &mut ways {
            for _ in 0..CALLS {
                let since = Instant::now();
                (way.call)()?;
                way.times.add(since);
            }
            let since = Instant::now();
            for _ in 0..CALLS {
                (way.call)()?;
            }
            way.loops.add(since);
        }
    }
    ways.iter_mut().for_each(|way| way.times.print(way.name));
    let each = |way: &mut Way<'_>| way.loops.quantile(500).as_nanos() as f64 / CALLS as f64;
    let plain = each(&mut ways[0]);
    for way in &mut ways {
        let each = each(way);
        println!("{:47} in a loop {each:>6.1} ns  {:.3} of a Function's", way.name, each / plain);
    }
    Ok(())
}
