//! A program under `farcall run` behaves as the native program does: output, streams, exit status.
//!
//! Invariant: the native program of the very same objects says what is right, no text in this file.

mod signals;
mod stack;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::native::{
    Program, assert_same, both_ways, farcall_run, native, program, same_as_native,
};
use crate::testkit::corpus::{self, Build, LOW, PLAIN, gcc, matrix};
use crate::testkit::process::{Ended, MARK, run_to_end};

/// The builds for programs that take long to compile.
const SHORT: [Build<'static>; 4] = [PLAIN, gcc(&["-O0"]), gcc(&["-O2", "-fPIC"]), LOW];

/// The libraries of C++ programs, which are named as the C++ compiler does for them.
const CXX: &[&str] = &["stdc++", "m"];

#[test]
fn hello() {
    let args = &["one", "two words", "", "--flag", "-x", "ünï"];
    same_as_native(&Program { args, ..program(&["hello.c"], &["m"]) }, &matrix());
}

#[test]
fn program_without_arguments() {
    same_as_native(&program(&["hello.c"], &["m"]), &[PLAIN]);
}

#[test]
fn standard_input() {
    let echo = program(&["echo.c"], &[]);
    same_as_native(&Program { stdin: b"", ..echo }, &[PLAIN]);
    same_as_native(&Program { stdin: b"one\ntwo\nno end of line", ..echo }, &[PLAIN]);
}

#[test]
fn a_mebibyte_through_the_standard_streams() {
    let stdin: Vec<u8> = (0..1u32 << 20).map(|i| ((i * 31) >> 3).to_le_bytes()[0]).collect();
    same_as_native(&Program { stdin: &stdin, ..program(&["echo.c"], &[]) }, &[PLAIN]);
}

#[test]
fn environment() {
    let unmarked = |ended: &Ended| {
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        let mut lines: Vec<_> = text.lines().filter(|line| !line.starts_with(MARK)).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let (reference, ours) = both_ways(&program(&["environment.c"], &[]), PLAIN);
    assert!(unmarked(&reference).contains("CORPUS_WORD=a word, and another"));
    assert_eq!(unmarked(&reference), unmarked(&ours));
}

#[test]
fn exit_statuses() {
    for status in ["0", "1", "124", "125", "126", "127", "255"] {
        let args = &["exit", status];
        same_as_native(&Program { args, ..program(&["crash.c"], &[]) }, &[PLAIN]);
    }
}

#[test]
fn exit_handlers_and_destructors() {
    same_as_native(&program(&["atexit.c"], &[]), &matrix());
}

#[test]
fn exit_handlers_of_both_kinds() {
    same_as_native(&program(&["on_exit.c"], &[]), &[PLAIN]);
}

#[test]
fn first_thread_ends_before_the_others() {
    let args = &["first-thread-ends"];
    same_as_native(&Program { args, ..program(&["process.c"], &[]) }, &[PLAIN]);
}

#[test]
fn constructor_priorities_across_objects() {
    same_as_native(&program(&["priority_a.c", "priority_b.c"], &[]), &matrix());
}

#[test]
fn weak_symbols() {
    same_as_native(&program(&["weak_a.c", "weak_b.c"], &[]), &matrix());
}

#[test]
fn common_symbols() {
    let builds = [gcc(&["-O2", "-fcommon"]), gcc(&["-O0", "-fPIC", "-fcommon"])];
    same_as_native(&program(&["common_a.c", "common_b.c"], &[]), &builds);
    same_as_native(&program(&["common_b.c", "common_a.c"], &[]), &builds);
}

#[test]
fn callbacks_and_function_addresses() {
    same_as_native(&program(&["callbacks.c"], &[]), &matrix());
}

#[test]
fn visibilities() {
    same_as_native(&program(&["visibility_a.c", "visibility_b.c"], &[]), &matrix());
}

#[test]
fn data_of_all_shapes() {
    same_as_native(&program(&["data.c"], &[]), &matrix());
}

#[test]
fn alignments_of_more_than_a_page() {
    same_as_native(&program(&["wide_alignment.c"], &[]), &matrix());
}

#[test]
fn jumps_and_signal_handlers() {
    same_as_native(&program(&["longjmp.c"], &[]), &matrix());
}

#[test]
fn threads() {
    same_as_native(&program(&["threads.c"], &[]), &SHORT);
}

#[test]
fn deep_stack() {
    same_as_native(&program(&["deep.c"], &[]), &SHORT);
}

#[test]
fn variables_and_functions_of_the_c_library() {
    let low = [gcc(&["-O0", "-fno-pic"]), gcc(&["-O1", "-fno-pic", "-fno-plt"])];
    same_as_native(&program(&["foreign.c"], &["m"]), &[matrix(), low.to_vec()].concat());
}

#[test]
fn objects_and_types_of_the_cxx_library() {
    let builds = [&SHORT[..], &[gcc(&["-O0", "-fno-pic"])]].concat();
    let streams = program(&["streams.cpp"], CXX);
    same_as_native(&Program { stdin: b"some words to read", ..streams }, &builds);
}

#[test]
fn variable_arguments() {
    same_as_native(&program(&["varargs.c"], &[]), &matrix());
}

#[test]
fn floating_point() {
    same_as_native(&program(&["floating.c"], &["m"]), &matrix());
}

#[test]
fn forked_children() {
    same_as_native(&program(&["forks.c"], &[]), &SHORT);
}

#[test]
fn parents_and_forked_children_have_their_own_data() {
    same_as_native(&program(&["forked_data.c"], &[]), &SHORT);
}

#[test]
fn the_process_inherits_and_may_do_what_the_native_one_does() {
    for what in ["describe", "execute", "wait", "close", "threads-left", "quick"] {
        let args = &[what];
        same_as_native(&Program { args, ..program(&["process.c"], &[]) }, &[PLAIN]);
    }
}

#[test]
fn signals_that_are_ignored_stay_ignored() {
    let object = corpus::object("process.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    let [reference, ours] =
        [native(&executable, &["describe"]), farcall_run(&[object], &["describe"])].map(
            |command| {
                let mut ignoring = Command::new("env");
                ignoring.args(["--ignore-signal=INT,QUIT,USR1"]).arg(command.get_program());
                ignoring.args(command.get_args());
                run_to_end(ignoring, b"")
            },
        );
    let stdout = String::from_utf8_lossy(&reference.stdout).into_owned();
    assert!(stdout.contains("signal 2: default 0"), "{stdout}");
    assert_same("ignored signals", &reference, &ours);
}

#[test]
fn exit_in_a_constructor() {
    same_as_native(&Program { args: &["exit"], ..program(&["early.c"], &[]) }, &matrix());
}

#[test]
fn exceptions_across_objects() {
    same_as_native(&program(&["exceptions_a.cpp", "exceptions_b.cpp"], CXX), &SHORT);
}

#[test]
fn exceptions_behind_a_dropped_inline_function() {
    same_as_native(&program(&["shared_inline_a.cpp", "shared_inline_b.cpp"], CXX), &matrix());
    same_as_native(&program(&["shared_inline_b.cpp", "shared_inline_a.cpp"], CXX), &matrix());
}

#[test]
fn classes() {
    same_as_native(&program(&["classes.cpp"], CXX), &SHORT);
}

#[test]
fn static_objects_across_objects() {
    same_as_native(&program(&["statics_a.cpp", "statics_b.cpp"], CXX), &matrix());
    same_as_native(&program(&["statics_b.cpp", "statics_a.cpp"], CXX), &[PLAIN]);
}

#[test]
fn templates_in_two_objects() {
    same_as_native(&program(&["templates_a.cpp", "templates_b.cpp"], CXX), &matrix());
}

#[test]
fn containers_and_streams() {
    let (args, stdin) = (&["pear", "fig", "apple"], b"to be or not\nto be");
    same_as_native(&Program { args, stdin, ..program(&["containers.cpp"], CXX) }, &SHORT);
}

#[test]
fn rust_without_the_standard_library() {
    let builds = [
        gcc(&["-Copt-level=2", "-Cdebug-assertions=off"]),
        gcc(&["-Copt-level=1", "-Cdebug-assertions=off", "-g"]),
        gcc(&["-Copt-level=s", "-Cdebug-assertions=off"]),
        gcc(&["-Copt-level=2", "-Cdebug-assertions=off", "-Crelocation-model=static"]),
    ];
    let args = &["from", "rust"];
    same_as_native(&Program { args, ..program(&["nostd.rs"], &[]) }, &builds);
}

#[test]
fn members_of_archives_come_in_when_they_are_needed() {
    let object = |name| corpus::object(name, PLAIN);
    let parts = ["archive_needed.c", "archive_behind.c", "archive_unused.c"].map(object);
    let archive = corpus::archive("parts", &parts);
    let main = object("archive_main.c");
    let executable = corpus::executable(&[main.clone(), archive.clone()], &[], PLAIN);
    let reference = run_to_end(native(&executable, &[]), b"");
    assert_eq!(reference.status, 0, "{reference}");

    let named = farcall_run(&[main.clone(), archive.clone()], &[]);
    assert_same("an archive by its path", &reference, &run_to_end(named, b""));
    let first = farcall_run(&[archive.clone(), main.clone()], &[]);
    assert_same("an archive before the object", &reference, &run_to_end(first, b""));
    let folder = archive.parent().expect("it lies in a folder").to_path_buf();
    let searched = [main, "-L".into(), folder, "-l".into(), "parts".into()];
    assert_same("-L and -l", &reference, &run_to_end(farcall_run(&searched, &[]), b""));
}

#[test]
fn members_of_thin_archives_lie_beside_them() {
    let object = |name| corpus::object(name, PLAIN);
    let main = object("archive_main.c");
    let parts = ["archive_needed.c", "archive_behind.c", "archive_unused.c"].map(object);
    let whole = farcall_run(&[main.clone(), corpus::archive("parts", &parts)], &[]);
    let reference = run_to_end(whole, b"");
    assert_eq!(reference.status, 0, "{reference}");

    let folder = tempfile::tempdir().expect("a folder for the test");
    let (objects, archives) = (folder.path().join("objects"), folder.path().join("archives"));
    std::fs::create_dir(&objects).expect("a folder in it");
    std::fs::create_dir(&archives).expect("another folder in it");
    let mut ar = Command::new("ar");
    ar.current_dir(folder.path()).args(["rcsT", "archives/parts.a"]);
    for part in &parts {
        let name = part.file_name().expect("an object has a name");
        std::fs::copy(part, objects.join(name)).expect("the folder can be written");
        ar.arg(Path::new("objects").join(name));
    }
    assert!(ar.status().is_ok_and(|status| status.success()), "ar makes a thin archive");
    let archive = archives.join("parts.a");
    let thin = farcall_run(&[main.clone(), archive.clone()], &[]);
    assert_same("a thin archive", &reference, &run_to_end(thin, b""));

    std::fs::remove_dir_all(&objects).expect("the folder can be emptied");
    let ended = run_to_end(farcall_run(&[main, archive], &[]), b"");
    let complaint = ended.complaint();
    assert!(ended.status != 0 && complaint.contains("parts.a(../objects/"), "{ended}");
}

#[test]
fn statistics_leave_the_output_of_the_program_alone() {
    let object = corpus::object("crash.c", PLAIN);
    let args = ["exit", "7"];
    let reference = run_to_end(farcall_run(std::slice::from_ref(&object), &args), b"");
    let with = |option: &str| run_to_end(farcall_run(&[object.clone(), option.into()], &args), b"");

    let stats = with("--stats");
    assert_eq!((stats.status, &stats.stdout), (7, &reference.stdout), "{stats}");
    let report = String::from_utf8_lossy(&stats.stderr);
    let phases = ["load", "connect", "pull", "look up", "lay out", "fix up", "transfer", "run"];
    assert!(phases.iter().all(|phase| report.contains(&format!("{phase} "))), "{report}");
    // Reading a file touches new memory.
    let load = report.lines().find(|line| line.starts_with("load ")).expect("a line");
    assert!(load.contains(" us of CPUs ") && load.ends_with(" bytes"), "{report}");
}

#[test]
fn a_trace_has_an_event_for_each_step_in_their_order() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = folder.path().join("trace.json");
    let inputs = [corpus::object("crash.c", PLAIN), "--trace".into(), file.clone(), "-lm".into()];
    let ended = run_to_end(farcall_run(&inputs, &["exit", "7"]), b"");
    assert_eq!((ended.status, &*ended.complaint()), (7, ""), "{ended}");
    let trace = std::fs::read(&file).expect("written");
    let trace: serde_json::Value = serde_json::from_slice(&trace).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let names: Vec<_> = events.iter().map(|event| event["name"].as_str().unwrap()).collect();
    let steps = ["load", "connect", "pull", "look up", "lay out", "fix up", "transfer", "run"];
    assert_eq!(names, steps, "{trace}");
    let mut ends = [0; 3];
    for event in events {
        let number =
            |field: &str| event[field].as_u64().unwrap_or_else(|| panic!("{field}: {event}"));
        assert_eq!(event["ph"], "X", "a whole step");
        let thread = usize::try_from(number("tid")).expect("1 or 2");
        assert!(number("ts") >= ends[thread], "steps of one thread overlap: {trace}");
        ends[thread] = number("ts") + number("dur");
        assert!(event["args"]["page_faults"].is_u64(), "{event}");
    }
    let bytes = std::fs::metadata(&inputs[0]).expect("an object").len();
    assert_eq!(events[0]["args"]["bytes"], bytes, "of all files");
}

/// Runs `crash.c` with these arguments, and with `--json` and this file.
fn with_json(file: &Path, args: &[&str]) -> Ended {
    let inputs = [corpus::object("crash.c", PLAIN), "--json".into(), file.into()];
    run_to_end(farcall_run(&inputs, args), b"")
}

/// Checks a report: one line with one JSON object, with every count and every phase.
fn checked(json: &[u8], exit_code: i32) {
    assert_eq!(json.iter().position(|byte| *byte == b'\n'), Some(json.len() - 1), "one line");
    let report: serde_json::Value = serde_json::from_slice(json).expect("one JSON value");
    assert_eq!(
        (&report["schema"], &report["exit_code"]),
        (&1.into(), &exit_code.into()),
        "{report}"
    );
    for count in ["objects", "sections", "relocations", "bytes", "messages"] {
        assert!(report[count].as_u64() > Some(0), "{count}: {report}");
    }
    let phases = ["load", "connect", "pull", "look_up", "layout", "fixup", "transfer", "run"];
    assert!(phases.iter().all(|phase| report[format!("{phase}_us")].is_u64()), "{report}");
    assert!(report["round_trips_before_main"].is_u64(), "{report}");
}

#[test]
fn a_json_report_is_apart_from_the_streams_of_the_program() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let file = folder.path().join("report.json");
    let reference =
        |args: &[&str]| run_to_end(farcall_run(&[corpus::object("crash.c", PLAIN)], args), b"");
    // `store` ends the program by a signal.
    for (args, status) in [(&["exit", "7"][..], 7), (&["store"], 139)] {
        assert_same("with --json FILE", &reference(args), &with_json(&file, args));
        checked(&std::fs::read(&file).expect("written"), status);
    }
}

#[test]
fn a_json_report_on_standard_output_follows_the_programs() {
    let args = &["one", "two"];
    let inputs = ["--json".into(), "-".into(), corpus::object("hello.c", PLAIN), "-lm".into()];
    let plain = run_to_end(farcall_run(&inputs[2..], args), b"");
    let json = run_to_end(farcall_run(&inputs, args), b"");
    assert!(!plain.stdout.is_empty(), "{plain}");
    assert_eq!((json.status, &json.stderr), (plain.status, &plain.stderr), "{json}");
    let report = json.stdout.strip_prefix(&plain.stdout[..]);
    checked(report.unwrap_or_else(|| panic!("{plain}\n{json}")), plain.status);
}

#[test]
fn an_unwritable_json_report_is_refused_before_the_program() {
    let ended = with_json(Path::new("/nowhere/report.json"), &["exit", "7"]);
    let line = "farcall: --json /nowhere/report.json: No such file or directory (os error 2)\n";
    assert_eq!((ended.status, ended.complaint().as_str()), (125, line), "{ended}");
    let inputs = [corpus::object("crash.c", PLAIN), "--trace".into(), "/nowhere/trace".into()];
    let ended = run_to_end(farcall_run(&inputs, &["exit", "7"]), b"");
    assert!(ended.status == 125 && ended.complaint().contains("--trace /nowhere/trace"), "{ended}");
}

#[test]
fn objects_by_relative_and_odd_paths() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let odd = folder.path().join("a name with spaces, ünï and no ending");
    std::fs::copy(corpus::object("crash.c", PLAIN), &odd).expect("the folder can be written");
    let name: PathBuf = odd.file_name().expect("it was just given one").into();
    let mut command = farcall_run(&[name], &["exit", "5"]);
    command.current_dir(folder.path());
    let ended = run_to_end(command, b"");
    assert_eq!(ended.status, 5, "{ended}");
}

#[test]
fn a_preloaded_leak_checker_counts_nothing_of_farcalls_own() {
    // N20
    let asked = Command::new("gcc").arg("-print-file-name=libasan.so").output().expect("gcc");
    let library = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim());
    let Ok(library) = library.canonicalize() else {
        println!("libasan.so is not installed: no leaks are counted");
        return;
    };
    let mut command = farcall_run(&[corpus::object("crash.c", PLAIN)], &["exit", "0"]);
    command.env("LD_PRELOAD", library);
    let ended = run_to_end(command, b"");
    assert_eq!((ended.status, ended.complaint().as_str()), (0, ""), "{ended}");
}
