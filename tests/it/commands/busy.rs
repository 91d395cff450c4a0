//! U11: `farcall bench --busy` and `--soak`: calls beside neighbours that want the CPU.
//!
//! Invariant: no assertion on a time. No neighbour is left behind, however the bench ends.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use farcall_bench::CpuPair;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::testkit::launch::FARCALL;
use crate::testkit::process::{Ended, Running, run_to_end, until};

/// A run of this length does not end before the tests lose their timeout.
const TOO_LONG: [&str; 2] = ["--seconds", "3600"];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(FARCALL);
    command.arg("bench").args(args);
    command
}

fn bench(args: &[&str]) -> Ended {
    run_to_end(command(args), b"")
}

fn measure(args: &[&str]) -> Value {
    let ended = bench(&[args, &["--json"]].concat());
    assert_eq!((ended.status, &*ended.complaint()), (0, ""), "{ended}");
    serde_json::from_slice(&ended.stdout).expect("one JSON object")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap_or_else(|| panic!("no {name} in {value}"))
}

fn strings<'a>(values: &'a [Value], name: &str) -> Vec<&'a str> {
    values.iter().map(|value| value[name].as_str().expect("a string")).collect()
}

fn has_one_cpu() -> bool {
    CpuPair::first_two().expect("a CPU").is_shared()
}

#[test]
fn each_load_has_every_row_or_says_why_not() {
    let report = measure(&["--busy", "--seconds", "0"]);
    let loads = list(&report, "loads");
    let names = strings(loads, "name");
    let due = [
        "idle",
        "caller-1",
        "executor-1",
        "each-1",
        "each-2",
        "each-4",
        "one-cpu-0",
        "one-cpu-1",
        "one-cpu-2",
        "unpinned-0",
        "unpinned-1",
        "unpinned-2",
        "unpinned-4",
        "build",
        "half-cpu",
    ];
    assert_eq!(names, due);
    let rows_due = [
        "null call",
        "typed call",
        "nested round",
        "4 KiB echo",
        "64 in flight",
        "cold call",
        "cold pipe",
        "futex",
        "pipe pair",
        "Unix stream",
        "two-line floor",
    ];
    for load in loads {
        let (name, rows) = (load["name"].as_str().expect("a name"), list(load, "rows"));
        if let Some(why) = load["skipped"].as_str() {
            // Needs a second CPU, a C compiler, or the right to make a control group.
            let is_optional = ["build", "half-cpu"].contains(&name);
            let wants_two = !name.starts_with("one-cpu") && !name.starts_with("unpinned");
            assert!(is_optional || (has_one_cpu() && wants_two), "{name} is skipped: {why}");
            println!("skipped: {name}: {why}");
            assert!(rows.is_empty() && !why.is_empty(), "{load}");
            continue;
        }
        assert_eq!(strings(rows, "name"), rows_due, "{name}");
        for row in rows {
            let figures = ["calls", "calls_per_s", "p50_ns", "max_ns", "idle_ratio", "pipe_ratio"];
            let is_cold = row["name"].as_str().is_some_and(|name| name.starts_with("cold"));
            for figure in figures.into_iter().chain((!is_cold).then_some("futex_ratio")) {
                assert!(
                    row[figure].as_f64().is_some_and(|value| value > 0.0),
                    "{figure}: {name}: {row}"
                );
            }
            let cpu_ns = ["caller_cpu_ns", "server_cpu_ns"].map(|side| row[side].as_f64());
            assert!(cpu_ns[0] > Some(0.0) && cpu_ns[1] >= Some(0.0), "{name}: {row}");
        }
    }
    let crowds = list(&report, "crowds");
    assert_eq!(strings(crowds, "name"), ["threads-8", "threads-8-each-1"]);
    for crowd in crowds {
        let rows = list(crowd, "rows");
        assert_eq!(strings(rows, "name"), ["null call x 8", "pipe pair x 8"], "{crowd}");
        for row in rows {
            let [least, most] =
                ["least_per_s", "most_per_s"].map(|side| row[side].as_f64().expect("a rate"));
            assert!(least > 0.0 && least <= most, "{row}");
        }
    }
    assert!(report["slice"]["ms"].as_f64() > Some(0.0), "{report}");
}

#[test]
fn rows_are_those_asked_for_and_csv_has_a_line_for_each() {
    let cpu = CpuPair::first_two().expect("a CPU").server;
    let cpus = format!("{cpu},{cpu}");
    let asked = ["--busy", "one-cpu-0", "one-cpu-1", "--cpus", &cpus, "--only", "typed call"];
    let ended = bench(&[&asked[..], &["--seconds", "0", "--csv"]].concat());
    assert_eq!((ended.status, &*ended.complaint()), (0, ""), "{ended}");
    let text = String::from_utf8(ended.stdout).expect("text");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
    let rows: Vec<_> = lines[1..].iter().map(|line| (line[0], line[1])).collect();
    let of_load = |load| ["typed call", "futex", "pipe pair"].map(|row| (load, row));
    assert_eq!(rows, [of_load("one-cpu-0"), of_load("one-cpu-1")].concat());

    let ended = bench(&[&asked[..], &["--seconds", "0"]].concat());
    let text = String::from_utf8(ended.stdout).expect("text");
    let title =
        format!("one-cpu-1 (both sides on CPU {cpu}; busy loops beside the caller: 1): 1 turns");
    assert!(text.contains(&title) && text.contains("\ntyped call "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn the_short_part_is_among_the_others() {
    let report = measure(&["--seconds", "0", "--only", "busy"]);
    let loads = list(&report["busy"], "loads");
    assert_eq!(strings(loads, "name"), ["each-1", "one-cpu-1"]);
    assert_eq!(strings(list(&loads[1], "rows"), "name"), ["null call", "futex", "pipe pair"]);
    assert!(report["idle"].is_null() && list(&report, "sections").is_empty(), "{report}");
}

#[test]
fn neighbours_end_with_the_bench_however_it_ends() {
    for (load, program) in [("unpinned-4", "farcall-bench-busy"), ("build", "cc")] {
        if load == "build" && Command::new("cc").arg("--version").output().is_err() {
            println!("skipped: {load}: no C compiler");
            continue;
        }
        for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT] {
            let asked = ["--busy", load, "--only", "null call"];
            let mut command = command(&[&asked[..], &TOO_LONG].concat());
            command.process_group(0);
            let running = Running::start(command);
            until("the neighbours are there", || {
                running.others().iter().any(|other| other.arguments()[0] == program)
            });
            running.signal(signal);
            running.wait_for_silence();
            until("no neighbour is left", || running.others().is_empty());
            let ended = running.end();
            let due = if signal == Signal::SIGINT { 130 } else { 128 + signal as i32 };
            assert_eq!(ended.status, due, "{load}: {ended}");
        }
    }
}

#[test]
fn repeated_runs_show_the_worst() {
    let report =
        measure(&["--busy", "unpinned-1", "unpinned-2", "--repeat", "2", "--seconds", "0"]);
    let rows = list(&report, "rows");
    assert_eq!(strings(rows, "load"), ["unpinned-1", "unpinned-2"]);
    for row in rows {
        assert_eq!((&row["row"], &row["runs"]), (&"null call".into(), &2.into()), "{row}");
        for ratio in ["pipe_ratio", "pipe_p99_ratio", "pipe_rate_ratio"] {
            let [worst, median] = [0_usize, 1].map(|at| row[ratio][at].as_f64().expect("a ratio"));
            assert!(worst >= median && median > 0.0, "{ratio}: {row}");
        }
    }
}

#[test]
fn a_soak_counts_its_calls_and_loses_no_wake_up() {
    // Beside much other work a call may take a few slices of the scheduler.
    let soaked = measure(&["--soak", "500"]);
    assert_eq!(soaked["calls"], 500, "{soaked}");
    assert!(soaked["loads"].as_u64() >= Some(1), "{soaked}");
    let ended = bench(&["--soak", "100"]);
    let text = String::from_utf8(ended.stdout).expect("text");
    assert!(
        text.starts_with("soak     100 calls in ") && text.ends_with("; no lost wake-up\n"),
        "{text}"
    );
}

#[test]
fn an_interrupt_gives_the_loads_so_far() {
    let mut command =
        command(&[&["--busy", "one-cpu-0", "one-cpu-1", "--json"][..], &TOO_LONG].concat());
    command.process_group(0);
    let running = Running::start(command);
    until("the processes of the rows are there", || running.others().len() > 2);
    running.signal_group(Signal::SIGINT);
    running.wait_for_silence();
    until("no process is left", || running.others().is_empty());
    let ended = running.end();
    assert_eq!((ended.status, &*ended.complaint()), (130, ""), "{ended}");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("one JSON object");
    assert_eq!(
        (report["is_partial"].as_bool(), list(&report, "loads").len()),
        (Some(true), 1),
        "{report}"
    );
}

#[test]
fn a_wrong_name_is_refused_with_all_names() {
    for (args, complaint) in [
        (&["--busy", "each-3"][..], "each-3: no load has this name; there are: idle, caller-1, "),
        (&["--busy", "--only", "fax"], "fax: no row has this name; there are: null call, "),
        (&["--busy", "each-3", "--repeat"], "each-3: no load has this name; there are: idle, "),
        (&["--repeat", "2"], "--busy"),
        (&["--busy", "--save", "x"], "cannot be used with"),
        (&["--soak", "0"], "0 is not in"),
        (&["--soak", "--busy"], "cannot be used with"),
    ] {
        let ended = bench(args);
        assert_eq!((ended.status, ended.stdout.len()), (125, 0), "{ended}");
        assert!(ended.complaint().contains(complaint), "{complaint:?} is missing: {ended}");
    }
}

#[test]
fn a_control_group_does_not_stay() {
    let groups = || -> BTreeSet<String> {
        let folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"].map(fs::read_dir);
        let entries = folders.into_iter().flatten().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("farcall-bench-")).collect()
    };
    let before = groups();
    let report = measure(&["--busy", "half-cpu", "--seconds", "0", "--only", "null call"]);
    if let Some(why) = report["loads"][0]["skipped"].as_str() {
        println!("skipped: {why}");
    }
    let is_new = |name: &String| !before.contains(name) && groups().contains(name);
    // Other tests make groups too.
    until("the group is gone", || !groups().iter().any(is_new));
}
