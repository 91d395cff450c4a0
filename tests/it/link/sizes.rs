//! Programs with more data than a slab has at first, or with more zero fill than memory is for.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use farcall::controller::Process;
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr, PerProt};
use farcall_bench::TinyObject;

use crate::commands::native::{farcall_run, program, same_as_native};
use crate::testkit::corpus::{self, LOW, PLAIN, gcc};
use crate::testkit::launch::{self, FARCALL};
use crate::testkit::process::run_to_end;

const MIB: u64 = 1 << 20;

/// The program prints whether it took little memory, and a child that it forks.
#[test]
fn zero_fill_of_1280_mib_is_as_native() {
    let program = program(&["large_zero_fill.c"], &[]);
    same_as_native(&program, &[PLAIN, LOW, gcc(&["-O2", "-fPIC"])]);
}

#[test]
fn the_large_code_model_goes_beyond_2_gib() {
    let large = gcc(&["-O2", "-mcmodel=large", "-DBYTES=(3ull<<30)"]);
    same_as_native(&program(&["large_zero_fill.c"], &[]), &[large]);
}

#[test]
fn zero_fill_that_nothing_touches_takes_no_memory() {
    let ended = run_to_end(farcall_run(&[corpus::object("zeroes.c", PLAIN)], &[]), b"");
    assert_eq!((ended.status, ended.complaint().as_str()), (0, ""), "{ended}");
}

/// The most memory that an executor had, in bytes.
fn peak(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid())).expect("alive");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

fn object(name: &str) -> ObjectFile {
    let path = corpus::object(name, PLAIN);
    ObjectFile::parse(name, fs::read(path).expect("an object")).expect("an object")
}

#[test]
fn zero_fill_that_was_written_is_zero_in_the_next_link() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let (object, access) = (object("zeroes.c"), process.memory_access());
    let mut places = Vec::new();
    for _ in 0..4 {
        let dylib = executor.library("zeroes");
        dylib.add_object(&object).expect("added");
        let zeroes = dylib.lookup("zeroes").expect("defined");
        let last = zeroes.checked_add(400 * MIB - 8).expect("an address");
        assert_eq!(access.read::<u64>(&[zeroes, last]).expect("readable"), [0, 0]);
        access.write([(zeroes, u64::MAX), (last, u64::MAX)]).expect("writable");
        dylib.clear().expect("removed");
        places.push(zeroes);
    }
    assert!(places.windows(2).all(|pair| pair[0] == pair[1]), "{places:?}");
    assert!(peak(&process) < 64 * MIB, "{} bytes", peak(&process));
}

/// An image that is aligned to more than a page starts behind the start of its memory.
#[test]
fn zeroes_surround_an_image_in_memory_that_was_used() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let access = process.memory_access();
    let ones = launch::tiny_object(&TinyObject::new().variable("ones", &[0xff; 0x48000]));
    let mixed = object("aligned_zeroes.s");
    for _ in 0..3 {
        let dylib = executor.library("d");
        dylib.add_object(&ones).expect("added");
        let used = dylib.lookup("ones").expect("defined");
        assert_eq!(access.read::<u64>(&[used]).expect("readable"), [u64::MAX]);
        dylib.clear().expect("removed");

        let dylib = executor.library("d");
        dylib.add_object(&mixed).expect("added");
        let word = dylib.lookup("word").expect("defined");
        let zeroes = dylib.lookup("zeroes").expect("defined");
        let words = (0..0x6000 / 8).map(|at| zeroes.checked_add(8 * at).expect("an address"));
        let words: Vec<ExecutorAddr> = words.collect();
        assert_eq!(access.read::<u64>(&[word]).expect("readable"), [7]);
        let found = access.read::<u64>(&words).expect("readable");
        assert!(found.iter().all(|word| *word == 0), "bytes of the link before");
        dylib.clear().expect("removed");
    }
}

#[test]
fn a_fresh_run_empties_large_zero_fill() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let program = executor.library("zeroes");
    program.keep_initial_data().expect("added");
    program.add_object(&object("zeroes.c")).expect("added");
    let zeroes = program.lookup("zeroes").expect("defined");
    let access = process.memory_access();
    for _ in 0..3 {
        access.write([(zeroes, 7_u64)]).expect("writable");
        program.run_fresh(["zeroes"]).expect("it runs");
        assert_eq!(access.read::<u64>(&[zeroes]).expect("readable"), [0]);
    }
    assert!(peak(&process) < 64 * MIB, "{} bytes", peak(&process));
}

/// Together they have 2.3 GiB of data.
#[test]
fn links_that_exceed_a_slab_together_get_another() {
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let object = object("zeroes.c");
    let mut links = Vec::new();
    for _ in 0..6 {
        let dylib = executor.library("zeroes");
        dylib.add_object(&object).expect("added");
        let first = dylib.lookup("first").expect("defined");
        let first = process.function::<extern "C" fn() -> u64>(first).call(()).expect("a result");
        let zeroes = dylib.lookup("zeroes").expect("defined");
        assert_eq!(ExecutorAddr::new(first), zeroes);
        links.push((dylib, zeroes));
    }
    let allocated = process.allocate(PerProt { code: 4096, ..PerProt::default() });
    drop(allocated.expect("there is room again"));
    for (number, (_, one)) in links.iter().enumerate() {
        for (_, other) in &links[..number] {
            assert!(one.get().abs_diff(other.get()) >= 400 * MIB, "{one} and {other}");
        }
    }
    links.iter().for_each(|(dylib, _)| dylib.clear().expect("removed"));
}

#[test]
fn small_slabs_grow_with_many_links() {
    let small = PerProt { code: MIB, constants: MIB, data: MIB };
    let process = launch::builder()
        .slab_bytes(small)
        .start()
        .expect("an executor")
        .process()
        .expect("an executor");
    let mut all = Vec::new();
    let one = PerProt { code: 1, constants: 0, data: 300 << 10 };
    for _ in 0..40 {
        let memory = process.allocate(one).expect("the session has more slabs");
        all.push(memory.finalize());
    }
    let error = loop {
        match process.allocate(one) {
            Ok(memory) => all.push(memory.finalize()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    for word in ["64 slabs", "slab_bytes", "--slab"] {
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(all.len(), 64 * 3, "three in each slab");
    process.deallocate(all).expect("freed");
    drop(process.allocate(one).expect("there is room"));
}

#[test]
fn more_than_a_slab_can_have_is_refused_with_numbers() {
    let process = launch::process();
    let error = process.allocate(PerProt { data: 9 << 30, ..PerProt::default() });
    let error = error.expect_err("more than 8 GiB");
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.to_string().contains("at most 8589930496 bytes"), "{error}");
    let too_large = PerProt { code: 9 << 30, constants: MIB, data: MIB };
    let uneven = PerProt { code: 5, constants: MIB, data: MIB };
    for bytes in [too_large, uneven, PerProt::default()] {
        let error = launch::builder().slab_bytes(bytes).start().expect_err("no such slab");
        assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
        assert!(error.to_string().contains("slab_bytes"), "{error}");
    }
}

/// Runs a program in a shell whose address space is limited.
fn limited(options: &str, program: &str) -> (i32, String) {
    let object = corpus::object(program, PLAIN);
    let script = format!("ulimit -v 320000; exec \"$0\" run {options} \"$1\"");
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script, FARCALL]).arg(object).arg0("sh");
    let ended = run_to_end(shell, b"");
    (ended.status, ended.complaint())
}

#[test]
fn a_limit_on_address_space_is_named_with_what_to_do() {
    let (status, complaint) = limited("", "hello.c");
    assert_eq!((status, complaint.lines().count()), (125, 1), "{complaint}");
    for word in ["ulimit -v", "RLIMIT_AS", "327680000 bytes", "--slab"] {
        assert!(complaint.contains(word), "{complaint}");
    }
    assert_eq!(limited("--slab 8,8,16", "hello.c"), (42, "a line on stderr\n".to_owned()));
    let (status, complaint) = limited("--slab 8,8,16", "large_zero_fill.c");
    assert_eq!((status, complaint.lines().count()), (126, 1), "{complaint}");
    for word in ["ulimit -v", "327680000 bytes", " of data in another slab"] {
        assert!(complaint.contains(word), "{complaint}");
    }
}
