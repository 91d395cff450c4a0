//! The time of a call of an isolated function, beside a call of linked code by bytes and a call in this process.
//!
//! `cargo run --release -p farcall-macros --example latency [SECONDS]` prints one line for each size, in nanoseconds. The three are
//! called in turns. It needs `cc`.

use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use farcall::controller::ExecutorBuilder;
use farcall::controller::calls::Bytes;
use farcall::isolate;
use farcall::link::ObjectFile;

/// The same functions in C.
const SOURCE: &str = r#"
#include <stddef.h>
#include <stdint.h>
#include <string.h>
struct buffer { uint64_t data; size_t size; };
static uint32_t table[256];
__attribute__((constructor)) static void fill(void) {
    for (uint32_t at = 0; at < 256; at++) {
        uint32_t word = at;
        for (int bit = 0; bit < 8; bit++) word = word & 1 ? word >> 1 ^ 0xedb88320 : word >> 1;
        table[at] = word;
    }
}
struct buffer crc(const unsigned char *data, size_t size) {
    uint32_t word = ~0u;
    for (size_t at = 0; at < size; at++) word = word >> 8 ^ table[(word ^ data[at]) & 255];
    word = ~word;
    struct buffer result = {0, 4};
    memcpy(&result.data, &word, 4);
    return result;
}
struct buffer first(const unsigned char *data, size_t size) {
    struct buffer result = {size ? data[0] : 0, 4};
    return result;
}
"#;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let (mut at, mut first) = (0, 0);
    while at < 256 {
        let mut word: u32 = first;
        let mut bit = 0;
        while bit < 8 {
            word = if word & 1 == 1 { word >> 1 ^ 0xedb8_8320 } else { word >> 1 };
            bit += 1;
        }
        table[at] = word;
        (at, first) = (at + 1, first + 1);
    }
    table
};

#[isolate]
fn crc(data: &[u8]) -> u32 {
    crc_here(data)
}

fn crc_here(data: &[u8]) -> u32 {
    !data
        .iter()
        .fold(!0_u32, |word, byte| word >> 8 ^ TABLE[((word ^ u32::from(*byte)) & 255) as usize])
}

#[isolate]
fn first(data: &[u8]) -> u32 {
    first_here(data)
}

fn first_here(data: &[u8]) -> u32 {
    data.first().copied().unwrap_or(0).into()
}

#[isolate]
fn add(a: u64, b: u64) -> u64 {
    a + b
}

fn main() -> Result<(), Box<dyn Error>> {
    farcall::executor::run_if_spawned();
    let seconds = std::env::args().nth(1).map_or(Ok(2.0), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("latency-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (source, object) = (folder.join("sum.c"), folder.join("sum.o"));
    std::fs::write(&source, SOURCE)?;
    let compiled =
        Command::new("cc").args(["-O3", "-fPIC", "-c", "-o"]).args([&object, &source]).status()?;
    let bytes = std::fs::read(&object);
    std::fs::remove_dir_all(&folder)?;
    if !compiled.success() {
        return Err("cc has failed".into());
    }
    // The same program, so the same executor but for the code.
    let executor = ExecutorBuilder::new().this_program().start()?;
    let library = executor.library("sum");
    library.add_object(&ObjectFile::parse("sum.o", bytes?)?)?;
    library.initialize()?;

    println!("function\tbytes\tisolated p50\tp99\tlinked p50\tp99\there p50\tratio");
    type Call = fn(&[u8]) -> u32;
    let functions: [(&str, Call, Call); 2] = [("first", first, first_here), ("crc", crc, crc_here)];
    for (name, isolated, here) in functions {
        let linked = library.function::<Bytes>(name);
        for size in [4, 64, 4096, 65536] {
            let data: Vec<u8> = (0..size).map(|at: u32| at.to_le_bytes()[0]).collect();
            let due = here(&data);
            let answer = linked.call(&data)?;
            assert_eq!((isolated(&data), &answer[..]), (due, &due.to_le_bytes()[..]));
            let [isolated, linked, here] = in_turns(
                Duration::from_secs_f64(seconds),
                [
                    &mut || {
                        black_box(isolated(black_box(&data)));
                    },
                    &mut || drop(black_box(linked.call(black_box(&data)).expect("it answers"))),
                    &mut || {
                        black_box(here(black_box(&data)));
                    },
                ],
            );
            let ratio = isolated[0] / linked[0];
            println!(
                "{name}\t{size}\t{:.0}\t{:.0}\t{:.0}\t{:.0}\t{:.0}\t{ratio:.3}",
                isolated[0], isolated[1], linked[0], linked[1], here[0]
            );
        }
    }
    let [added] = in_turns(
        Duration::from_secs_f64(seconds),
        [&mut || {
            black_box(add(1, 2));
        }],
    );
    println!("two numbers\t{:.0}\t{:.0}", added[0], added[1]);
    Ok(())
}

/// The p50 and p99 of each call, in nanoseconds. The calls are made in turns, in groups of 64.
fn in_turns<const N: usize>(time: Duration, mut calls: [&mut dyn FnMut(); N]) -> [[f64; 2]; N] {
    const GROUP: u32 = 64;
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    let begun = Instant::now();
    while begun.elapsed() < time {
        for (call, times) in calls.iter_mut().zip(&mut times) {
            call();
            let start = Instant::now();
            (0..GROUP).for_each(|_| call());
            times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(GROUP));
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        [times[times.len() / 2], times[times.len() * 99 / 100]]
    })
}
