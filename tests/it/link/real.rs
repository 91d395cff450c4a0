//! Real programs behave as the native ones do: output, streams, exit status, files.
//!
//! Invariant: the native program of the very same objects says what is right.

use std::path::Path;

use crate::commands::native::{assert_same, farcall_run, native};
use crate::testkit::corpus;
use crate::testkit::process::run_to_end;
use crate::testkit::programs::{self, Compiled};
use crate::testkit::tools;

/// The flags that each program is compiled with in turn, besides its own.
const BUILDS: [&[&str]; 3] = [&[], &["-fPIC"], &["-fno-pic"]];

/// Panics unless both runs are the same and end with `status`.
fn same(what: &str, program: &Compiled, args: &[&str], status: i32) {
    let reference = run_to_end(native(&program.executable(), args), b"");
    assert_eq!(reference.status, status, "{what}: {reference}");
    let ours = run_to_end(farcall_run(&program.inputs(), args), b"");
    assert_same(what, &reference, &ours);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn lua_interpreter() {
    let script = corpus::source("script.lua");
    for flags in BUILDS {
        let args = [path(&script), "first", "second"];
        same(&format!("Lua {flags:?}"), &programs::lua(flags), &args, 9);
        same(&format!("Lua as an archive {flags:?}"), &programs::lua_archive(flags), &args, 9);
    }
}

#[test]
fn lua_reaches_main_in_few_round_trips() {
    let program = programs::lua(&[]);
    let mut inputs = program.inputs();
    inputs.push("--stats".into());
    let ended = run_to_end(farcall_run(&inputs, &["/dev/stdin"]), b"print(1)");
    assert_eq!(ended.status, 0, "{ended}");
    let report = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(report.contains(&format!("linked {} objects", program.files.len())), "{report}");
    let (before, _) = report.split_once(" round trips before main").expect("the report says");
    let count: u64 = before.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    // The setup message makes one more, though only one way.
    assert!((1..=3).contains(&count), "{report}");
}

#[test]
fn lua_script_with_an_error() {
    let program = programs::lua(&[]);
    let folder = tempfile::tempdir().expect("a folder for the test");
    let script = folder.path().join("wrong.lua");
    std::fs::write(&script, "local function f() error('on purpose') end\nf()\n").expect("writable");
    let reference = run_to_end(native(&program.executable(), &[path(&script)]), b"");
    assert!(reference.complaint().contains("wrong.lua:1: on purpose"), "{reference}");
    let ours = run_to_end(farcall_run(&program.inputs(), &[path(&script)]), b"");
    assert_same("Lua", &reference, &ours);
}

#[test]
fn sqlite_in_memory() {
    for flags in BUILDS {
        same(&format!("SQLite {flags:?}"), &programs::sqlite(flags), &[":memory:"], 11);
    }
}

#[test]
fn sqlite_in_a_file() {
    let program = programs::sqlite(&[]);
    let folder = tempfile::tempdir().expect("a folder for the test");
    let [theirs, ours] = ["native.db", "farcall.db"].map(|name| folder.path().join(name));
    let reference = run_to_end(native(&program.executable(), &[path(&theirs)]), b"");
    assert_eq!(reference.status, 11, "{reference}");
    let run = run_to_end(farcall_run(&program.inputs(), &[path(&ours)]), b"");
    assert_same("SQLite", &reference, &run);
    let [theirs, ours] = [theirs, ours].map(|path| std::fs::read(path).expect("the database"));
    assert!(theirs == ours, "the database files differ: {} and {} bytes", theirs.len(), ours.len());
}

#[test]
fn zlib_from_an_archive() {
    for flags in BUILDS {
        same(&format!("zlib {flags:?}"), &programs::zlib(flags), &[], 13);
    }
}

#[test]
fn zlib_searched_in_a_folder() {
    let mut program = programs::zlib(&[]);
    let reference = run_to_end(native(&program.executable(), &[]), b"");
    let archive = program.files.pop().expect("the archive comes last");
    let folder = archive.parent().expect("it lies in a folder");
    let inputs = [program.files[0].clone(), "-L".into(), folder.into(), "-lz".into()];
    assert_same("zlib", &reference, &run_to_end(farcall_run(&inputs, &[]), b""));
}

#[test]
fn zstd_with_its_assembler() {
    for flags in BUILDS {
        let program = programs::zstd(flags);
        let names = program.files.iter().map(|path| path.file_name().unwrap_or_default());
        assert_eq!(names.filter(|name| *name == "huf_decompress_amd64.o").count(), 1);
        same(&format!("zstd {flags:?}"), &program, &[], 17);
    }
}

#[test]
fn mimalloc_with_four_threads() {
    for flags in BUILDS {
        same(&format!("mimalloc {flags:?}"), &programs::mimalloc(flags), &[], 19);
    }
}

/// The archive of Debian's libssl-dev, whose assembly has a fragment of `_init`.
#[test]
fn crypto_from_an_archive() {
    let Some(program) = programs::crypto() else {
        tools::skip("libcrypto.a", "not installed (libssl-dev of Debian)");
        return;
    };
    same("libcrypto", &program, &[], 23);
    println!("libcrypto.a: 1 cases");
}

#[test]
fn rust_with_its_standard_library() {
    let low = &["-Copt-level=2", "-Crelocation-model=static"];
    for flags in [&["-Copt-level=2"][..], &["-Copt-level=0", "-g", "-Crelocation-model=pic"], low] {
        same(&format!("{flags:?}"), &programs::rust(flags), &[], 11);
    }
}
