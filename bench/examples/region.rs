//! Compares data in place with one process: the host writes words, linked code changes them, the host reads them.
//! `region [ROUNDS] [MIB]`: three ways in turns, in each round. The code of all three is the same bytes.
//!
//! Invariant: every way has touched all of its memory before it is measured.
#![allow(
    unsafe_code,
    reason = "calls the code in this process, and borrows a region that only it uses"
)]

use std::time::{Duration, Instant};

use farcall::ExecutorAddr;
use farcall::controller::ExecutorBuilder;
use farcall::controller::region::{Access, Region};
use farcall::link::ObjectFile;
use farcall_bench::{Result, TinyObject};
use memmap2::MmapMut;

/// `void change(uint64_t *words, uint64_t count)`: each word becomes three times itself and one.
/// `mov rax, [rdi]; lea rax, [rax + 2 * rax + 1]; mov [rdi], rax; add rdi, 8; dec rsi; jne; ret`
const CHANGE: &[u8] =
    b"\x48\x8b\x07\x48\x8d\x44\x40\x01\x48\x89\x07\x48\x83\xc7\x08\x48\xff\xce\x75\xec\xc3";

type Change = extern "C" fn(*mut u64, u64);
type RemoteChange = extern "C" fn(ExecutorAddr, u64);

#[inline(never)]
fn write(words: &mut [u64], seed: u64) {
    for (word, number) in words.iter_mut().zip(seed..) {
        *word = number;
    }
}

#[inline(never)]
fn read(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

/// The three steps on `words`; `change` is the one in the middle.
fn steps(
    words: &mut [u64],
    seed: u64,
    change: impl FnOnce(&mut [u64]) -> farcall::Result<()>,
) -> Result<([Duration; 3], u64)> {
    let begun = Instant::now();
    write(words, seed);
    let written = Instant::now();
    change(words)?;
    let changed = Instant::now();
    let sum = read(words);
    Ok(([written - begun, changed - written, changed.elapsed()], sum))
}

fn main() -> Result<()> {
    farcall::executor::run_if_spawned();
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(30), |text| text.parse())?;
    let bytes = args.next().map_or(Ok(64), |text| text.parse::<u64>())? << 20;
    let count = usize::try_from(bytes)? / 8;

    let executor = ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;
    let dylib = executor.library("region");
    let object = TinyObject::new().function("change", CHANGE);
    dylib.add_object(&ObjectFile::parse("region.o", object.bytes())?)?;
    let far = dylib.function::<RemoteChange>("change").bind()?;
    let mut code = MmapMut::map_anon(CHANGE.len())?;
    code.copy_from_slice(CHANGE);
    let code = code.make_exec()?;
    // SAFETY: the bytes are a function of this type, and stay mapped to the end of the program.
    let near = unsafe { std::mem::transmute::<*const u8, Change>(code.as_ptr()) };

    let (shared, lone) =
        (Region::new(bytes, Access::ReadWrite)?, Region::new(bytes, Access::ReadWrite)?);
    let attached = process.attach(&shared)?;
    // SAFETY: linked code writes only while this thread waits for it, and no other code uses either region.
    let [shared, lone] =
        [&shared, &lone].map(|region| unsafe { region.slice_mut::<u64>(0, count) });
    let mut private = vec![0_u64; count];
    let in_process = |words: &mut [u64]| {
        near(words.as_mut_ptr(), words.len() as u64);
        Ok(())
    };
    let mut took = [(); 3].map(|()| Vec::<[Duration; 3]>::new());
    for round in 0..=rounds {
        let seed = round as u64;
        let mut sums = [0; 3];
        for turn in 0..3 {
            let way = (turn + round) % 3;
            let (times, sum) = match way {
                0 => steps(shared, seed, |_| far.call((attached.address(), count as u64)))?,
                1 => steps(lone, seed, in_process)?,
                _ => steps(&mut private, seed, in_process)?,
            };
            sums[way] = sum;
            // The first round touches the memory.
            if round > 0 {
                took[way].push(times);
            }
        }
        if sums[0] != sums[1] || sums[1] != sums[2] {
            return Err(format!("the sums differ: {sums:?}").into());
        }
    }
    let median = |mut of: Vec<f64>| {
        of.sort_unstable_by(f64::total_cmp);
        of[of.len() / 2]
    };
    println!("{} MiB, medians of {rounds} rounds, in ms", bytes >> 20);
    println!("{:<34}{:>8}{:>8}{:>8}{:>8}", "", "write", "change", "read", "all");
    let names = ["region, executor", "region, one process", "private memory, one process"];
    for (name, times) in names.iter().zip(&took) {
        let step =
            |at: usize| median(times.iter().map(|step| step[at].as_secs_f64() * 1e3).collect());
        let all = median(
            times.iter().map(|all| all.iter().sum::<Duration>().as_secs_f64() * 1e3).collect(),
        );
        println!("{name:<34}{:>8.2}{:>8.2}{:>8.2}{all:>8.2}", step(0), step(1), step(2));
    }
    for (at, name) in names.iter().enumerate().skip(1) {
        let total = |times: &[Duration; 3]| times.iter().sum::<Duration>().as_secs_f64();
        let pairs = took[0].iter().zip(&took[at]);
        let ratio = median(pairs.map(|(one, other)| total(one) / total(other)).collect());
        println!("executor / {name}: {ratio:.3} (the bar is 1.05)");
    }
    Ok(())
}
