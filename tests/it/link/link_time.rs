//! The cost of a link: messages, whatever the number of objects, and the race against a linker.
//!
//! Invariant: only counts are asserted; what the race takes is for `farcall bench --link` to say.

use std::process::Command;

use farcall::link::{Archive, ObjectFile};
use farcall_bench::TinyObject;

use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::launch::{self, FARCALL};
use crate::testkit::programs;

/// Members of the archive.
const MEMBERS: usize = 300;
const MESSAGES_MAX: u64 = 4;

/// An archive with this many members, each of which needs the next.
fn archive() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder for the archive");
    let mut ar = Command::new("ar");
    ar.current_dir(folder.path()).args(["rcD", "many.a"]);
    for number in 0..MEMBERS {
        let object = TinyObject::new().variable(&format!("number_{number}"), &[7; 8]);
        let object = if number + 1 < MEMBERS {
            // inc qword ptr [rip + number]; jmp step
            let code = [0x48, 0xff, 0x05, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
            let next = format!("step_{}", number + 1);
            let object = object.function(&format!("step_{number}"), &code);
            object.data_at(3, &format!("number_{number}")).call_at(8, &next)
        } else {
            // mov eax, 23; ret
            object.function(&format!("step_{number}"), &[0xb8, 23, 0, 0, 0, 0xc3])
        };
        let name = format!("member_{number}.o");
        std::fs::write(folder.path().join(&name), object.bytes()).expect("written");
        ar.arg(name);
    }
    assert!(ar.status().expect("ar is installed").success());
    std::fs::read(folder.path().join("many.a")).expect("just made")
}

#[test]
fn three_hundred_members_take_few_messages() {
    let read = |path| std::fs::read(path).expect("just compiled");
    let first = ObjectFile::parse("many_main.o", read(corpus::object("many_main.c", PLAIN)));
    let archive = Archive::parse("many.a", archive()).expect("an archive");
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("program");
    let before = process.stats();
    dylib.add_object(&first.expect("an object")).expect("added");
    dylib.add_archive(&archive).expect("added");
    let report = dylib.link().expect("linked");
    let linked = process.stats();
    assert_eq!(report.objects, MEMBERS as u64 + 1, "the archive came in whole");
    assert_eq!(dylib.run_main(["many"]).expect("it returns"), 23 + 4);
    let run = process.stats();
    let messages = linked.calls - before.calls;
    assert!((1..=MESSAGES_MAX).contains(&messages), "{messages} messages for one link");
    // Symbols are looked up, and the initializer is registered ahead of the call of main.
    assert!(linked.round_trips - before.round_trips <= 1, "{before:?}, then {linked:?}");
    assert_eq!(run.round_trips - linked.round_trips, 1, "{linked:?}, then {run:?}");
}

#[test]
fn the_race_against_a_linker_reports_both_sides() {
    let (lua, sqlite) = (programs::lua(&[]), programs::sqlite(&[]));
    for (name, program, args) in [("Lua", lua, &[][..]), ("SQLite", sqlite, &["--version"])] {
        let mut command = Command::new(FARCALL);
        command.args(["bench", "--json", "--seconds", "0", "--link"]).args(&program.files);
        command.args(program.libraries.iter().map(|library| format!("-l{library}")));
        let output = command.arg("--").args(args).output().expect("started");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {complaint}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let rows = report["programs"][0]["rows"].as_array().expect("rows");
        assert_eq!(rows[0]["name"], "farcall run", "{name}: {report}");
        let ratio = |row: &serde_json::Value| row["ratio"]["median"].as_f64();
        let is_compared = rows.iter().all(|row| ratio(row).is_some_and(|ratio| ratio > 0.0));
        assert!(rows.len() >= 2 && is_compared, "{name}: {report}");
        // LLVM's command may not be here, or not run the program.
        let llvm = report.get("llvm").expect("it is said");
        let is_row = match llvm["outcome"].as_str() {
            Some("refused") => llvm["why"].is_string(),
            Some("ran") => llvm["ratio"]["median"].is_f64(),
            outcome => outcome == Some("absent"),
        };
        assert!(is_row, "{name}: {report}");
    }
}
