//! The controller's view of the executor: memory by address, and the process.

use crate::testkit::launch;
use crate::testkit::processor::FEATURES;
use farcall::controller::Process;
use farcall::controller::memory::Segment;
use farcall::sps::AllocGroup;
use farcall::{AddrRange, ErrorKind, ExecutorAddr, Prot};

const PAGE: u64 = 4096;

/// Two pages of memory with the end of the second at the end of what is mapped readable.
fn memory(process: &Process) -> ExecutorAddr {
    process.native_memory().reserve(2 * PAGE).expect("a slab")
}

fn at(start: ExecutorAddr, offset: u64) -> ExecutorAddr {
    ExecutorAddr::new(start.get() + offset)
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "the low bits of a number are a word as well")]
fn words_of_every_size_are_written_and_read_in_order() {
    let process = launch::process();
    let (start, access) = (memory(&process), process.memory_access());
    let places = |step: u64| (0..2000 / step).map(|n| at(start, n * step)).collect::<Vec<_>>();
    macro_rules! check {
        ($($word:ty),*) => {$({
            let all = places(size_of::<$word>() as u64);
            let words: Vec<$word> = (0..all.len()).map(|n| (n * 40_503) as $word).collect();
            access.write(all.iter().copied().zip(words.iter().copied())).expect("written");
            assert_eq!(access.read::<$word>(&all).expect("read"), words);
        })*};
    }
    check!(u8, u16, u32, u64);
    let pointers = places(8);
    access.write(pointers.iter().map(|one| (*one, *one))).expect("written");
    assert_eq!(access.read::<ExecutorAddr>(&pointers).expect("read"), pointers);
    let unaligned = [at(start, 1)];
    access.write([(unaligned[0], 0x0102_0304_u32)]).expect("written");
    assert_eq!(access.read::<u32>(&unaligned).expect("read"), [0x0102_0304]);
    assert_eq!(access.read::<u8>(&[]).expect("nothing to read"), [0; 0]);
}

#[test]
fn buffers_and_strings_are_written_and_read() {
    let process = launch::process();
    let (start, access) = (memory(&process), process.memory_access());
    let across = vec![7; 5000];
    let buffers =
        [(at(start, 100), &b"one\0two\0"[..]), (at(start, 200), b""), (at(start, 300), &across)];
    access.write_buffers(buffers).expect("written");
    let range = |offset, bytes| AddrRange::sized(at(start, offset), bytes).expect("no overflow");
    let read = access.read_buffers(&[range(100, 5), range(0, 0), range(300, 5001)]).expect("read");
    assert_eq!((&read[0][..], read[1].len()), (&b"one\0t"[..], 0));
    assert_eq!(read[2], [&across[..], &[0]].concat());
    let strings =
        access.read_strings(&[at(start, 104), at(start, 100), at(start, 103), at(start, 300)]);
    assert_eq!(strings.expect("read"), [b"two".to_vec(), b"one".to_vec(), vec![], across]);
}

#[test]
fn unreachable_memory_is_an_error_and_the_executor_runs_on() {
    let process = launch::process();
    let (start, access) = (memory(&process), process.memory_access());
    let native = process.native_memory();
    let group = AllocGroup::standard(Prot::Code);
    let code = Segment { group, start: at(start, PAGE), bytes: PAGE, content: &[1; 4096] };
    native.initialize(&[code], &[]).expect("initialized");
    let mut cases = 0;
    let mut refused = |result: farcall::Result<()>, address: u64| {
        let error = result.expect_err("refused");
        assert!(
            error.kind() == ErrorKind::Remote
                && error.to_string().contains(&format!("{address:#x}")),
            "{error}"
        );
        cases += 1;
    };
    for bad in [0, 8, 0x1000, 1 << 47, 1 << 63, u64::MAX - 8] {
        let bad = ExecutorAddr::new(bad);
        let one = AddrRange::sized(bad, 8).expect("no overflow");
        refused(access.read::<u8>(&[start, bad]).map(drop), bad.get());
        refused(access.read::<u64>(&[start, bad]).map(drop), bad.get());
        refused(access.read::<ExecutorAddr>(&[bad]).map(drop), bad.get());
        refused(access.read_buffers(&[one]).map(drop), bad.get());
        refused(access.read_strings(&[start, bad]).map(drop), bad.get());
        refused(access.write([(start, 5_u16), (bad, 6)]), bad.get());
        refused(access.write_buffers([(bad, &b"text"[..])]), bad.get());
        assert_eq!(access.read::<u16>(&[start]).expect("read"), [5], "what came before is written");
    }
    refused(access.write([(code.start, 5_u8)]), code.start.get());
    assert_eq!(access.read::<u8>(&[code.start]).expect("code is readable"), [1]);

    let huge = AddrRange::sized(start, 1 << 40).expect("no overflow");
    let error = access.read_buffers(&[huge]).expect_err("too much");
    assert!(
        error.kind() == ErrorKind::Remote && error.to_string().contains("ask for less"),
        "{error}"
    );
    assert_eq!(access.read::<u8>(&[code.start]).expect("the executor goes on"), [1]);
    println!("refused reads and writes: {cases} cases");
}

#[test]
fn a_string_without_an_end_is_an_error() {
    let process = launch::process();
    let native = process.native_memory();
    // Slabs are neighbours, the later one below: without it, what ends the first is not mapped.
    let below = native.reserve(4 * PAGE).expect("a slab");
    let group = AllocGroup::standard(Prot::Data);
    let content = vec![b'x'; 4096 * 4];
    let full = Segment { group, start: below, bytes: 4 * PAGE, content: &content };
    native.initialize(&[full], &[]).expect("initialized");
    let read = process.memory_access().read_strings(&[below]);
    match read {
        Ok(strings) => assert!(strings[0].starts_with(&content), "it ends in what lies behind"),
        Err(error) => assert!(error.kind() == ErrorKind::Remote, "{error}"),
    }
    assert!(process.process_info().is_ok(), "the executor goes on");
}

#[test]
fn the_executor_says_what_it_is() {
    let process = launch::process();
    let info = process.process_info().expect("an answer");
    assert_eq!((info.triple.as_str(), info.page_bytes), (process.triple(), PAGE));
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").expect("Linux");
    let flags: Vec<_> = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix(FEATURES.0))
        .expect("features of this processor")
        .split_whitespace()
        .collect();
    for (ours, theirs) in FEATURES.1 {
        let has = info.cpu_features.iter().any(|feature| feature == ours);
        assert_eq!(has, flags.contains(&theirs), "{ours} in {:?}", info.cpu_features);
    }
    println!("processor features: {} cases", info.cpu_features.len());
}
