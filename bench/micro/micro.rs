//! `cargo bench -p farcall-micro`: the parts of a call and of a link one by one, and the whole of both between
//! two processes.
//!
//! Criterion's figures compare two versions of the code on one machine. `farcall bench` shows the distance of a call from the
//! machine's floor, with its tails.
//!
//! Invariant: each measured operation was checked to work before.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput};
use farcall::internals::HeapRing;
use farcall::link::{LinkGraph, ObjectCache, ObjectFile};
use farcall::{AddrRange, ExecutorAddr, sps};
use farcall_bench::{Callee, Contender, CpuPair, TinyObject, tiny_code};

/// Functions of the object that is linked.
const FUNCTIONS: u32 = 64;

fn main() {
    farcall::executor::run_if_spawned();
    let mut criterion = Criterion::default().configure_from_args();
    ring(&mut criterion);
    serialization(&mut criterion);
    link(&mut criterion);
    two_processes(&mut criterion);
    criterion.final_summary();
}

fn ring(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring push and pop");
    for bytes in [8, 40, 256, 4096] {
        let (mut ring, payload, mut out) = (HeapRing::new(4096), vec![7; bytes], Vec::new());
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("{bytes} bytes"), |bencher| {
            bencher.iter(|| {
                out.clear();
                assert!(ring.push(black_box(&payload)) && ring.pop(&mut out));
                out.len()
            });
        });
    }
}

fn serialization(criterion: &mut Criterion) {
    type Request = (ExecutorAddr, Vec<AddrRange>, String, Option<u64>);
    let start = ExecutorAddr::new(0x7f00_0000_0000);
    let range = AddrRange { start, end: ExecutorAddr::new(start.get() + 4096) };
    let request: Request = (start, vec![range; 3], "a symbol of some length".to_owned(), Some(1));
    let bytes = sps::to_bytes(&request);
    let decoded: Request = sps::from_bytes(&bytes).expect("what was encoded decodes");
    assert_eq!(decoded, request);

    let mut group = criterion.benchmark_group("sps");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("encode", |bencher| bencher.iter(|| sps::to_bytes(black_box(&request))));
    group.bench_function("decode", |bencher| {
        bencher.iter(|| sps::from_bytes::<Request>(black_box(&bytes)).is_ok());
    });
}

fn link(criterion: &mut Criterion) {
    let file = object_file();
    let object = ObjectFile::parse("chain.o", file.clone()).expect("a sound object");
    let starts = [0x40_0000, 0x50_0000, 0x60_0000].map(ExecutorAddr::new);
    let link = || {
        let mut graph = LinkGraph::default();
        graph.add_object(&object)?;
        graph.layout()?.fixup(starts, 0)
    };
    let image = link().expect("the object links");
    assert_eq!(image.stats.relocations, u64::from(2 * FUNCTIONS));

    let mut group = criterion.benchmark_group(format!("one object of {FUNCTIONS} functions"));
    group.throughput(Throughput::Bytes(file.len() as u64));
    group.bench_function("parse", |bencher| {
        let parse = |bytes| ObjectFile::parse("chain.o", bytes).is_ok();
        bencher.iter_batched(|| file.clone(), parse, BatchSize::SmallInput);
    });
    group.bench_function("parse again, with a cache", |bencher| {
        let cache = ObjectCache::new(file.len());
        let parse = |bytes| cache.parse("chain.o", bytes).is_ok();
        bencher.iter_batched(|| file.clone(), parse, BatchSize::SmallInput);
    });
    group.bench_function("link", |bencher| bencher.iter(&link));
}

/// An object in which each function counts up a variable of its own and then jumps to the function before it.
fn object_file() -> Vec<u8> {
    // inc qword ptr [rip + variable]; jmp function
    let code = [0x48, 0xff, 0x05, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
    let first = TinyObject::new().function("f0", tiny_code::NULL_CALL);
    let chain = (1..=FUNCTIONS).fold(first, |object, number| {
        let object = object.variable(&format!("v{number}"), &[0; 8]);
        let object = object.function(&format!("f{number}"), &code);
        object.data_at(3, &format!("v{number}")).call_at(8, &format!("f{}", number - 1))
    });
    chain.bytes()
}

fn two_processes(criterion: &mut Criterion) {
    let cpus = CpuPair::first_two().expect("CPUs");
    let callee = Callee::start(cpus).expect("an executor");
    let _pinned = cpus.pin_caller().expect("a CPU");
    let mut group = criterion.benchmark_group("two processes");
    row(&mut group, callee.null_call());
    row(&mut group, callee.code_call());
    row(&mut group, callee.data_call());
}

fn row(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    mut row: impl Contender,
) {
    group.bench_function(row.name().to_owned(), |bencher| {
        bencher.iter_custom(|calls| {
            // The first call of a batch wakes the executor.
            row.call().expect("an answer");
            let mut took = Duration::ZERO;
            let mut left = calls;
            while left > 0 {
                let batch = u32::try_from(left).unwrap_or(u32::MAX);
                took += row.run(batch).expect("answers");
                left -= u64::from(batch);
            }
            took
        });
    });
}
