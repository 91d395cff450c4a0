//! The fuzzer as a user starts it: what it finds, how it names that, and that a seed makes it do the same again.
//!
//! Needs clang.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// A folder with the object of a target.
struct Bench {
    folder: TempDir,
}

impl Bench {
    /// Compiles `targets/NAME.c` with this instrumentation and more flags.
    fn new(name: &str, coverage: &str, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut clang = Command::new("clang");
        clang.args(["-O2", "-g", "-fstack-protector-strong", "-Wno-infinite-recursion", "-c"]);
        clang.arg(coverage).args(flags).arg(format!("{TESTS}/targets/{name}.c"));
        clang.arg("-o").arg(folder.path().join("target.o"));
        let status = clang.status().expect("clang, which the fuzzer's tests need");
        assert!(status.success(), "clang failed");
        Self { folder }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    /// Writes an input to start from.
    fn seed(&self, name: &str, bytes: &[u8]) {
        let seeds = self.folder.path().join("seeds");
        fs::create_dir_all(&seeds).expect("a folder");
        fs::write(seeds.join(name), bytes).expect("written");
    }

    fn fuzz(&self, corpus: &Path, arguments: &[&str]) -> Output {
        let mut fuzzer = Command::new(env!("CARGO_BIN_EXE_farcall-fuzzer"));
        fuzzer.arg(self.folder.path().join("target.o")).arg("--corpus").arg(corpus);
        fuzzer.arg("--out").arg(self.out()).args(arguments);
        // Targets may print what they like.
        fuzzer.output().expect("the fuzzer")
    }

    /// The files in a folder of what was found.
    fn found(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.out().join(folder)).expect("a folder of findings");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
        paths.map(|path| (name(&path), fs::read(&path).expect("a file"))).collect()
    }
}

/// The output of a run, and its exit status.
fn told(output: &Output) -> (String, i32) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = output.status.code().unwrap_or_else(|| panic!("{}\n{text}", output.status));
    assert!(status < 2, "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    (text, status)
}

/// The number of executions that the last line says.
fn executions(text: &str) -> u64 {
    let last = text.lines().last().unwrap_or_default();
    let count = last.strip_prefix("fuzz object: ").and_then(|rest| rest.split(' ').next());
    println!("{last}");
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no executions: {text}"))
}

#[test]
fn a_planted_bug_in_a_decoder_is_found_and_named() {
    let bench = Bench::new("inflate", "-fsanitize-coverage=trace-pc-guard", &[]);
    let corpus = Path::new(TESTS).join("seeds");
    let output = bench.fuzz(&corpus, &["--executions", "400000", "--seed", "1"]);
    let (text, status) = told(&output);
    assert_eq!((executions(&text), status), (400_000, 1));
    let crashes = bench.found("crashes");
    let name = "SIGABRT-read_lengths";
    let input = crashes.get(name).unwrap_or_else(|| panic!("{:?}", crashes.keys()));
    let text = String::from_utf8_lossy(&crashes[&format!("{name}.txt")]).into_owned();
    println!("{name}, {} bytes\n{text}", input.len());
    assert!(text.starts_with("executor died by SIGABRT, in a function called from "), "{text}");
    assert!(text.contains("\n  read_lengths+0x"), "{text}");
    assert!(text.contains("In a fresh process: the same."), "{text}");
    // The input alone is enough.
    let path = bench.out().join("crashes").join(name);
    let output = bench.fuzz(&corpus, &["--replay", path.to_str().expect("a path")]);
    let (text, status) = told(&output);
    assert!(status == 1 && text.starts_with(&format!("{name}: executor died by ")), "{text}");
}

#[test]
fn the_decoder_without_the_bug_has_no_fault() {
    let bench = Bench::new("inflate", "-fsanitize-coverage=inline-8bit-counters", &["-DSOUND"]);
    let output = bench.fuzz(&Path::new(TESTS).join("seeds"), &["--executions", "400000"]);
    let (text, status) = told(&output);
    assert_eq!((executions(&text), status), (400_000, 0), "{text}");
    assert!(bench.found("crashes").is_empty() && bench.found("hangs").is_empty());
    assert!(bench.found("queue").len() > 20, "{text}");
}

#[test]
fn each_kind_of_fault_has_its_name() {
    for coverage in ["-fsanitize-coverage=trace-pc-guard", "-fsanitize=fuzzer-no-link"] {
        let bench = Bench::new("faults", coverage, &[]);
        for letter in "aehmoprxy.".chars() {
            bench.seed(&format!("input-{letter}"), &[letter as u8]);
        }
        let limits = ["--executions", "10", "--timeout-ms", "1000", "--memory-mib", "64"];
        let output = bench.fuzz(&bench.folder.path().join("seeds"), &limits);
        let (text, status) = told(&output);
        assert_eq!((executions(&text), status), (10, 1));
        let crashes = bench.found("crashes");
        let names: Vec<&str> =
            crashes.keys().map(String::as_str).filter(|name| !name.ends_with(".txt")).collect();
        let due = [
            "SIGABRT-stop",
            "SIGSEGV-grow_stale",
            "SIGSEGV-poke",
            "SIGSEGV-read_on",
            "exit-3",
            "limit-fill",
            "stack-overflow-deeper",
        ];
        assert_eq!(names, due, "{coverage}\n{text}");
        assert_eq!(crashes["SIGABRT-stop"], b"a");
        let poke = String::from_utf8_lossy(&crashes["SIGSEGV-poke.txt"]).into_owned();
        assert!(poke.contains("fault address 0xdadbeef, in poke+0x"), "{poke}");
        for function in ["poke", "LLVMFuzzerTestOneInput", "farcall_fuzz_run"] {
            assert!(poke.contains(&format!("\n  {function}+0x")), "{poke}");
        }
        let stale = String::from_utf8_lossy(&crashes["SIGSEGV-grow_stale.txt"]).into_owned();
        assert!(stale.contains("fresh process: no fault"), "{stale}");
        let hangs = bench.found("hangs");
        assert_eq!(hangs.len(), 2, "an input and a text: {hangs:?}");
        assert!(hangs.values().any(|bytes| bytes == b"h"));
        // Rejected inputs and faults are no part of the corpus.
        let queue = bench.found("queue");
        assert!(queue.values().eq([b"."]), "{queue:?}");
        println!("faults: {} cases", names.len() + 1);
    }
}

/// The second input crashes only in a process that has run another one.
#[test]
fn a_hang_costs_its_process_only_if_it_cannot_be_interrupted() {
    for (hang, survives) in [(b'h', true), (b'b', false)] {
        let bench = Bench::new("faults", "-fsanitize-coverage=trace-pc-guard", &[]);
        bench.seed("1", &[hang]);
        bench.seed("2", b"y");
        let limits = ["--executions", "2", "--timeout-ms", "500"];
        let output = bench.fuzz(&bench.folder.path().join("seeds"), &limits);
        let (text, status) = told(&output);
        assert_eq!((executions(&text), status), (2, 1), "{text}");
        assert_eq!(bench.found("hangs").len(), 2, "an input and a text: {text}");
        let crashes = bench.found("crashes");
        assert_eq!(crashes.contains_key("SIGSEGV-grow_stale"), survives, "{crashes:?}\n{text}");
    }
}

#[test]
fn a_seed_makes_a_run_do_the_same_again() {
    let runs = [7, 7, 8].map(|seed: u64| {
        let bench = Bench::new("inflate", "-fsanitize-coverage=trace-pc-guard", &[]);
        let arguments = ["--executions", "100000", "--seed", &seed.to_string()];
        let output = bench.fuzz(&Path::new(TESTS).join("seeds"), &arguments);
        assert_eq!(executions(&told(&output).0), 100_000);
        // The texts have the path of the object.
        let mut crashes = bench.found("crashes");
        crashes.retain(|name, _| !name.ends_with(".txt"));
        (bench.found("queue"), crashes)
    });
    assert!(runs[0] == runs[1], "{:?}\n{:?}", runs[0].0.keys(), runs[1].0.keys());
    assert!(runs[0] != runs[2], "{:?}", runs[0].0.keys());
}

#[test]
fn a_run_goes_on_from_the_queue_of_the_one_before() {
    let bench = Bench::new("inflate", "-fsanitize-coverage=trace-pc-guard", &["-DSOUND"]);
    let seeds = Path::new(TESTS).join("seeds");
    told(&bench.fuzz(&seeds, &["--executions", "50000"]));
    let before = bench.found("queue");
    told(&bench.fuzz(&seeds, &["--executions", "50000", "--seed", "2"]));
    let after = bench.found("queue");
    assert!(before.keys().all(|name| after.contains_key(name)), "{:?}", after.keys());
    assert!(after.len() >= before.len());
}

#[test]
fn a_target_that_cannot_be_fuzzed_is_an_error() {
    for (name, coverage, flags, message) in [
        ("inflate", "-g", &[][..], "counts no edges"),
        (
            "inflate",
            "-fsanitize-coverage=trace-pc-guard",
            &["-DLLVMFuzzerTestOneInput=other"],
            "LLVMFuzzerTestOneInput",
        ),
    ] {
        let bench = Bench::new(name, coverage, flags);
        let output = bench.fuzz(&Path::new(TESTS).join("seeds"), &["--executions", "1"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(message), "{error}");
    }
}
