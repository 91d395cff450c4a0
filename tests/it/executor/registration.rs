//! Linked code made known to the unwinder and to debuggers, and taken back, by allocation actions.

use farcall::controller::Process;
use farcall::controller::memory::{AllocActionPair, Segment};
use farcall::link::ObjectFile;
use farcall::sps::AllocGroup;
use farcall::{AddrRange, ExecutorAddr, Prot};
use farcall_bench::{TinyObject, tiny_code};

use crate::testkit::corpus::{self, gcc};
use crate::testkit::launch;

const PAGE: u64 = 4096;

/// Stores content in a page of constants with the actions, and returns its base.
fn store(
    process: &Process,
    start: ExecutorAddr,
    content: &[u8],
    actions: &[AllocActionPair],
) -> farcall::Result<ExecutorAddr> {
    let group = AllocGroup::standard(Prot::Constants);
    process.native_memory().initialize(&[Segment { group, start, bytes: PAGE, content }], actions)
}

fn range(start: ExecutorAddr, bytes: usize) -> AddrRange {
    AddrRange::sized(start, bytes as u64).expect("no overflow")
}

/// Call frame information of a function: a CIE, zero words where a linker may have stripped records, an FDE, the end.
fn frames(gap_words: u8) -> Vec<u8> {
    let mut section = vec![20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0];
    section.extend([0x0c, 7, 8, 0x90, 1, 0, 0]);
    section.extend([0; 4].repeat(gap_words.into()));
    section.extend([28, 0, 0, 0, 28 + 4 * gap_words, 0, 0, 0]);
    section.extend([0x1000_0000_u64, 16, 0].map(u64::to_le_bytes).concat());
    section.extend([0; 4]);
    section
}

#[test]
fn libunwind_gets_whole_sections_where_it_throws() {
    let source = corpus::source("fake_libunwind.c");
    let library = corpus::shared_library(&[corpus::compile(&source, gcc(&["-O1", "-fPIC"]))]);
    let executor = launch::builder().env("LD_PRELOAD", library).start().expect("an executor");
    let process = executor.process().expect("a process");
    let dylib = executor.library("calls");
    let calls = TinyObject::new().function("calls", tiny_code::JUMP);
    let calls = calls.call_at(tiny_code::JUMP_TARGET, "fake_libunwind_calls").bytes();
    dylib.add_object(&ObjectFile::parse("calls.o", calls).expect("an object")).expect("added");
    let calls = dylib.lookup("calls").expect("defined");
    let count = || {
        let result = process.call(calls, &[]).expect("a result");
        result.chunks(4).map(|count| count[0]).collect::<Vec<_>>()
    };
    assert_eq!(count(), [0, 0]);
    let memory = process.native_memory();
    let slab = memory.reserve(PAGE).expect("a slab");
    let whole = frames(0);
    let once = memory.frames(range(slab, whole.len())).expect("offered");
    let twice = [once.clone(), once];
    let base = store(&process, slab, &whole, &twice[..1]).expect("initialized");
    assert_eq!(count(), [1, 0]);
    memory.deinitialize(&[base]).expect("deinitialized");
    assert_eq!(count(), [1, 1]);
    let base = store(&process, slab, &whole, &twice).expect("the second changes nothing");
    assert_eq!(count(), [2, 1]);
    let error = memory.deinitialize(&[base]).expect_err("the second finds nothing to take back");
    assert!(error.to_string().contains("is not registered"), "{error}");
    assert_eq!(count(), [2, 2]);
    // A record that describes no function is not registered; records on both sides of a gap are, each side by itself.
    for (section, runs) in [(vec![0; 4], 0), (frames(3), 1), ([whole, frames(1)].concat(), 2)] {
        let [added, removed] = count()[..] else { panic!("two numbers") };
        let actions = [memory.frames(range(slab, section.len())).expect("offered")];
        let base = store(&process, slab, &section, &actions).expect("initialized");
        assert_eq!(count(), [added + runs, removed]);
        memory.deinitialize(&[base]).expect("deinitialized");
        assert_eq!(count(), [added + runs, removed + runs]);
    }
}

#[test]
fn unreadable_frames_are_refused_and_the_memory_is_free() {
    let process = launch::builder().start().expect("an executor").process().expect("an executor");
    let memory = process.native_memory();
    let slab = memory.reserve(PAGE).expect("a slab");
    for bad in [&[1, 0, 0, 0][..], &[0; 6], &[0xff; 12], &[4, 0, 0, 0, 0, 0, 0, 0]] {
        let frames = memory.frames(range(slab, bad.len())).expect("offered");
        let error = store(&process, slab, bad, &[frames]).expect_err("refused").to_string();
        assert!(error.contains("call frame information"), "{error}");
    }
    let frames = memory.frames(range(slab, 4)).expect("offered");
    store(&process, slab, &[0; 4], &[frames]).expect("a good one");
    memory.release(&[slab]).expect("released");
}

#[test]
fn debuggers_know_objects_until_their_memory_is_freed() {
    let process = launch::builder().start().expect("an executor").process().expect("an executor");
    let memory = process.native_memory();
    let slab = memory.reserve(2 * PAGE).expect("a slab");
    let object = TinyObject::new().function("f", tiny_code::SAME).bytes();
    let known = [memory.debug_object(range(slab, object.len())).expect("offered")];
    for _ in 0..3 {
        let base = store(&process, slab, &object, &known).expect("initialized");
        memory.deinitialize(&[base]).expect("deinitialized");
    }
    store(&process, slab, &object, &known).expect("initialized");
    let second = ExecutorAddr::new(slab.get() + PAGE);
    store(&process, second, &object, &known).expect("registering it again changes nothing");
    let error = memory.release(&[slab]).expect_err("it can be taken back once").to_string();
    assert!(error.contains("object") && error.contains("is not registered"), "{error}");
}
