//! Thread-locals behave as in the native program, whatever code reaches them, and come and go with their dylib.
//!
//! Invariant: the native program of the very same objects says what is right. Code that is loaded into running threads has no
//! native program; its numbers are in the sources.

use farcall::controller::{Executor, ExecutorBuilder, Library, Process};
use farcall::link::ObjectFile;
use farcall::{ErrorKind, ExecutorAddr};

use crate::commands::native::{assert_same, farcall_run, native, program, same_as_native};
use crate::testkit::corpus::{
    self, Build, DESCRIPTORS, FAR_CALLS, LARGER, LOW, PLAIN, clang, gcc, matrix,
};
use crate::testkit::held::Held;
use crate::testkit::launch::FARCALL;
use crate::testkit::process::run_to_end;
use crate::testkit::processor::{INITIAL_EXEC, LOCAL_EXEC};
use crate::testkit::tools;

/// The ways to reach thread-locals that compilers know, with the instructions for each.
const MODELS: [Build<'static>; 11] = [
    gcc(&["-O2", "-fPIC", "-ftls-model=global-dynamic"]),
    gcc(&["-O0", "-fPIC", "-ftls-model=local-dynamic"]),
    gcc(&["-O2", "-fPIC", "-fno-plt", "-ftls-model=local-dynamic"]),
    gcc(&["-O2", "-fPIC", "-ftls-model=initial-exec"]),
    gcc(&["-O2", "-fno-plt", "-fPIC"]),
    gcc(&["-O2", "-fPIC", DESCRIPTORS]),
    gcc(&["-O0", "-fPIC", DESCRIPTORS]),
    gcc(&["-O2", "-fPIC", FAR_CALLS]),
    gcc(&["-O0", "-fPIC", FAR_CALLS]),
    gcc(&["-O2", "-fPIC", LARGER]),
    gcc(&["-Os", "-fPIE"]),
];

const CXX: &[&str] = &["stdc++", "m"];

#[test]
fn every_model() {
    let builds = [&matrix()[..], &MODELS].concat();
    same_as_native(&program(&["tls.c"], &[]), &builds);
    same_as_native(&program(&["tls_variables_a.c", "tls_variables_b.c"], &[]), &builds);
    same_as_native(&program(&["tls_variables_b.c", "tls_variables_a.c"], &[]), &MODELS);
}

#[test]
fn threads_with_the_smallest_stacks() {
    same_as_native(&program(&["tls_small_stacks.c"], &[]), &[PLAIN, gcc(&["-O0", "-fPIC"])]);
}

#[test]
fn objects_with_constructors_and_destructors() {
    let builds = [
        PLAIN,
        LOW,
        gcc(&["-O0"]),
        gcc(&["-O2", "-fPIC"]),
        gcc(&["-O0", "-fPIC", DESCRIPTORS]),
        gcc(&["-O2", "-fPIC", "-fno-plt", "-ffunction-sections", "-fdata-sections"]),
    ];
    same_as_native(&program(&["tls_objects_a.cpp", "tls_objects_b.cpp"], CXX), &builds);
    same_as_native(&program(&["tls_objects_b.cpp", "tls_objects_a.cpp"], CXX), &[PLAIN]);
}

#[test]
fn rust_with_its_standard_library() {
    for flags in [&["-Copt-level=2"][..], &["-Copt-level=0", "-g"]] {
        let archive = corpus::rust_archive("std_threads.rs", flags);
        let inputs = [corpus::object("rust_main.c", PLAIN), archive];
        let executable = corpus::executable(&inputs, &[], gcc(flags));
        let reference = run_to_end(native(&executable, &[]), b"");
        assert_eq!(reference.status, 11, "{reference}");
        let ours = run_to_end(farcall_run(&inputs, &[]), b"");
        assert_same(&format!("{flags:?}"), &reference, &ours);
    }
}

#[test]
fn thread_locals_of_the_cxx_library() {
    let builds = [PLAIN, LOW, gcc(&["-O0", "-fPIC"]), gcc(&["-O2", "-fPIC", DESCRIPTORS])];
    same_as_native(&program(&["once.cpp"], CXX), &builds);
}

#[test]
fn thread_locals_of_a_shared_library() {
    let library = corpus::shared_library(&[corpus::object("tls_library.c", gcc(&["-fPIC"]))]);
    let folder = library.parent().expect("it lies in a folder").to_path_buf();
    for flags in [&["-O2"][..], &["-O0", "-fPIC"], &["-O2", "-fPIC", "-fno-plt"]] {
        let build = gcc(flags);
        let object = corpus::object("tls_library_user.c", build);
        let executable = corpus::executable(&[object.clone(), library.clone()], &[], build);
        let reference = run_to_end(native(&executable, &[]), b"");
        assert_eq!(reference.status, 35, "{reference}");
        let inputs = [object, "-L".into(), folder.clone(), "-lshared".into()];
        let ours = run_to_end(farcall_run(&inputs, &[]), b"");
        assert_same(&format!("{flags:?}"), &reference, &ours);
    }
}

/// Code that a library could have, so that its thread-locals may lie outside of the static TLS reserve.
const LIBRARY: [Build<'static>; 10] = [
    clang(&["-O0", "-fPIC"]),
    clang(&["-O2", "-fPIC"]),
    gcc(&["-O2", "-fPIC"]),
    gcc(&["-O0", "-fPIC"]),
    gcc(&["-O2", "-fPIC", DESCRIPTORS]),
    gcc(&["-O0", "-fPIC", DESCRIPTORS]),
    gcc(&["-O2", "-fPIC", "-fno-plt"]),
    gcc(&["-O2", "-fPIC", "-ftls-model=local-dynamic"]),
    gcc(&["-O2", "-fPIC", "-ftls-model=local-dynamic", DESCRIPTORS]),
    gcc(&["-O2", "-fPIC", FAR_CALLS]),
];

/// The models that this machine can do.
fn library() -> &'static [Build<'static>] {
    let has_clang = tools::is_here("clang", "thread-locals of its objects");
    if has_clang { &LIBRARY } else { &LIBRARY[2..] }
}

#[test]
fn more_than_the_reserve_has() {
    let sources = ["tls_large.c", "tls_large_other.c"];
    same_as_native(&program(&sources, &[]), library());
    same_as_native(&program(&["tls_large_other.c", "tls_large.c"], &[]), &library()[..2]);
    same_as_native(&program(&["tls.c", "tls_filler.c"], &[]), library());
    let sources = ["tls_variables_a.c", "tls_variables_b.c", "tls_filler.c"];
    same_as_native(&program(&sources, &[]), library());
}

#[test]
fn first_uses_that_interrupt_the_allocator_and_fork() {
    let builds = [gcc(&["-O2", "-fPIC"]), gcc(&["-O2", "-fPIC", DESCRIPTORS])];
    same_as_native(&program(&["tls_interrupted.c"], &[]), &builds);
}

#[test]
fn objects_outside_of_the_reserve() {
    let sources = ["tls_objects_a.cpp", "tls_objects_b.cpp", "tls_filler.c"];
    same_as_native(&program(&sources, CXX), library());
    same_as_native(&program(&["once.cpp", "tls_filler.c"], CXX), &library()[..4]);
    let filler = corpus::object("tls_filler.c", gcc(&["-fPIC"]));
    let archive = corpus::rust_archive("std_threads.rs", &["-Copt-level=2"]);
    let inputs = [corpus::object("rust_main.c", gcc(&["-fPIC"])), filler, archive];
    let executable = corpus::executable(&inputs, &[], PLAIN);
    let reference = run_to_end(native(&executable, &[]), b"");
    assert_eq!(reference.status, 11, "{reference}");
    assert_same("std_threads.rs", &reference, &run_to_end(farcall_run(&inputs, &[]), b""));
}

#[test]
fn code_with_constant_offsets_is_told_how_to_compile() {
    let sources = ["tls_large_other.c", "tls_large.c"];
    for (flags, relocation) in [
        (&["-O2"][..], LOCAL_EXEC),
        (&["-O2", "-fno-pic"], LOCAL_EXEC),
        (&["-O2", "-fPIC", "-ftls-model=initial-exec"], INITIAL_EXEC),
    ] {
        let objects = sources.map(|source| corpus::object(source, gcc(flags)));
        let ended = run_to_end(farcall_run(&objects, &[]), b"");
        let text = String::from_utf8_lossy(&ended.stderr);
        let wanted = [
            "bytes of thread-locals aligned to 4096",
            "65536",
            relocation,
            "-fPIC -ftls-model=global-dynamic",
        ];
        let says_all = wanted.iter().all(|part| text.contains(part));
        assert!(ended.status == 126 && says_all, "{flags:?}: {ended}");
    }
    // One such object is enough: all share one block.
    let objects = [
        corpus::object(sources[0], gcc(&["-O2", "-fPIC"])),
        corpus::object(sources[1], gcc(&["-O2", "-fPIE"])),
    ];
    let ended = run_to_end(farcall_run(&objects, &[]), b"");
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(text.contains("tls_large.o: section .text") && text.contains("-fPIC"), "{ended}");
}

struct Session(Process);

impl Session {
    fn new() -> Self {
        let program = FARCALL;
        let executor = ExecutorBuilder::new().program(program).start().expect("an executor");
        Self(executor.process().expect("a process"))
    }

    fn dylib(&self, source: &str, flags: &[&str]) -> Library {
        self.dylib_of(&[source], flags)
    }

    fn dylib_of(&self, sources: &[&str], flags: &[&str]) -> Library {
        let dylib = Executor::from(&self.0).library(sources[0]);
        add(&dylib, sources, flags).expect("linked");
        dylib
    }

    fn call(&self, dylib: &Library, name: &str, args: &[u8]) -> u64 {
        let result = self.0.call(dylib.lookup(name).expect("defined"), args).expect("a result");
        result.try_into().map_or(0, u64::from_le_bytes)
    }
}

fn add(dylib: &Library, sources: &[&str], flags: &[&str]) -> farcall::Result<()> {
    for source in sources {
        let object = std::fs::read(corpus::object(source, gcc(flags))).expect("just compiled");
        dylib.add_object(&ObjectFile::parse(*source, object)?)?;
    }
    dylib.link().map(drop)
}

fn bytes(address: ExecutorAddr) -> [u8; 8] {
    address.get().to_le_bytes()
}

#[test]
fn threads_that_run_already_get_them_too() {
    let session = Session::new();
    let workers = session.dylib("tls_worker.c", &["-O2"]);
    assert_eq!(session.call(&workers, "start", &[]), 3);
    for round in 0..20 {
        let flags: &[&str] = if round % 2 == 0 { &["-O2"] } else { &["-O2", "-fPIC"] };
        let late = session.dylib("tls_late.c", flags);
        let next = late.lookup("next").expect("defined");
        for call in 1..4 {
            let all = session.call(&workers, "run", &bytes(next));
            let one = session.call(&late, "call_next", &[]);
            assert_eq!((all, one), (3 * (40 + 1002 * call - 1), 40 + 1002 * call - 1), "{round}");
        }
        late.clear().expect("cleared");
    }
    session.call(&workers, "stop", &[]);
    workers.clear().expect("cleared");
}

#[test]
fn a_later_link_reaches_thread_locals_of_an_earlier_one() {
    for flags in [&["-O2"][..], &["-O2", "-fPIC"], &["-O2", "-fPIC", DESCRIPTORS]] {
        let session = Session::new();
        let workers = session.dylib("tls_worker.c", &["-O2"]);
        assert_eq!(session.call(&workers, "start", &[]), 3);
        let dylib = session.dylib("tls_late.c", &["-O2"]);
        add(&dylib, &["tls_later.c"], flags).expect("linked");
        let next = dylib.lookup("next").expect("defined");
        let twice = dylib.lookup("twice").expect("defined");
        assert_eq!(session.call(&workers, "run", &bytes(twice)), 3 * 80);
        session.call(&workers, "run", &bytes(next));
        assert_eq!(session.call(&workers, "run", &bytes(twice)), 3 * 82);

        let error = dylib.lookup("value").expect_err("it has no address").to_string();
        assert!(error.contains("value") && error.contains("thread-local"), "{error}");
        session.call(&workers, "stop", &[]);
    }
}

#[test]
fn removal_runs_destructors_of_the_thread() {
    let session = Session::new();
    let counter = session.dylib("counter.c", &["-O2"]);
    let count = counter.lookup("count").expect("defined");
    for round in 1..=100 {
        let counted = match round % 2 {
            0 => session.dylib("tls_counted.cpp", &["-O2"]),
            _ => session.dylib_of(&["tls_counted.cpp", "tls_filler.c"], &["-O2", "-fPIC"]),
        };
        session.call(&counted, "touch", &bytes(count));
        assert_eq!(session.call(&counter, "read_count", &[]), round - 1);
        counted.clear().expect("cleared");
        assert_eq!(session.call(&counter, "read_count", &[]), round);
    }
}

#[test]
fn the_reserve_is_used_again_and_says_when_it_is_full() {
    let session = Session::new();
    let late = |name: &str, flags: &[&str]| {
        let dylib = Executor::from(&session.0).library(name);
        add(&dylib, &["tls_late.c"], flags).map(|()| dylib)
    };
    let mut dylibs = Vec::new();
    let error = loop {
        match late(&format!("number {}", dylibs.len()), &["-O2"]) {
            Ok(dylib) => dylibs.push(dylib),
            Err(error) => break error,
        }
        assert!(dylibs.len() < 1000, "no end to it");
    };
    assert!(error.kind() == ErrorKind::Exhausted, "{error}");
    let text = error.to_string();
    assert!(text.contains("thread-locals") && text.contains("65536"), "{text}");
    assert_eq!(dylibs.len(), 65536 / 5024, "of 5016 bytes each, aligned to 32");
    for dylib in &dylibs {
        assert_eq!(session.call(dylib, "call_next", &[]), 1041);
    }
    // Code that can do without it can be linked all the same.
    let outside = late("outside", &["-O2", "-fPIC"]).expect("linked");
    assert_eq!(session.call(&outside, "call_next", &[]), 1041);
    let removed = dylibs.swap_remove(4);
    removed.clear().expect("cleared");
    let dylib = late("in the hole", &["-O2"]).expect("room again");
    assert_eq!(session.call(&dylib, "call_next", &[]), 1041, "the values are new");
    assert_eq!(session.call(&dylibs[0], "call_next", &[]), 2043, "those of others stay");
    assert_eq!(session.call(&outside, "call_next", &[]), 2043);
}

#[test]
fn blocks_go_with_their_dylib_while_threads_hold_them() {
    let session = Session::new();
    let workers = session.dylib("tls_worker.c", &["-O2"]);
    assert_eq!(session.call(&workers, "start", &[]), 3);
    let sources = ["tls_late.c", "tls_filler.c"];
    let others = session.dylib_of(&sources, &["-O2", "-fPIC"]);
    let other = others.lookup("next").expect("defined");
    let mut held = Vec::new();
    for round in 0..200 {
        let flags: &[&str] =
            if round % 2 == 0 { &["-O2", "-fPIC"] } else { &["-O2", "-fPIC", DESCRIPTORS] };
        let late = session.dylib_of(&sources, flags);
        let next = late.lookup("next").expect("defined");
        for call in 1..4 {
            let all = session.call(&workers, "run", &bytes(next));
            let one = session.call(&late, "call_next", &[]);
            assert_eq!((all, one), (3 * (40 + 1002 * call - 1), 40 + 1002 * call - 1), "{round}");
        }
        late.clear().expect("cleared");
        if round < 3 {
            let expected = 3 * (40 + 1002 * (round + 1) - 1);
            assert_eq!(session.call(&workers, "run", &bytes(other)), expected, "those stay");
        }
        held.push(Held::of(session.0.pid()));
    }
    // By then what is posted has gone round the lane's ring, and all of that is touched.
    let (warm, last) = (held[100], held[199]);
    assert!(last.resident_bytes <= warm.resident_bytes + (64 << 10), "{warm:?}, then {last:?}");
    // A hundred more would belong to the rounds. Neighbours are one mapping or two, and a thread may start late.
    assert!(last.mappings <= warm.mappings + 8, "{warm:?}, then {last:?}");
    session.call(&workers, "stop", &[]);
    workers.clear().expect("cleared");
    let without = Held::of(session.0.pid());
    // Each thread's record and block, perhaps not its stack, which the C library may keep.
    let gone = last.mapped_bytes.saturating_sub(without.mapped_bytes);
    assert!(gone >= 3 * (70000 + 8 * 4096), "{last:?}, then {without:?}");
}

#[test]
fn exit_handlers_reach_thread_locals_of_later_links() {
    let session = Session::new();
    let counter = session.dylib("counter.c", &["-O2"]);
    let count = counter.lookup("count").expect("defined");
    for (sources, flags) in
        [(&["tls_late.c"][..], &["-O2"][..]), (&["tls_late.c", "tls_filler.c"], &["-O2", "-fPIC"])]
    {
        let dylib = session.dylib("tls_at_exit.c", &["-O2"]);
        add(&dylib, sources, flags).expect("linked");
        let next = dylib.lookup("next").expect("defined");
        session.call(&dylib, "call_at_exit", &[bytes(next), bytes(count)].concat());
        assert_eq!(session.call(&dylib, "call_next", &[]), 1041);
        dylib.clear().expect("cleared");
        assert_eq!(session.call(&counter, "read_count", &[]), 2043);
    }
}

#[test]
fn a_later_link_reaches_those_outside_of_the_reserve() {
    let session = Session::new();
    let workers = session.dylib("tls_worker.c", &["-O2"]);
    assert_eq!(session.call(&workers, "start", &[]), 3);
    for flags in [&["-O2", "-fPIC"][..], &["-O2", "-fPIC", DESCRIPTORS]] {
        let dylib = session.dylib_of(&["tls_late.c", "tls_filler.c"], &["-O2", "-fPIC"]);
        add(&dylib, &["tls_later.c"], flags).expect("linked");
        let next = dylib.lookup("next").expect("defined");
        let twice = dylib.lookup("twice").expect("defined");
        assert_eq!(session.call(&workers, "run", &bytes(twice)), 3 * 80);
        session.call(&workers, "run", &bytes(next));
        assert_eq!(session.call(&workers, "run", &bytes(twice)), 3 * 82);
        let error = dylib.lookup("value").expect_err("it has no address").to_string();
        assert!(error.contains("value") && error.contains("thread-local"), "{error}");
        dylib.clear().expect("cleared");
    }
    let dylib = session.dylib_of(&["tls_late.c", "tls_filler.c"], &["-O2", "-fPIC"]);
    let error =
        add(&dylib, &["tls_later.c"], &["-O2"]).expect_err("it wants an offset").to_string();
    assert!(["`value`", INITIAL_EXEC, "-fPIC"].iter().all(|part| error.contains(part)), "{error}");
    session.call(&workers, "stop", &[]);
}
