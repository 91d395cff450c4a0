//! Makes many calls and nothing else, to count system calls from outside:
//! `strace -f -c hot_calls CALLS null|code|data|in-flight|SIZE`.
//!
//! Invariant: all but the calls makes the same number of system calls for any CALLS.

use farcall_bench::{Callee, Contender, CpuPair, EchoCall, InFlight, Result};

fn main() -> Result<()> {
    farcall::executor::run_if_spawned();
    let mut args = std::env::args().skip(1);
    let calls: u32 =
        args.next().ok_or("usage: hot_calls CALLS null|code|data|in-flight|SIZE")?.parse()?;
    let cpus = CpuPair::first_two()?;
    let callee = Callee::start(cpus)?;
    let _pinned = cpus.pin_caller()?;
    let mut row: Box<dyn Contender> = match args.next().as_deref() {
        Some("null") => Box::new(callee.null_call()),
        Some("code") => Box::new(callee.code_call()),
        Some("data") => Box::new(callee.data_call()),
        Some("in-flight") => Box::new(InFlight::new(&callee, 64)?),
        Some(size) => Box::new(EchoCall::new(&callee, size.parse()?)?),
        None => return Err("what to call is missing: null, code, data, in-flight or a size".into()),
    };
    let took = row.run(calls)?;
    println!("{}: {calls} calls in {took:?}", row.name());
    Ok(())
}
