//! Three ways to run zlib where it may crash: a binding, a hand-made worker under seccomp, and the crate procspawn.
//!
//! `cargo run --release -p farcall-bind --example compare` prints a table of calls a second and lines of code.
#![allow(unsafe_code, reason = "calls the library in a process of its own making")]

mod bound;
mod pool;
mod worker;
mod zlib_here;
#[rustfmt::skip]
#[path = "../bindings/zlib.rs"]
mod zlib;

use std::time::Instant;

const BLOCK_BYTES: usize = 64 << 10;
const TURNS: usize = 5;

/// A way to inflate a block.
type Way<'a> = &'a mut dyn FnMut(&[u8], &mut [u8]) -> Result<usize, Box<dyn std::error::Error>>;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    procspawn::init();
    // The worker is forked while there is one thread.
    let mut worker = worker::Worker::start()?;
    let bound = bound::start()?;
    let pool = pool::start()?;
    let text: Vec<u8> = (0..BLOCK_BYTES)
        .map(|at| b"a block of text, "[at % 17].wrapping_add(u8::from(at % 1021 == 0)))
        .collect();
    let small = zlib_here::compressed(&text)?;
    println!("| way | lines | inflated blocks of 64 KiB a second | of 256 bytes a second |");
    println!("|---|--:|--:|--:|");
    let mut by_binding = |from: &[u8], to: &mut [u8]| bound::inflate(&bound, from, to);
    let mut by_worker = |from: &[u8], to: &mut [u8]| worker.inflate(from, to);
    let mut by_pool = |from: &[u8], to: &mut [u8]| pool::inflate(&pool, from, to);
    let mut here = |from: &[u8], to: &mut [u8]| zlib_here::inflate(from, to);
    let tiny = zlib_here::compressed(&text[..256])?;
    let ways: [(&str, &str, Way<'_>); 4] = [
        ("in this process", include_str!("zlib_here.rs"), &mut here),
        ("a binding, strictly confined", include_str!("bound.rs"), &mut by_binding),
        ("a worker under seccomp, Unix socket", include_str!("worker.rs"), &mut by_worker),
        ("procspawn, a pool of one process", include_str!("pool.rs"), &mut by_pool),
    ];
    let mut rates = [[0.0_f64; 2]; 4];
    let mut ways = ways;
    for _ in 0..TURNS {
        for ((_, _, way), rates) in ways.iter_mut().zip(&mut rates) {
            for (rate, (from, bytes)) in rates.iter_mut().zip([(&small, BLOCK_BYTES), (&tiny, 256)])
            {
                *rate = rate.max(calls_a_second(*way, from, &text[..bytes])?);
            }
        }
    }
    for ((name, source, _), rates) in ways.iter().zip(rates) {
        println!("| {name} | {} | {:.0} | {:.0} |", lines(source), rates[0], rates[1]);
    }
    Ok(())
}

/// The calls of a second, by one thread that waits for each.
fn calls_a_second(
    way: Way<'_>,
    from: &[u8],
    due: &[u8],
) -> Result<f64, Box<dyn std::error::Error>> {
    let mut out = vec![0; due.len()];
    let (start, mut calls) = (Instant::now(), 0_u32);
    while start.elapsed().as_millis() < 300 {
        let length = way(from, &mut out)?;
        assert!(out[..length] == *due, "the block is as before");
        calls += 1;
    }
    Ok(f64::from(calls) / start.elapsed().as_secs_f64())
}

/// Lines of code, without blank lines and comments.
fn lines(source: &str) -> usize {
    source.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}
