//! `farcall bench`: its flags, and what it prints and writes.
//!
//! Invariant: the only assertion on a time is on the length of a run; the rows themselves are tested beside the harness.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use farcall_bench::{CpuPair, Report, TinyObject, Verdict};
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::testkit::launch::FARCALL;
use crate::testkit::process::{Ended, Running, run_to_end, until, write_program};
use crate::testkit::processor::returning;
use crate::testkit::tools;

/// A measurement of this length does not end before the tests lose their timeout.
const TOO_LONG: [&str; 2] = ["--seconds", "3600"];

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(FARCALL);
    command.arg("bench").args(args);
    command
}

fn bench(args: &[&str]) -> Ended {
    run_to_end(command(args), b"")
}

/// The report of a run with `--json`.
fn measure(args: &[&str]) -> Value {
    let ended = bench(&[args, &["--json"]].concat());
    assert_eq!((ended.status, &*ended.complaint()), (0, ""), "{ended}");
    serde_json::from_slice(&ended.stdout).expect("one JSON object")
}

fn sections(report: &Value) -> &[Value] {
    report["sections"].as_array().expect("sections")
}

fn names(section: &Value) -> Vec<&str> {
    let rows = section["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["name"].as_str().expect("a name")).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn rows_are_those_asked_for_and_files_hold_them_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let (svg, hgrm) = (directory.path().join("latencies.svg"), directory.path().join("hgrm"));
    let files = ["--svg", text(&svg), "--hgrm", text(&hgrm)];
    let rows =
        ["--vs", "futex,local,spin", "--sizes", "64,1K", "--threads", "2", "--pipeline", "64"];
    let report = measure(&[&["--seconds", "0", "--bars"][..], &rows, &files].concat());
    // LLVM's command is not everywhere, and it runs an empty program.
    let llvm = &report["llvm"];
    let has_run = llvm["ratio"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0);
    assert!(has_run || llvm["outcome"] == "absent" || llvm["outcome"] == "refused", "{llvm}");
    let lljit = &report["lljit"];
    let lljit_rows = lljit["rows"].as_array().map_or(0, Vec::len);
    assert!(
        lljit_rows == 5
            || ["absent", "not_built", "refused"].iter().any(|one| lljit["outcome"] == *one),
        "{lljit}"
    );
    let regimes: Vec<_> =
        sections(&report).iter().map(|one| one["regime"].as_str().unwrap()).collect();
    let expected = [
        "two-line floor",
        "one-line floor",
        "null call",
        "typed call",
        "call back",
        "nested round",
        "nested by name",
        "null call x 2",
        "64 in flight",
        "batch of 1000",
        "4 KiB code + call",
        "4 KiB data + call",
        "64 B echo",
        "64 B bare copy",
        "1 KiB echo",
        "1 KiB bare copy",
        "futex",
        "local",
        "null call spinning",
    ];
    let first = &sections(&report)[0];
    assert_eq!(names(first), expected);
    if regimes[0] != "one CPU" {
        let bars = first["bars"].as_array().expect("bars");
        assert!(bars.iter().any(|bar| bar["what"] == "64 in flight, calls/s"), "{first}");
    }
    assert_eq!(regimes.last(), Some(&"cold"));

    let svg = fs::read_to_string(svg).expect("the picture");
    for name in expected {
        let regime = regimes[0].replace("one CPU", "one-cpu");
        let file = format!("{regime}-{}.hgrm", name.to_lowercase().replace([' ', '+', ','], "-"));
        let file = hgrm.join(file.replace("---", "-").replace("--", "-"));
        let text = fs::read_to_string(&file).unwrap_or_default();
        assert!(text.contains("1/(1-Percentile)"), "{} is missing", file.display());
        assert!(svg.contains(name), "{name} is not in the picture");
    }
}

#[test]
fn a_row_is_measured_alone_on_the_cpus_asked_for() {
    let cpu = CpuPair::first_two().expect("a CPU").server;
    let cpus = format!("{cpu},{cpu}");
    let report = measure(&["--seconds", "0", "--only", "TCP", "--cpus", &cpus]);
    assert_eq!([&report["caller_cpu"], &report["server_cpu"]], [cpu, cpu], "{report}");
    let [section] = sections(&report) else { panic!("{report}") };
    assert_eq!(section["regime"], "one CPU");
    assert_eq!(names(section), ["two-line floor", "one-line floor", "TCP"]);
    assert!(report["removal"].is_null() && report["idle"].is_null(), "{report}");
    assert!(
        section["bars"].is_null() && report["bars"].is_null(),
        "no bars without the flag: {report}"
    );

    let report = measure(&["--seconds", "0", "--only", "link", "--bars"]);
    assert!(sections(&report).is_empty() && report["life"]["link"].is_object(), "{report}");
    assert_eq!(report["bars"][0]["bar"]["at_most"], 2000.0, "{report}");
}

#[test]
fn csv_has_a_heading_and_a_line_for_each_row() {
    let ended = bench(&["--seconds", "0", "--only", "futex", "--csv"]);
    assert_eq!(ended.status, 0, "{ended}");
    assert!(ended.complaint().contains("farcall: warning: few rounds of hot calls: "), "{ended}");
    let text = String::from_utf8(ended.stdout).expect("text");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0][..3], ["regime", "row", "rounds"], "{text}");
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
    let futexes: BTreeSet<_> =
        lines.iter().filter(|line| line[1] == "futex").map(|line| line[0]).collect();
    assert!(futexes.len() >= 2 && futexes.contains("cold"), "{text}");
}

/// A saved report whose first section is in every regime, with 1,000 rounds, 16 places, and other figures: parts of its medians.
fn in_every_regime(saved: &Value, median: f64, quartiles: [f64; 2]) -> Value {
    let mut json = saved.clone();
    let mut section = sections(saved)[0].clone();
    section["rounds"] = json!(1_000);
    for row in section["rows"].as_array_mut().expect("rows") {
        row["places"] = json!(16);
        for figure in ["two_line_ratio", "block_ns"] {
            let Some(was) = row[figure]["median"].as_f64() else { continue };
            let [low, high] = quartiles.map(|part| part * was);
            let median = median * was;
            row[figure] =
                json!({ "lower_quartile": low, "median": median, "upper_quartile": high });
        }
    }
    json["sections"] = ["near", "far", "one CPU", "cold"]
        .map(|regime| {
            section["regime"] = json!(regime);
            section.clone()
        })
        .into();
    json
}

#[test]
fn a_saved_report_is_whole_and_the_next_run_is_compared_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("saved.json");
    let asked = ["--seconds", "1", "--only", "null call"];
    let ended = bench(&[&asked[..], &["--save", text(&path)]].concat());
    assert_eq!(ended.status, 0, "{ended}");
    let content = fs::read_to_string(&path).expect("saved");
    let saved = Report::from_json(&content).expect("a report");
    assert!(
        saved.sections.iter().all(|section| section.rows.iter().all(|row| !row.samples.is_empty()))
    );
    let json: Value = serde_json::from_str(&content).expect("JSON");
    assert_eq!((json["schema"].as_u64(), &json["flags"][3]), (Some(1), &json!("null call")));
    assert!(json["commit"].is_string() || json["commit"].is_null(), "{}", json["commit"]);

    let itself = saved.changes_since(&saved);
    assert!(itself.rows.len() >= 3 && !itself.is_worse(), "{itself}");
    let is_due = |verdict| matches!(verdict, Verdict::WithinNoise | Verdict::FewRounds);
    assert!(itself.rows.iter().all(|row| is_due(row.verdict)), "{itself}");

    // Two changed reports: one of a run with much noise, one of a run that was 1,000 times as fast.
    for (median, quartiles, due) in
        [(1.0, [0.0, 1e6], "within noise"), (0.001, [0.001; 2], "worse")]
    {
        let changed = in_every_regime(&json, median, quartiles);
        fs::write(&path, changed.to_string()).expect("written");
        // The load of the machine decides how long it takes to 5 rounds of one regime, and how noisy they are.
        let is_compared = ["1", "4", "16", "16"].iter().any(|seconds| {
            let only = ["--only", "null call", "--compare", text(&path)];
            let ended = bench(&[&["--seconds", seconds][..], &only].concat());
            let text = String::from_utf8_lossy(&ended.stdout);
            let end = text.lines().last().unwrap_or_default();
            let has = |verdict: &str| !end.contains(&format!(" 0 {verdict},"));
            assert!(end.starts_with("verdict ") && !has("better"), "{ended}");
            assert_eq!(ended.status, i32::from(has("worse")), "{ended}");
            assert!(due == "worse" || !has("worse"), "{ended}");
            has(due)
        });
        assert!(is_compared, "no row is {due} in 37 s");
    }
}

#[test]
fn unusable_files_are_errors_before_anything_is_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let [new, old, other] = ["new", "old", "other"].map(|name| directory.path().join(name));
    fs::write(&old, "old").expect("written");
    fs::write(&other, r#"{"schema":7}"#).expect("written");
    for (args, complaint) in [
        (["--save", "/nowhere/saved.json"], "/nowhere/saved.json: cannot be written: No such file"),
        (["--svg", "/proc/latencies.svg"], "/proc/latencies.svg: cannot be written: "),
        (["--hgrm", "/proc/latencies"], "/proc/latencies: cannot be written: "),
        (["--compare", "/nowhere/saved.json"], "/nowhere/saved.json: No such file"),
        (["--compare", text(&old)], "old: not a saved report of farcall bench: "),
        (["--compare", text(&other)], "other: a report of schema 7; this farcall reads 1"),
    ] {
        let file = if args[0] == "--save" { ["--svg", text(&old)] } else { ["--save", text(&new)] };
        let ended = bench(&[&TOO_LONG[..], &file, &args].concat());
        assert_eq!((ended.status, ended.stdout.len()), (125, 0), "{ended}");
        assert!(ended.complaint().contains(complaint), "{complaint:?} is missing: {ended}");
        assert!(!new.exists(), "{args:?} leaves an empty file");
        assert_eq!(fs::read_to_string(&old).expect("kept"), "old");
    }
}

#[test]
fn an_interrupt_gives_a_partial_report() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("saved.json");
    // The machine decides how long it takes to the end of the first round.
    for timeout in [1, 4, 16].map(Duration::from_secs) {
        let mut command = command(&TOO_LONG);
        command.args(["--only", "null call", "--json", "--save"]).arg(&path).process_group(0);
        let running = Running::start(command);
        until("the processes of the rows are there", || running.others().len() > 2);
        thread::sleep(timeout);
        // As a terminal does it: to all processes.
        running.signal_group(Signal::SIGINT);
        running.wait_for_silence();
        until("no process is left", || running.others().is_empty());
        let ended = running.end();
        if ended.complaint().contains("interrupted before anything was measured") {
            assert!(ended.status == 125 && !path.exists(), "{ended}");
            continue;
        }
        assert_eq!((ended.status, &*ended.complaint()), (130, ""), "{ended}");
        let report: Value = serde_json::from_slice(&ended.stdout).expect("one JSON object");
        assert_eq!(report["is_partial"], true);
        let warning = report["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.starts_with("partial: "), "{report}");
        assert!(names(&sections(&report)[0]).contains(&"null call"), "{report}");
        assert!(sections(&report).iter().all(|section| section["regime"] != "cold"), "{report}");
        let saved =
            Report::from_json(&fs::read_to_string(&path).expect("saved")).expect("a report");
        assert!(saved.is_partial);
        return;
    }
    panic!("16 s are not enough for one round");
}

#[test]
fn a_busy_cpu_is_a_warning() {
    let CpuPair { caller, server } = CpuPair::first_two().expect("a CPU");
    let is_over = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        scope.spawn(|| {
            let pinned = CpuPair { caller: server, server: caller }.pin_caller().expect("pinned");
            while !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            drop(pinned);
        });
        // The load is measured before the first row, so a short one will do.
        let report = measure(&["--seconds", "0", "--only", "start"]);
        is_over.store(true, Ordering::Relaxed);
        report
    });
    let warnings = report["warnings"].as_array().expect("warnings");
    let is_due =
        |warning: &Value| warning.as_str().is_some_and(|text| text.contains("other work took "));
    assert!(warnings.iter().any(is_due), "{report}");
    assert!(report["load"]["busy_percent"].as_f64() > Some(20.0), "{report}");
}

/// The time that work of this thread takes, divided by the thread's own time: 1 on an idle machine, 3 beside two busy threads.
fn contention() -> f64 {
    const OWN_TIME: Duration = Duration::from_millis(50);
    let own = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock"));
    let (begun, own_begun) = (Instant::now(), own());
    while own() - own_begun < OWN_TIME {
        std::hint::spin_loop();
    }
    begun.elapsed().as_secs_f64() / (own() - own_begun).as_secs_f64()
}

/// The work beside the rounds takes longer where other programs want the CPUs.
#[test]
fn a_run_has_the_length_that_was_asked_within_a_fifth() {
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let before = contention();
        let report = measure(&["--seconds", "3"]);
        let length = report["elapsed_s"].as_f64().expect("seconds");
        let contention = before.max(contention()).max(1.0);
        lengths.push((length, contention));
        if (2.4..=3.0 + 0.6 * contention).contains(&length) {
            return;
        }
    }
    panic!("{lengths:?} s and contention for 3 s");
}

#[test]
fn the_page_and_the_help_have_the_same_flags() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/README.md");
    let page = fs::read_to_string(page).expect("the page");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `--"));
    let end = |text: &str| text.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(text.len());
    let of_page: BTreeSet<_> = rows.map(|row| row[..end(row)].to_owned()).collect();
    let help = String::from_utf8(bench(&["--help"]).stdout).expect("text");
    let lines = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let of_help: BTreeSet<_> = lines.map(|line| line[..end(line)].to_owned()).collect();
    assert!(of_help.len() >= 15, "{help}");
    assert_eq!(of_page, of_help);
}

/// A folder with a command in the role of LLVM's, which prints this version.
fn fake_jitlink(version: &str, body: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'LLVM version {version}'; exit; }}\n{body}\n"
    );
    // The highest number wins over what is installed.
    for (name, script) in [("llvm-jitlink-9000", &*script), ("llvm-jitlink-executor", "")] {
        write_program(&folder.path().join(name), script.as_bytes());
    }
    folder
}

#[test]
fn the_row_of_llvm_says_which_it_is_and_what_it_does() {
    let object = tempfile::NamedTempFile::new().expect("a file");
    let empty = TinyObject::new().function("main", &returning(0)).bytes();
    std::fs::write(object.path(), empty).expect("written");
    for (version, body, shown) in [
        ("31.0", "exit 0", "llvm     llvm-jitlink of LLVM 31.0, as LLVM 22 is not installed\n"),
        ("22.9", "echo no >&2; exit 3", "LLVM 22.9: does not run it, no comparison: no\n"),
    ] {
        let folder = fake_jitlink(version, body);
        let mut command = Command::new(FARCALL);
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
fn generated_programs_are_linked_by_all_linkers_and_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let svg = folder.path().join("growth.svg");
    let only = ["--only", "empty", "--only", "objects-10", "--only", "objects-100"];
    let report =
        measure(&[&["--seconds", "0", "--svg", text(&svg)][..], &only[..], &["--link"]].concat());
    let programs = report["programs"].as_array().expect("programs");
    let names: Vec<_> = programs.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["empty", "objects-10", "objects-100"], "{report}");
    let files: Vec<_> = programs.iter().map(|one| one["files"].as_u64().unwrap()).collect();
    assert_eq!(files, [1, 11, 101], "main has an object of its own");
    let linkers = programs[0]["rows"].as_array().expect("rows").len() - 1;
    let absent = report["absent"].as_array().expect("names");
    if absent.iter().any(|name| name == "ld.lld") {
        tools::skip("ld.lld", "not installed: it links none of the programs");
    }
    let absent = absent.len();
    // Of three linkers those that are here, or else ld.
    assert!(linkers + absent == 3 || (linkers, absent) == (1, 3), "{report}");
    let svg = fs::read_to_string(svg).expect("the picture");
    assert!(svg.contains("us per object") && svg.contains("farcall run"), "{svg}");
}

/// T1. GNU ld warns of an object that does not say whether its stack holds code.
#[test]
fn generated_programs_are_linked_by_gnu_ld_without_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    for program in ["cc", "ld", "ar"] {
        let found = std::env::var_os("PATH").and_then(|path| {
            std::env::split_paths(&path).map(|at| at.join(program)).find(|file| file.is_file())
        });
        let link = folder.path().join(program);
        std::os::unix::fs::symlink(found.expect("gcc's tools"), link).expect("a link");
    }
    let only = ["--only", "empty", "--only", "archive"];
    let mut command = command(&[&["--link", "--seconds", "0", "--json"], &only[..]].concat());
    command.env("PATH", folder.path());
    let ended = run_to_end(command, b"");
    assert_eq!((ended.status, &*ended.complaint()), (0, ""), "{ended}");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("one JSON object");
    assert_eq!(report["absent"], json!(["wild", "mold", "ld.lld"]), "{report}");
    assert_eq!(report["programs"].as_array().expect("programs").len(), 2, "{report}");
}

#[test]
fn a_wrong_option_is_refused_with_what_is_right() {
    for (args, complaint) in [
        (&["--vs", "pipe,fax"][..], "fax: not one of pipe, unix, tcp, futex, eventfd, local, spin"),
        (&["--cpus", "0"], "0: not two CPUs; write 0,1"),
        (&["--cpus", "0,99999"], "CPU 99999: this process may not use it, only "),
        (&["--only", "fax"], "fax: no row has this name; there are: two-line floor, "),
        (&["--csv", "--json"], "cannot be used with"),
        (&["--sizes", "4Q"], "4Q: not a size from 1 to 1024M"),
        (&["--threads", "0"], "0: not a number of threads from 1 to 256"),
        (&["--pipeline", "257"], "257: not a number of calls from 1 to 256"),
        (&["--seconds", "soon"], "soon: not a number"),
        (&["--link", "a.o", "--sizes", "4K"], "cannot be used with"),
        (
            &["--link", "--only", "fax"],
            "fax: no program has this name; there are: empty, objects-10",
        ),
    ] {
        let ended = bench(args);
        assert_eq!((ended.status, ended.stdout.len()), (125, 0), "{ended}");
        assert!(ended.complaint().contains(complaint), "{complaint:?} is missing: {ended}");
    }
}
