//! `farcall bench`: its options, and what it writes.
//!
//! Invariant: no assertion on a time; the rows themselves are tested beside the harness.

use std::process::Command;

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
