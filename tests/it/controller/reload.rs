//! Programs that come and go two hundred times in one executor leave nothing behind. Each run is right, and the executor's
//! memory, mappings, descriptors and threads stay what they were. Objects are read from their files each time, through the
//! cache that is for that.
//!
//! Invariant: the native program says what is right; what may stay behind is what the program itself does not give back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use farcall::ExecutorAddr;
use farcall::controller::{Executor, Library, Process};
use farcall::link::{Archive, ObjectCache, ObjectFile};

use crate::commands::native::native;
use crate::testkit::corpus::{self, DESCRIPTORS, LOW, PLAIN, gcc};
use crate::testkit::held::Held;
use crate::testkit::launch;
use crate::testkit::process::{run_to_end, threads, until};
use crate::testkit::programs::{self, Compiled};

const ROUNDS: usize = 200;
/// Rounds after which everything is as large as it gets.
const WARM_ROUNDS: usize = 20;
/// The bytes by which the executor's resident memory may grow all the same: the C library's heap is never quite the same twice.
const SLACK_BYTES: u64 = 512 << 10;
/// More than the objects of any program here have.
const CACHE_BYTES: usize = 64 << 20;

/// The files of a program, to be linked again and again.
struct Parts {
    objects: Vec<PathBuf>,
    cache: ObjectCache,
    /// Archives keep the members that they have read.
    archives: Vec<Archive>,
}

impl Parts {
    fn new(program: &Compiled) -> Self {
        let is_archive = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "a");
        let (archives, objects): (Vec<_>, Vec<_>) = program.files.iter().partition(is_archive);
        let archive = |file: &PathBuf| Archive::parse(display(file), read(file));
        Self {
            objects: objects.into_iter().cloned().collect(),
            cache: ObjectCache::new(CACHE_BYTES),
            archives: archives.into_iter().map(|file| archive(file).expect("an archive")).collect(),
        }
    }

    fn add_to(&self, dylib: &Library) {
        for file in &self.objects {
            let object = self.cache.parse(display(file), read(file)).expect("an object");
            dylib.add_object(&object).expect("added");
        }
        for archive in &self.archives {
            dylib.add_archive(archive).expect("added");
        }
    }
}

fn read(file: &Path) -> Vec<u8> {
    fs::read(file).expect("just compiled")
}

fn display(file: &Path) -> String {
    file.display().to_string()
}

/// An executor whose standard output goes to a file.
struct Session {
    executor: Executor,
    process: Process,
    redirect: Library,
    output: tempfile::NamedTempFile,
}

impl Session {
    fn new() -> Self {
        let launch = launch::builder();
        let launch = launch.env("CORPUS_WORD", "a word, and another").env("LC_ALL", "C");
        let executor = launch.start().expect("an executor");
        let process = executor.process().expect("a process");
        let redirect = executor.library("redirect");
        let object = fs::read(corpus::object("redirect.c", PLAIN)).expect("just compiled");
        let object = ObjectFile::parse("redirect.o", object).expect("an object");
        redirect.add_object(&object).expect("added");
        let output = tempfile::NamedTempFile::new().expect("a file for the output");
        let session = Self { executor, process, redirect, output };
        let path = session.output.path().as_os_str().as_encoded_bytes();
        assert_eq!(session.call("redirect", path), 0);
        session
    }

    fn call(&self, name: &str, args: &[u8]) -> i64 {
        let function = self.redirect.lookup(name).expect("defined");
        let result = self.process.call(function, args).expect("a result");
        i64::from_le_bytes(result.try_into().expect("8 bytes"))
    }

    fn knows_frames_of(&self, function: ExecutorAddr) -> bool {
        self.call("has_frames", &function.get().to_le_bytes()) != 0
    }

    /// The output since the last time.
    fn written(&self) -> Vec<u8> {
        assert_eq!(self.call("flush", &[]), 0);
        let written = fs::read(self.output.path()).expect("the file");
        File::create(self.output.path()).expect("emptied");
        written
    }
}

/// Runs `program` again and again. `kept_bytes` is what it keeps of each run itself.
fn reload(program: &Compiled, args: &[&str], status: i32, kept_bytes: u64) {
    let executable = program.executable();
    let reference = run_to_end(native(&executable, args), b"");
    assert_eq!(reference.status, status, "{reference}");

    let parts = Parts::new(program);
    let session = Session::new();
    let name = executable.to_str().expect("a plain path");
    let args: Vec<&str> = [&[name], args].concat();
    let mut first = None;
    let mut warm = None;
    let mut held = Held::of(session.process.pid());
    for round in 0..ROUNDS {
        let dylib = session.executor.library("program");
        parts.add_to(&dylib);
        let main = dylib.lookup("main").expect("linked");
        assert_eq!(*first.get_or_insert(main), main, "round {round}: another place");
        assert_eq!(dylib.run_main(&args).expect("it returns"), status, "round {round}");
        assert!(session.knows_frames_of(main), "round {round}");
        dylib.clear().expect("cleared");
        assert!(!session.knows_frames_of(main), "round {round}");
        let written = session.written();
        let text = String::from_utf8_lossy;
        assert_eq!(text(&written), text(&reference.stdout), "round {round}");
        held = Held::of(session.process.pid());
        if round == WARM_ROUNDS {
            warm = Some(held);
        }
    }
    let warm = warm.expect("there are more rounds");
    let kept_bytes = SLACK_BYTES + kept_bytes * (ROUNDS - WARM_ROUNDS) as u64;
    assert!(held.resident_bytes <= warm.resident_bytes + kept_bytes, "{warm:?}, then {held:?}");
    // The heap of a thread may come and go with its two mappings, and its stack for signals too.
    assert!(held.mappings <= warm.mappings + 8, "{warm:?}, then {held:?}");
    assert_eq!(held.descriptors(), warm.descriptors());
    // A scope of Rust's library ends before its threads do.
    until("the threads of the program end", || threads(session.process.pid()) <= warm.threads);
}

#[test]
fn lua() {
    let script = corpus::source("reload.lua");
    reload(&programs::lua(&[]), &[script.to_str().expect("a plain path"), "one"], 9, 0);
}

#[test]
fn sqlite() {
    reload(&programs::sqlite(&[]), &[":memory:", "50"], 11, 0);
}

#[test]
fn zlib() {
    reload(&programs::zlib(&["-fPIC"]), &["3000"], 13, 0);
}

#[test]
fn zstd() {
    reload(&programs::zstd(&[]), &["3000"], 17, 0);
}

#[test]
fn mimalloc() {
    reload(&programs::mimalloc(&[]), &["1"], 19, 0);
}

#[test]
fn exceptions_and_thread_locals() {
    let sources = ["tls_objects_a.cpp", "tls_objects_b.cpp"];
    let files = sources.map(|name| corpus::object(name, PLAIN)).to_vec();
    reload(&Compiled { files, libraries: &["stdc++"], is_low: false }, &[], 3, 0);
}

#[test]
fn thread_locals_outside_of_the_reserve() {
    for dialect in [&["-O2", "-fPIC"][..], &["-O2", "-fPIC", DESCRIPTORS]] {
        let sources = ["tls_large.c", "tls_large_other.c"];
        let files = sources.map(|name| corpus::object(name, gcc(dialect))).to_vec();
        reload(&Compiled { files, libraries: &[], is_low: false }, &[], 5, 0);
        let sources = ["tls_objects_a.cpp", "tls_objects_b.cpp", "tls_filler.c"];
        let files = sources.map(|name| corpus::object(name, gcc(dialect))).to_vec();
        reload(&Compiled { files, libraries: &["stdc++"], is_low: false }, &[], 3, 0);
    }
}

#[test]
fn exceptions_across_objects() {
    let sources = ["exceptions_a.cpp", "exceptions_b.cpp"];
    let files = sources.map(|name| corpus::object(name, PLAIN)).to_vec();
    reload(&Compiled { files, libraries: &["stdc++"], is_low: false }, &[], 0, 0);
}

#[test]
fn code_below_two_gib() {
    let script = corpus::source("reload.lua");
    let args = [script.to_str().expect("a plain path"), "one"];
    reload(&programs::lua(&["-fno-pic"]), &args, 9, 0);
    let sources = ["exceptions_a.cpp", "exceptions_b.cpp"];
    let files = sources.map(|name| corpus::object(name, LOW)).to_vec();
    reload(&Compiled { files, libraries: &["stdc++"], is_low: true }, &[], 0, 0);
}

/// It keeps the buffer of standard output, the panic hook and the handle of its first thread.
#[test]
fn rust_with_its_standard_library() {
    reload(&programs::rust(&["-Copt-level=2"]), &["again"], 11, 2 << 10);
}
