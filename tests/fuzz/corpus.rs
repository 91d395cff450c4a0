//! The files that are damaged: compiled programs of `tests/sources`, archives of them, and random objects.
//!
//! Invariant: nothing is left on the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use farcall::link::Processor;
use farcall_base::random::Random;
use farcall_fuzz::Program;

/// The sources, and the flags that they are compiled with.
const C_AND_CPP: [(&str, &str); 18] = [
    ("hello.c", "-O2"),
    ("data.c", "-O0 -fPIC"),
    ("data.c", "-O2 -fno-pic -fdata-sections"),
    ("common_a.c", "-fcommon -g"),
    ("weak_a.c", "-O2 -ffunction-sections -g -gz"),
    ("visibility_a.c", "-O2 -fno-plt -fPIC"),
    ("priority_a.c", "-O1"),
    ("tls.c", "-O2"),
    ("tls.c", "-O2 -fPIC"),
    ("tls.c", "-O2 -fPIC -mtls-dialect=gnu2"),
    ("ifunc.c", "-O2"),
    ("varargs.c", "-O2 -mcmodel=large"),
    ("longjmp.c", "-O2 -fno-asynchronous-unwind-tables"),
    ("exceptions_a.cpp", "-O0"),
    ("shared_inline_a.cpp", "-O2 -ffunction-sections"),
    ("templates_a.cpp", "-O1 -fPIC"),
    ("statics_a.cpp", "-O2 -fno-pic -g"),
    ("out_of_range.s", ""),
];

/// The same for AArch64.
const FOR_AARCH64: [(&str, &str); 19] = [
    ("hello.c", "-O2"),
    ("data.c", "-O0 -fPIC"),
    ("data.c", "-O2 -fno-pic -fdata-sections"),
    ("common_a.c", "-fcommon -g"),
    ("weak_a.c", "-O2 -ffunction-sections -g -gz"),
    ("visibility_a.c", "-O2 -fPIC -mbranch-protection=standard"),
    ("priority_a.c", "-O1"),
    ("tls.c", "-O2"),
    ("tls.c", "-O2 -fPIC"),
    ("tls.c", "-O2 -fPIC -mtls-dialect=trad"),
    ("tls.c", "-O2 -fPIC -ftls-model=initial-exec"),
    ("ifunc.c", "-O2"),
    ("varargs.c", "-O2 -mcmodel=large -fno-pic"),
    ("varargs.c", "-O2 -mcmodel=tiny"),
    ("longjmp.c", "-O2 -fno-asynchronous-unwind-tables"),
    ("exceptions_a.cpp", "-O0"),
    ("shared_inline_a.cpp", "-O2 -ffunction-sections"),
    ("templates_a.cpp", "-O1 -fPIC"),
    ("statics_a.cpp", "-O2 -fno-pic -g"),
];

/// The compilers for a processor: of C, of C++, and what makes `rustc` one.
type Compilers = (&'static str, &'static str, &'static [&'static str]);
const FOR_HOST: Compilers = ("cc", "c++", &[]);
const CROSS: Compilers =
    ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", &["--target", "aarch64-unknown-linux-gnu"]);

/// The bytes of a file. Larger ones would only make the run slower.
const FILE_BYTES_MAX: usize = 48 << 10;

/// How many random objects there are.
const PROGRAMS: u64 = 24;

/// Makes the corpus. Without compilers for AArch64 its corpus has random objects only.
///
/// # Panics
/// A compiler for the host is missing, or one fails.
pub(crate) fn build(processor: Processor) -> Vec<Vec<u8>> {
    let mut files = match processor {
        Processor::Aarch64 if !is_here(CROSS.0) || !is_here(CROSS.1) => {
            println!("skipped: link fuzz: {}: not installed", CROSS.0);
            Vec::new()
        }
        Processor::Aarch64 => compile(&FOR_AARCH64, &CROSS),
        _ => compile(&C_AND_CPP, &FOR_HOST),
    };
    let random = |seed| Program::random(&mut Random::new(seed), processor).objects;
    files.extend((0..PROGRAMS).flat_map(random));
    let largest = files.iter().map(Vec::len).max();
    assert!(largest < Some(FILE_BYTES_MAX), "a file of {largest:?} bytes");
    files
}

fn is_here(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Compiles these sources, and makes archives of some of the objects.
fn compile(sources: &[(&str, &str)], (c, cpp, for_rust): &Compilers) -> Vec<Vec<u8>> {
    let scratch = tempfile::tempdir().expect("a folder for objects");
    let mut objects = Vec::new();
    for (number, (source, flags)) in sources.iter().enumerate() {
        let object = scratch.path().join(format!("{number}_with_a_long_name.o"));
        let mut command = Command::new(if source.ends_with(".cpp") { cpp } else { c });
        command.args(flags.split_whitespace()).args(["-w", "-c", "-o"]).arg(&object);
        run(command.arg(folder().join(source)));
        objects.push(object);
    }
    let rust = scratch.path().join("rust.o");
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    command.args(*for_rust).args(["--edition", "2024", "--crate-type", "lib", "--emit", "obj"]);
    command.args(["-O", "-o"]).arg(&rust).arg(write(scratch.path(), "rust.rs", RUST));
    // Rust's standard library for another processor may be missing.
    if for_rust.is_empty() || command.output().is_ok_and(|output| output.status.success()) {
        run(&mut command);
        objects.push(rust);
    } else {
        println!("skipped: link fuzz: the standard library of {for_rust:?}: not installed");
    }
    // With a symbol table, without one, and thin.
    let archives = ["rcs", "rcS", "rcsT"].map(|options| {
        let archive = scratch.path().join(format!("{options}.a"));
        run(Command::new("ar").arg(options).arg(&archive).args(&objects[2..7]));
        archive
    });
    let files = objects.iter().chain(&archives);
    files.map(|path| fs::read(path).expect("an object")).collect()
}

/// A source in Rust. It has no threads, so that the object stays small.
const RUST: &str = "
    use std::collections::HashMap;
    thread_local! { static SUM: std::cell::Cell<u64> = const { std::cell::Cell::new(7) }; }
    pub fn count(words: &[&str]) -> HashMap<String, usize> {
        let mut counts = HashMap::new();
        words.iter().for_each(|word| *counts.entry(word.to_string()).or_insert(0) += 1);
        SUM.set(SUM.get() + words.len() as u64);
        counts
    }
    pub fn caught(index: usize) -> Option<u8> {
        std::panic::catch_unwind(|| [1_u8, 2, 3][index]).ok()
    }
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sources")
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a source can be written");
    path
}

fn run(command: &mut Command) {
    let status = command.status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "{command:?}: {status:?}");
}
