//! The executor's native memory map, asked by message: what it does to the executor's process.

use std::fs;

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use farcall::controller::Process;
use farcall::controller::memory::{AllocAction, AllocActionPair, Segment};
use farcall::link::ObjectFile;
use farcall::sps::{AllocGroup, Lifetime};
use farcall::{ErrorKind, ExecutorAddr, Prot};
use farcall_bench::tiny_code;

const PAGE: u64 = 4096;

fn page(slab: ExecutorAddr, number: u64) -> ExecutorAddr {
    ExecutorAddr::new(slab.get() + number * PAGE)
}

fn segment(prot: Prot, start: ExecutorAddr, content: &[u8]) -> Segment<'_> {
    Segment { group: AllocGroup::standard(prot), start, bytes: PAGE, content }
}

/// The mappings of a thread of the executor's that starts late. A leak in a test here has thousands of mappings.
const LATE_MAPPINGS: usize = 8;

/// The executor's mappings, descriptors, and bytes of memory.
fn resources(process: &Process) -> (usize, usize, u64) {
    let of = |file: &str| format!("/proc/{}/{file}", process.pid());
    let maps = fs::read_to_string(of("maps")).expect("alive").lines().count();
    let descriptors = fs::read_dir(of("fd")).expect("alive").count();
    // Without the pages of programs and libraries, of which the kernel maps 16 around each that is touched first.
    let rollup = fs::read_to_string(of("smaps_rollup")).expect("alive");
    let kilobytes = |name| {
        let found = rollup.lines().find_map(|line| line.strip_prefix(name));
        found.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok())
    };
    let resident = ["Pss_Anon:", "Pss_Shmem:"].map(|name| kilobytes(name).expect("a number"));
    (maps, descriptors, resident.iter().sum::<u64>() << 10)
}

/// The protections in a slab of the executor: where each begins, as the kernel says.
fn protections(process: &Process, slab: ExecutorAddr, bytes: u64) -> Vec<(u64, String)> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.pid())).expect("alive");
    let mapping = |line: &str| {
        let (start, rest) = line.split_once('-')?;
        let protection = rest.split(' ').nth(1)?.to_owned();
        Some((u64::from_str_radix(start, 16).ok()?, protection))
    };
    let end = slab.get() + bytes;
    let mut found: Vec<_> = maps.lines().filter_map(mapping).collect();
    found.retain(|(start, _)| *start < end);
    let first = found.iter().rposition(|(start, _)| *start <= slab.get()).unwrap_or(0);
    found.drain(..first);
    found[0].0 = slab.get();
    // Two mappings may have one protection.
    found.dedup_by(|next, one| next.1 == one.1);
    found
}

#[test]
fn content_comes_in_the_message_and_code_runs() {
    let process = launch::process();
    let memory = process.native_memory();
    let slab = memory.reserve(16 * PAGE).expect("a slab");
    for round in 1..=100_u64 {
        let (code, data) = (tiny_code::constant(round), round.to_le_bytes());
        let segments =
            [segment(Prot::Code, page(slab, 3), &code), segment(Prot::Data, page(slab, 1), &data)];
        let base = memory.initialize(&segments, &[]).expect("initialized");
        assert_eq!(base, page(slab, 1), "the lowest address");
        let result = process.call(page(slab, 3), &[0; 8]).expect("it runs");
        assert_eq!(result, round.to_le_bytes());
        let refused = memory.initialize(&segments[..1], &[]).expect_err("in use");
        assert!(
            refused.kind() == ErrorKind::Remote && refused.to_string().contains("in use"),
            "{refused}"
        );
        memory.deinitialize(&[base]).expect("deinitialized");
        assert!(memory.deinitialize(&[base]).is_err(), "only once");
    }
    memory.release(&[slab]).expect("released");
}

#[test]
fn actions_get_their_arguments_and_temporaries_are_free() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let memory = process.native_memory();
    let slab = memory.reserve(8 * PAGE).expect("a slab");
    let dylib = executor.library("actions");
    let object = std::fs::read(corpus::object("actions.c", PLAIN)).expect("just compiled");
    dylib.add_object(&ObjectFile::parse("actions.o", object).expect("an object")).expect("added");
    let add = dylib.lookup("add").expect("defined");
    let sum = segment(Prot::Data, page(slab, 1), &[]);
    let sum = memory.initialize(&[sum], &[]).expect("initialized");
    let plus = |number: u64| AllocAction::new(add, &(sum, number));
    let pair = |one, other| AllocActionPair { finalize: plus(one), dealloc: plus(other) };
    let read = || process.memory_access().read::<u64>(&[sum]).expect("readable")[0];

    let data = segment(Prot::Data, page(slab, 2), b"data");
    let mut temporary = segment(Prot::Constants, page(slab, 3), b"init");
    temporary.group.lifetime = Lifetime::Finalize;
    let base = memory.initialize(&[data, temporary], &[pair(1, 100), pair(20, 3000)]);
    let base = base.expect("initialized");
    assert_eq!(read(), 21);
    let again = segment(Prot::Data, page(slab, 3), b"free again");
    memory.initialize(&[again], &[]).expect("initialized");
    memory.deinitialize(&[base]).expect("deinitialized");
    assert_eq!(read(), 3121);

    let fails = dylib.lookup("fails").expect("defined");
    let finalize = AllocAction::new(fails, &u64::from_le_bytes(*b"not now\0"));
    let failing = AllocActionPair { finalize, dealloc: plus(1 << 40) };
    let actions = [pair(1, 2), pair(3, 4), failing, pair(1 << 50, 1 << 50)];
    let error = memory.initialize(&[data], &actions).err();
    let error = error.expect("an action fails").to_string();
    assert!(error.contains("finalize action 2 failed: not now"), "{error}");
    assert_eq!(read(), 3131, "those before it are undone, the others never ran");
    memory.initialize(&[data], &[]).expect("the pages are free");
    memory.release(&[slab]).expect("released");
}

#[test]
fn one_message_removes_1000_regions_and_one_releases_100_slabs() {
    let process = launch::process();
    let memory = process.native_memory();
    let slab = memory.reserve(1000 * PAGE).expect("a slab");
    let init = |number| {
        let segment = segment(Prot::ALL[(number % 3) as usize], page(slab, number), b"content");
        memory.initialize(&[segment], &[]).expect("initialized")
    };
    let bases: Vec<_> = (0..1000).map(init).collect();
    let slabs: Vec<_> = (0..100).map(|_| memory.reserve(16 * PAGE).expect("a slab")).collect();
    let before = process.stats().round_trips;
    memory.deinitialize(&bases).expect("deinitialized");
    memory.release(&slabs).expect("released");
    assert_eq!(process.stats().round_trips - before, 2);
    let error = memory.deinitialize(&bases).expect_err("all gone").to_string();
    assert!(bases.iter().all(|base| error.contains(&base.to_string())), "each is named");
    let error = memory.release(&slabs).expect_err("all gone").to_string();
    assert!(slabs.iter().all(|slab| error.contains(&slab.to_string())), "each is named");
    memory.release(&[slab]).expect("released");
    println!("removed by one message each: 1000 cases, 100 cases");
}

#[test]
fn cycles_leave_nothing_behind() {
    let process = launch::process();
    let memory = process.native_memory();
    let content = [7; 5000];
    let cycle = |number: u64| {
        let slab = memory.reserve((4 + number % 5) * PAGE).expect("a slab");
        let large = Segment { bytes: 2 * PAGE, ..segment(Prot::Data, slab, &content) };
        let mut temporary = segment(Prot::Constants, page(slab, 3), b"init");
        temporary.group.lifetime = Lifetime::Finalize;
        let segments = [large, segment(Prot::Code, page(slab, 2), b"\xc3"), temporary];
        let base = memory.initialize(&segments, &[]).expect("initialized");
        if !number.is_multiple_of(3) {
            memory.deinitialize(&[base]).expect("deinitialized");
        }
        memory.release(&[slab]).expect("released");
    };
    (0..100).for_each(cycle);
    let (maps, descriptors, resident) = resources(&process);
    (0..10_000).for_each(cycle);
    let after = resources(&process);
    assert_eq!(after.1, descriptors, "descriptors");
    // The thread that waits for the next lane may have started late, with a stack for signals and a heap of its own.
    assert!(after.0 <= maps + LATE_MAPPINGS, "{} mappings, {maps} before", after.0);
    assert!(after.2 <= resident + (64 << 10), "{} bytes resident, {resident} before", after.2);
    println!("cycles: 10000 cases, {maps} mappings, {descriptors} descriptors, {resident} bytes");
}

#[test]
fn mappings_that_run_out_are_an_error_and_change_nothing() {
    let limit = fs::read_to_string("/proc/sys/vm/max_map_count").expect("Linux");
    let limit: u64 = limit.trim().parse().expect("a number");
    let process = launch::process();
    let memory = process.native_memory();
    let pages = limit + 4096;
    let slab = memory.reserve(pages * PAGE).expect("a slab");
    // Every second page is read-only, and each of those parts the slab.
    let request = |first: u64, count: u64| -> Vec<Segment<'static>> {
        (first..first + count).map(|n| segment(Prot::Constants, page(slab, 2 * n), b"")).collect()
    };
    let (mut initialized, step) = (0, 256);
    let error = loop {
        let before = protections(&process, slab, pages * PAGE);
        match memory.initialize(&request(initialized, step), &[]) {
            Ok(_) => initialized += step,
            Err(error) => {
                let after = protections(&process, slab, pages * PAGE);
                assert_eq!(after, before, "the request has left nothing");
                break error;
            }
        }
        assert!(2 * initialized <= pages, "the limit of {limit} was never met");
    };
    assert!(
        error.kind() == ErrorKind::Remote && error.to_string().contains("os error 12"),
        "{error}"
    );
    let one = memory.initialize(&request(initialized, 1), &[]);
    assert_eq!(one.ok(), Some(page(slab, 2 * initialized)), "there is room for less");
    let bases: Vec<_> = (0..initialized / step).map(|n| page(slab, 2 * n * step)).collect();
    memory.deinitialize(&bases).expect("deinitialized");
    let parts = protections(&process, slab, pages * PAGE).len();
    assert_eq!(parts, 3, "the one region that is left, and what lies before and behind it");
    memory.initialize(&request(0, step), &[]).expect("there is room again");
    memory.release(&[slab]).expect("released");
    println!("mappings: {initialized} cases before the limit of {limit}");
}
