//! `farcall bench`: its options, and what it writes.
//!
//! Invariant: no assertion on a time; the rows themselves are tested beside the harness.

use std::process::Command;

use farcall_bench::TinyObject;
use serde_json::Value;

use crate::process::{Ended, run_to_end};

fn bench(args: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
    command.arg("bench").args(args);
    run_to_end(command, b"")
}

#[test]
fn rows_are_those_asked_for_and_files_hold_them_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let (svg, hgrm) = (directory.path().join("latencies.svg"), directory.path().join("hgrm"));
    let files = ["--svg", svg.to_str().unwrap(), "--hgrm", hgrm.to_str().unwrap()];
    let asked = [
        "--seconds",
        "0",
        "--vs",
        "futex,local,spin",
        "--sizes",
        "64,1K",
        "--threads",
        "2",
        "--pipeline",
        "64",
        "--json",
    ];
    let ended = bench(&[&asked[..], &files].concat());
    assert_eq!((ended.status, &*ended.complaint()), (0, ""), "{ended}");

    let report: Value = serde_json::from_slice(&ended.stdout).expect("one JSON object");
    // LLVM's command is not everywhere, and it runs an empty program.
    let llvm = report.get("llvm").expect("it is said");
    assert!(llvm.is_null() || llvm["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{llvm}");
    let sections = report["sections"].as_array().expect("sections");
    let regimes: Vec<_> = sections.iter().map(|one| one["regime"].as_str().unwrap()).collect();
    let names = |section: &Value| -> Vec<String> {
        let rows = section["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    let expected = [
        "two-line floor",
        "one-line floor",
        "null call",
        "call back",
        "nested round",
        "null call x 2",
        "64 in flight",
        "4 KiB code + call",
        "4 KiB data + call",
        "64 B echo",
        "64 B bare copy",
        "1 KiB echo",
        "1 KiB bare copy",
        "futex",
        "local",
        "null call, spins",
    ];
    assert_eq!(names(&sections[0]), expected);
    if regimes[0] != "one CPU" {
        assert_eq!(sections[0]["rate"]["row"], "64 in flight");
    }
    assert_eq!(regimes.last(), Some(&"cold"));

    let svg = std::fs::read_to_string(svg).expect("the picture");
    for name in expected {
        let regime = regimes[0].replace("one CPU", "one-cpu");
        let file = format!("{regime}-{}.hgrm", name.to_lowercase().replace([' ', '+', ','], "-"));
        let file = hgrm.join(file.replace("---", "-").replace("--", "-"));
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(text.contains("1/(1-Percentile)"), "{} is missing", file.display());
        assert!(svg.contains(name), "{name} is not in the picture");
    }
}

/// A folder of one command that stands for LLVM's, and says this version.
fn fake_jitlink(version: &str, body: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'LLVM version {version}'; exit; }}\n{body}\n"
    );
    // The highest number wins over what is installed.
    for (name, script) in [("llvm-jitlink-9000", &*script), ("llvm-jitlink-executor", "")] {
        let path = folder.path().join(name);
        std::fs::write(&path, script).expect("written");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("permitted");
    }
    folder
}

#[test]
fn the_row_of_llvm_says_which_it_is_and_what_it_does() {
    let object = tempfile::NamedTempFile::new().expect("a file");
    // xor eax, eax; ret
    let empty = TinyObject::new().function("main", &[0x31, 0xc0, 0xc3]).bytes();
    std::fs::write(object.path(), empty).expect("written");
    for (version, body, shown) in [
        ("31.0", "exit 0", "llvm     llvm-jitlink of LLVM 31.0, as LLVM 22 is not installed\n"),
        ("22.9", "echo no >&2; exit 3", "LLVM 22.9: does not run it, no comparison: no\n"),
    ] {
        let folder = fake_jitlink(version, body);
        let mut command = Command::new(env!("CARGO_BIN_EXE_farcall"));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = [folder.path().to_owned()].into_iter().chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(all).expect("a path"));
        command.args(["bench", "--seconds", "0", "--link"]).arg(object.path());
        let ended = run_to_end(command, b"");
        let text = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status == 0 && text.contains(shown), "{shown:?} is missing: {ended}");
        assert_eq!(text.contains("runs in turns)"), body == "exit 0", "{ended}");
    }
}

#[test]
fn a_wrong_option_is_refused_with_what_is_right() {
    for (args, complaint) in [
        (&["--vs", "pipe,fax"][..], "fax: not one of pipe, unix, tcp, futex, eventfd, local, spin"),
        (&["--sizes", "4Q"], "4Q: not a size from 1 to 1024M"),
        (&["--threads", "0"], "0: not a number of threads from 1 to 256"),
        (&["--pipeline", "257"], "257: not a number of calls from 1 to 256"),
        (&["--seconds", "soon"], "soon: not a number"),
        (&["--link", "a.o", "--sizes", "4K"], "cannot be used with"),
    ] {
        let ended = bench(args);
        assert_eq!((ended.status, ended.stdout.len()), (125, 0), "{ended}");
        assert!(ended.complaint().contains(complaint), "{complaint:?} is missing: {ended}");
    }
}

#[test]
fn a_picture_that_cannot_be_written_is_an_error() {
    let ended = bench(&["--seconds", "0", "--vs", "futex", "--svg", "/nowhere/latencies.svg"]);
    assert_eq!(ended.status, 125, "{ended}");
    assert!(ended.complaint().contains("/nowhere/latencies.svg"), "{ended}");
}
