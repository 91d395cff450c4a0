//! Regions: data that the host and linked code use in place, in one executor after the other and in several at once.

use std::alloc::Layout;
use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::Duration;

use farcall::controller::region::{Access, HeapBlock, Region, RegionHeap};
use farcall::controller::{CallOptions, Library, Process};
use farcall::link::ObjectFile;
use farcall::types::{Declarations, Value};
use farcall::{ErrorKind, ExecutorAddr};
use nix::sys::resource::{Resource, setrlimit};
use rustix::process;

use crate::alone;
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch;
use crate::testkit::process::until;

/// An executor with `region.c` linked.
struct Linked {
    process: Process,
    dylib: Library,
}

impl Linked {
    fn start() -> Self {
        let executor = launch::executor();
        let dylib = executor.library("region");
        let file = fs::read(corpus::object("region.c", PLAIN)).expect("just compiled");
        dylib.add_object(&ObjectFile::parse("region.o", file).expect("an object")).expect("added");
        let process = executor.process().expect("a process");
        Self { process, dylib }
    }

    /// Calls a function of words.
    fn call(&self, name: &str, args: [u64; 3]) -> farcall::Result<u64> {
        type OfWords = extern "C" fn(u64, u64, u64) -> u64;
        let function = self.dylib.function::<OfWords>(name).bind()?;
        function.call((args[0], args[1], args[2]))
    }

    /// The addresses where regions are mapped.
    fn mapped(&self) -> Vec<u64> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.process.pid()));
        let maps = maps.expect("alive");
        let regions = maps.lines().filter(|line| line.contains("memfd:farcall-region"));
        let start = |line: &str| u64::from_str_radix(line.split('-').next()?, 16).ok();
        regions.map(|line| start(line).expect("an address")).collect()
    }
}

fn region(bytes: u64) -> Region {
    Region::new(bytes, Access::ReadWrite).expect("a region")
}

/// Bytes that a process has read and written by system calls so far.
fn transferred(pid: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).expect("its counters");
    let counters: HashMap<_, _> = io.lines().filter_map(|line| line.split_once(": ")).collect();
    ["rchar", "wchar"].iter().map(|name| counters[name].parse::<u64>().expect("a number")).sum()
}

#[test]
fn rows_are_written_changed_and_read_in_place() {
    let linked = Linked::start();
    let mut region = region(64 << 20);
    let rows = region.as_mut_slice::<[f64; 4]>().expect("not attached yet");
    let count = rows.len();
    for (number, row) in (0_u32..).zip(rows.iter_mut()) {
        *row = [f64::from(number), 0.5, 0.0, 0.0];
    }
    let attached = linked.process.attach(&region).expect("attached");
    let pid = linked.process.pid().unsigned_abs();
    let before = [std::process::id(), pid].map(transferred);
    let calls = linked.process.stats().calls;
    let start = region.address().get();
    let seen = linked.call("total", [start, count as u64, 0]).expect("it runs");
    assert_eq!((seen, attached.address().get()), (start, start), "one address in both");
    for (number, row) in (0_u32..).zip(region.words().chunks(4)) {
        assert_eq!(f64::from_bits(row[2].load(Relaxed)), f64::from(number) * 0.5);
    }
    let after = [std::process::id(), pid].map(transferred);
    // Look-ups and other tests of this process transfer some, of this size none.
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before < 32 << 20, "{} bytes went through system calls", after - before);
    }
    assert!(linked.process.stats().calls - calls < 10, "a call and a look-up");
}

#[test]
fn a_batch_over_rows_is_one_message_in_each_way() {
    type Rate = extern "C" fn(ExecutorAddr, f64, i32, i16, i16, i16, i16, i64);
    let linked = Linked::start();
    let mut region = region(1000 * 32);
    let rows = region.as_mut_slice::<[f64; 4]>().expect("not attached yet");
    rows.iter_mut().zip(0_u32..).for_each(|(row, number)| *row = [f64::from(number), 0., 0., 0.]);
    let attached = linked.process.attach(&region).expect("attached");
    let at = linked.dylib.lookup("rate").expect("defined");
    let rate = linked.process.function::<Rate>(at).rows();
    let first = (attached.address(), 0.5, 0, 0, 0, 0, -7, -1);
    let steps = [32, 0, 1, 0, 0, 0, 2, -3];
    // Row n: half its price, plus n, plus 2 n - 7; its key is -1 - 3 n.
    let check = |region: &Region| {
        for (n, row) in (0_i32..).zip(region.words().chunks(4).take(1000)) {
            assert_eq!(f64::from_bits(row[2].swap(0, Relaxed)), f64::from(n) * 3.5 - 7.0);
            assert_eq!(row[3].swap(0, Relaxed).cast_signed(), -1 - 3 * i64::from(n));
        }
    };
    let calls = linked.process.stats().calls;
    rate.call((first, &steps, 1000)).expect("it runs");
    assert_eq!(linked.process.stats().calls - calls, 1, "one message for 1,000 rows");
    check(&region);
    rate.call_with(&CallOptions::new().timeout(Duration::from_secs(60)), (first, &steps, 1000))
        .expect("it runs");
    check(&region);
    rate.submit((first, &steps, 1000)).expect("submitted").wait().expect("it runs");
    check(&region);
    let twice = rate.batch([(first, &steps[..], 1000); 2]).expect("submitted");
    assert!(twice.collect::<Vec<_>>().iter().all(Result::is_ok));
    check(&region);

    // The same by a signature that is known at run time. Its result is dropped.
    let types = Declarations::new();
    let prototype = "int f(void *, double, int, short, short, short, short, long)";
    let signature = types.signature(prototype).expect("a prototype");
    let by_values = linked.process.function_with(at, &signature).expect("placed").rows();
    let values = [attached.address().into(), 0.5.into(), 0_i32.into()];
    let [zero, seven] = [0_i16, -7].map(Value::from);
    let rest = [zero.clone(), zero.clone(), zero, seven, (-1_i64).into()];
    let values: Vec<Value> = values.into_iter().chain(rest).collect();
    by_values.call((&values, &steps, 1000)).expect("it runs");
    check(&region);

    // Nothing is sent for steps that the types do not have.
    let calls = linked.process.stats().calls;
    let error = rate.call((first, &steps[1..], 1000)).expect_err("a step is missing");
    assert_eq!(error.kind(), ErrorKind::TypeMismatch, "{error}");
    assert!(error.to_string().contains("7 steps for 8 parameters"), "{error}");
    let error = by_values.call((&values, &[32, 1, 1, 0, 0, 0, 2, -3], 1000)).expect_err("a double");
    assert!(error.to_string().contains("parameter 2 is no integer or pointer"), "{error}");
    assert_eq!(linked.process.stats().calls, calls);
    rate.call((first, &steps, 0)).expect("no rows");

    // A crash leaves the rows before it complete.
    let error =
        rate.call((first, &[0, 0, 1, 0, 0, 0, 0, 1], 2000)).expect_err("a trap in row 1,000");
    assert!(error.death().is_some(), "{error}");
    assert_eq!(region.words()[3].load(Relaxed), 998, "the key of row 999");
}

#[test]
fn work_of_a_killed_executor_is_there_for_the_next() {
    const WORDS: usize = 1 << 20;
    let region = region(8 * WORDS as u64);
    let first = Linked::start();
    let attached = first.process.attach(&region).expect("attached");
    let address = attached.address();
    let filled = thread::scope(|scope| {
        let filling = scope.spawn(|| first.call("fill_for_ever", [address.get(), WORDS as u64, 0]));
        until("half is filled", || region.words()[WORDS / 2].load(Acquire) != 0);
        first.process.kill();
        filling.join().expect("no panic")
    });
    assert!(filled.expect_err("killed").death().is_some());
    assert_eq!(region.words()[WORDS / 2].load(Relaxed), WORDS as u64 / 2 + 1);
    assert_eq!(region.words()[0].load(Relaxed), 1);
    drop((attached, first));

    let complete = WORDS as u64 / 2 + 1;
    let next = Linked::start();
    let attached = next.process.attach(&region).expect("attached");
    assert_eq!(attached.address(), address, "addresses stored inside stay right");
    let sum = next.call("sum", [address.get(), complete, 0]).expect("it runs");
    assert_eq!(sum, complete * (complete + 1) / 2);
}

#[test]
fn two_executors_use_one_region_at_once() {
    let region = region(64);
    let executors = [Linked::start(), Linked::start()];
    let attached = executors.each_ref().map(|one| one.process.attach(&region).expect("room"));
    assert_eq!(attached.each_ref().map(|one| one.address()), [region.address(); 2]);
    let address = region.address().get();
    thread::scope(|scope| {
        for (executor, number) in executors.iter().zip(0..) {
            scope.spawn(move || {
                let turn = executor.call("take_turns", [address, number, 1000]);
                assert_eq!(turn.expect("it runs"), 1000);
            });
        }
    });
    assert_eq!(region.words()[0].load(Relaxed), 1000);
}

#[test]
fn a_store_into_a_read_only_region_is_named() {
    let linked = Linked::start();
    let region = Region::new(64, Access::ReadOnly).expect("a region");
    region.words()[0].store(42, Release);
    let _attached = linked.process.attach(&region).expect("attached");
    let address = region.address().get();
    assert_eq!(linked.call("peek", [address, 0, 0]).expect("it may read"), 42);
    region.words()[0].store(43, Release);
    assert_eq!(linked.call("peek", [address, 0, 0]).expect("it may read"), 43);
    let error = linked.call("poke", [address, 0, 0]).expect_err("a crash");
    for word in ["SIGSEGV", "poke+", &format!("{address:#x}")] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(region.words()[0].load(Relaxed), 43);
}

#[test]
fn linked_code_cannot_force_its_way_into_a_read_only_region() {
    let linked = Linked::start();
    let region = Region::new(4096, Access::ReadOnly).expect("a region");
    region.words()[0].store(42, Release);
    let _attached = linked.process.attach(&region).expect("attached");
    let (host, descriptor) = (u64::from(std::process::id()), region.as_fd().as_raw_fd());
    let descriptor = u64::from(descriptor.unsigned_abs());
    let forced = linked.call("force", [region.address().get(), host, descriptor]);
    let forced = forced.expect("it runs");
    assert!(forced & !1024 == 0, "{forced:#b}");
    assert_eq!(region.words()[0].load(Relaxed), 42);
    let heap = RegionHeap::new(self::region(4096));
    let _attached = linked.process.attach(heap.region()).expect("attached");
    let name = heap.copy(b"farcall-region\0").expect("room");
    let found = linked.call("descriptors", [name.address().get(), 0, 0]).expect("it runs");
    assert_eq!(found, 0, "the executor keeps no descriptor");
}

#[test]
fn an_executor_that_writes_everything_leaves_the_heap_whole() {
    const BYTES: u64 = 64 << 20;
    let linked = Linked::start();
    let heap = RegionHeap::new(region(BYTES));
    let _attached = linked.process.attach(heap.region()).expect("attached");
    let mut blocks: Vec<HeapBlock> =
        (0..10_000_u64).map(|number| heap.copy(&[number; 5]).expect("room")).collect();
    let used = heap.used_bytes();
    linked.call("scribble", [heap.region().address().get(), BYTES, 0]).expect("it runs");
    assert_eq!(heap.used_bytes(), used);
    let mut number = 0;
    blocks.retain(|_| {
        number += 1;
        number % 3 == 0
    });
    for bytes in 1..2000 {
        let layout = Layout::from_size_align(bytes, 8).expect("a layout");
        blocks.push(heap.allocate(layout).expect("room"));
    }
    blocks.sort_unstable_by_key(HeapBlock::offset);
    for pair in blocks.windows(2) {
        assert!(pair[0].offset() + pair[0].bytes() <= pair[1].offset());
    }
    drop(blocks);
    assert_eq!(heap.used_bytes(), 0);
    let all = Layout::from_size_align(64 << 20, 4096).expect("a layout");
    drop(heap.allocate(all).expect("all of it"));
    heap.trim().expect("trimmed");
    assert!(heap.region().words().iter().step_by(511).all(|word| word.load(Relaxed) == 0));
}

#[test]
fn structures_with_pointers_are_built_by_the_host() {
    let linked = Linked::start();
    let heap = RegionHeap::new(region(1 << 20));
    let (mut next, mut nodes) = (ExecutorAddr::NULL, Vec::new());
    for value in 1..=1000_u64 {
        nodes.push(heap.copy(&[next.get(), value]).expect("room"));
        next = nodes[nodes.len() - 1].address();
    }
    let _attached = linked.process.attach(heap.region()).expect("attached");
    assert_eq!(linked.call("sum_list", [next.get(), 0, 0]).expect("it runs"), 500_500);
}

#[test]
fn a_taken_address_is_an_error_or_another_by_choice() {
    let linked = Linked::start();
    let region = region(8192);
    let wanted = region.address();
    assert_eq!(linked.call("occupy", [wanted.get(), 0, 0]).expect("it runs"), wanted.get());
    let error = linked.process.attach(&region).expect_err("taken");
    assert!(error.kind() == ErrorKind::Exhausted, "{error:?}");
    for word in ["attach_anywhere", "8192", &wanted.to_string()] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(linked.mapped(), [0; 0], "nothing stays mapped");
    region.words()[0].store(7, Release);
    let attached = linked.process.attach_anywhere(&region).expect("attached");
    assert_ne!(attached.address(), wanted);
    assert_eq!(linked.call("peek", [attached.address().get(), 0, 0]).expect("it runs"), 7);
    assert_eq!(linked.mapped(), [attached.address().get()]);
}

#[test]
fn a_detached_region_is_unmapped_and_may_come_again() {
    let linked = Linked::start();
    let region = region(64);
    for round in 0..3_u64 {
        let attached = linked.process.attach(&region).expect("attached");
        let error = linked.process.attach(&region).expect_err("only once");
        assert!(error.kind() == ErrorKind::InvalidArgument, "{error:?}");
        assert_eq!(linked.mapped(), [region.address().get()]);
        linked.call("poke", [region.address().get() + 8 * round, 0, 0]).expect("it runs");
        if round == 0 {
            attached.detach().expect("detached")
        } else {
            drop(attached)
        }
        assert_eq!(linked.mapped(), [0; 0]);
    }
    assert_eq!([0, 1, 2, 3].map(|at| region.words()[at].load(Relaxed)), [1, 1, 1, 0]);
    let attached = linked.process.attach(&region).expect("attached");
    linked.process.kill();
    let error = attached.detach().expect_err("the executor is dead");
    assert!(error.death().is_some() || error.is_disconnected(), "{error:?}");
}

#[test]
fn forked_children_of_linked_code_share_a_region() {
    let linked = Linked::start();
    let region = region(64);
    let _attached = linked.process.attach(&region).expect("attached");
    let own = linked.call("fork_and_store", [region.address().get(), 0, 0]).expect("it runs");
    assert_eq!((own, region.words()[0].load(Relaxed)), (0, 7), "variables are the child's own");
}

#[test]
fn a_region_of_64_gib_costs_what_is_touched() {
    let linked = Linked::start();
    let region = region(64 << 30);
    let _attached = linked.process.attach(&region).expect("attached");
    let last = region.address().get() + (64 << 30) - 8;
    linked.call("poke", [last, 0, 0]).expect("it runs");
    assert_eq!(region.words()[(8 << 30) - 1].load(Relaxed), 1);
    let statm = fs::read_to_string("/proc/self/statm").expect("its size");
    let shared = statm.split(' ').nth(2).and_then(|pages| pages.parse::<u64>().ok());
    assert!(shared.expect("a number") * 4096 < 2 << 30, "{statm}");
}

#[test]
fn errors_of_regions_name_the_limit() {
    let name = "controller::region::errors_of_regions_name_the_limit";
    alone::run(name, || {
        let linked = Linked::start();
        let region = region(64 << 30);
        let limit: u64 = 16 << 30;
        let bounds = process::Rlimit { current: Some(limit), maximum: Some(limit) };
        let pid = process::Pid::from_raw(linked.process.pid());
        process::prlimit(pid, process::Resource::As, bounds).expect("a lower limit");
        let error = linked.process.attach(&region).expect_err("no address space");
        assert!(error.to_string().contains("ulimit -v"), "{error}");
        drop(region);
        let address_space = (Resource::RLIMIT_AS, "ulimit -v");
        // The size of the file is checked first.
        for (resource, hint) in [address_space, (Resource::RLIMIT_FSIZE, "ulimit -f")] {
            setrlimit(resource, limit, limit).expect("a lower limit");
            let error = Region::new(64 << 30, Access::ReadWrite).expect_err("over the limit");
            assert!(error.to_string().contains(hint), "{error}");
            assert!(error.to_string().contains(&limit.to_string()), "{error}");
        }
    });
}
