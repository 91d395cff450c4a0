//! The standard rows, run by a host program of their own.
//!
//! Invariant: no assertion on a time; these tests are about rows, processes and their ends.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use farcall_bench::CpuPair;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const HOST: &str = env!("CARGO_BIN_EXE_farcall-bench");
const ROWS: [&str; 23] = [
    "two-line floor",
    "one-line floor",
    "null call",
    "typed call",
    "call back",
    "nested round",
    "nested by name",
    "null call x 3",
    "batch of 1000",
    "4 KiB code + call",
    "4 KiB data + call",
    "64 KiB echo",
    "64 KiB bare copy",
    "pipe pair",
    "pipe pair 64 KiB",
    "Unix stream",
    "Unix stream 64 KiB",
    "TCP",
    "TCP 64 KiB",
    "futex",
    "eventfd",
    "local",
    "null call spinning",
];
const PLACES_MAX: usize = 16;
const ROWS_ON_ONE_CPU: usize = 5;
const ROWS_COLD: usize = 4;
const TIMEOUT: Duration = Duration::from_secs(20);

fn run(args: &[&str]) -> String {
    let output = Command::new(HOST).args(args).output().expect("the host starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}\n{stderr}", output.status);
    assert_eq!(stderr, "");
    String::from_utf8(output.stdout).expect("the host prints text")
}

/// The processes of `host`, once its peer, the first one, has answered calls for a while, so that all rows are there.
fn children_at_work(host: &Child) -> Vec<String> {
    let read = |path| fs::read_to_string(path).expect("the host and its peer live");
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < TIMEOUT, "no peer serves calls");
        thread::sleep(Duration::from_millis(5));
        let children = read(format!("/proc/{0}/task/{0}/children", host.id()));
        let Some(peer) = children.split_whitespace().next() else { continue };
        let stat = read(format!("/proc/{peer}/stat"));
        // Fields 14 and 15: user and system time.
        let ticks = stat.split(' ').skip(13).take(2).filter_map(|ticks| ticks.parse::<u32>().ok());
        if ticks.sum::<u32>() >= 3 {
            return children.split_whitespace().map(str::to_owned).collect();
        }
    }
}

#[test]
fn every_row_is_there_and_has_samples() {
    let versus = ["tcp", "futex", "eventfd", "local", "spin"].map(|name| ["--vs", name]).concat();
    let asked = ["--rounds", "5", "--size", "64K", "--threads", "3", "--bars", "--json"];
    let report: Value = serde_json::from_str(&run(&[&asked[..], &versus].concat())).expect("JSON");
    let sections = report["sections"].as_array().expect("sections");
    let is_hot = |section: &&Value| ["near", "far"].map(Value::from).contains(&section["regime"]);
    let (hot, others): (Vec<_>, Vec<_>) = sections.iter().partition(is_hot);
    assert!((1..=2).contains(&hot.len()), "{report}");
    let regimes: Vec<_> = others.iter().map(|section| &section["regime"]).collect();
    assert_eq!(regimes, ["one CPU", "cold"], "{report}");

    let rows = |section: &Value| section["rows"].as_array().expect("rows").clone();
    let names =
        |section: &Value| rows(section).iter().map(|row| row["name"].clone()).collect::<Vec<_>>();
    for section in &hot {
        assert_eq!(names(section), ROWS);
        // The two-line floor is its own unit, to the digit.
        let unit = json!({ "lower_quartile": 1.0, "median": 1.0, "upper_quartile": 1.0 });
        assert_eq!(section["rows"][0]["two_line_ratio"], unit);
    }
    let sizes: Vec<_> = others.iter().map(|section| rows(section).len()).collect();
    assert_eq!(sizes, [ROWS_ON_ONE_CPU, ROWS_COLD]);
    for row in sections.iter().flat_map(rows) {
        for name in ["samples", "calls", "p50_ns", "max_ns", "mean_ns"] {
            assert!(row[name].as_f64().is_some_and(|value| value > 0.0), "{name} in {row}");
        }
        let counts = row["histogram_ns"].as_array().expect("pairs").iter();
        assert_eq!(
            counts.map(|pair| pair[1].as_u64().unwrap()).sum::<u64>(),
            row["samples"],
            "{row}"
        );
    }
    let sum = |sections: &[&Value], name: &str| -> u64 {
        sections.iter().map(|section| section[name].as_u64().expect("a count")).sum()
    };
    // Each of the few hot rounds is at a place of its own; the short contests stay at one.
    assert_eq!((sum(&hot, "rounds"), sum(&hot, "places")), (5, 5), "{report}");
    assert_eq!((sum(&others, "rounds"), sum(&others, "places")), (10, 2), "{report}");
    for (section, due) in [
        (hot[0], "null call / two-line floor"),
        (others[0], "null call / futex"),
        (others[1], "null call / Unix stream"),
    ] {
        let bars = section["bars"].as_array().expect("bars");
        assert!(bars.iter().any(|bar| bar["what"] == due), "{due} in {section}");
    }
    assert!(report["idle"]["executor_percent"].as_f64().is_some(), "{report}");
}

#[test]
fn the_table_has_a_line_per_row() {
    let table = run(&["--rounds", "2", "--size", "64K", "--threads", "3", "--vs", "tcp"]);
    assert!(
        table.contains(": 2 rounds at 2 places\n") || table.contains(": 1 rounds\n"),
        "{table}"
    );
    for row in &ROWS[..ROWS.len() - 4] {
        assert!(table.lines().any(|line| line.starts_with(row)), "{row} in\n{table}");
    }
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(table.contains("idle     100 to "), "{table}");
    assert!(table.contains("busy     each-1, p50/p99.9 ns: null call "), "{table}");
}

#[test]
fn one_cpu_is_enough() {
    let cpu = CpuPair::first_two().unwrap().caller;
    let mut only = CpuSet::new();
    only.set(cpu).unwrap();
    // Of this test's thread alone; the host inherits it.
    sched_setaffinity(Pid::from_raw(0), &only).unwrap();
    let table = run(&["--rounds", "1"]);
    assert!(table.contains(&format!("both sides on CPU {cpu}; polls yield")), "{table}");
    assert!(table.contains("one CPU (both sides take turns on it): 1 rounds"), "{table}");
}

#[test]
fn the_peer_dies_with_a_killed_host() {
    let mut host = Command::new(HOST)
        .args(["--rounds", "1000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    children_at_work(&host);
    assert!(host.try_wait().unwrap().is_none(), "the host ended by itself");
    let mut stderr = host.stderr.take().unwrap();
    host.kill().unwrap();
    host.wait().unwrap();
    // The peer has the same stderr: the pipe ends when the last of them is gone.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(stderr.read_to_end(&mut Vec::new())));
    receiver.recv_timeout(TIMEOUT).expect("the peer outlived its host").unwrap();
}

#[test]
fn a_killed_peer_or_caller_ends_the_contest_with_an_error() {
    // The peer is the first process that a host's thread starts; the callers come after it.
    for victim in [0, 1, PLACES_MAX] {
        let mut host = Command::new(HOST)
            .args(["--rounds", "1000000", "--vs", "futex", "--vs", "eventfd"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let children = children_at_work(&host);
        assert_eq!(children.len(), 1 + PLACES_MAX);
        kill(Pid::from_raw(children[victim].parse().unwrap()), Signal::SIGKILL).unwrap();
        let (sender, receiver) = mpsc::channel();
        let mut stderr = host.stderr.take().unwrap();
        thread::spawn(move || {
            let mut text = String::new();
            sender.send(stderr.read_to_string(&mut text).map(|_| text))
        });
        let text = receiver.recv_timeout(TIMEOUT).expect("the host waits for the dead").unwrap();
        assert!(!host.wait().unwrap().success());
        assert!(text.contains("row \""), "{text}");
    }
}

#[test]
fn an_unknown_argument_is_an_error() {
    let output = Command::new(HOST).arg("--fast").output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--fast: not one of"));
}
