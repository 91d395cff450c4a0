//! Real programs: the Lua interpreter, SQLite and zlib, from the C sources that crates carry.
//!
//! Invariant: the native program of the very same objects says what is right.

use std::path::{Path, PathBuf};

use crate::command::{assert_same, farcall_run, native};
use crate::corpus::{self, gcc};
use crate::crates;
use crate::process::run_to_end;

/// The object of a driver in `tests/sources` that includes the headers of `folder`.
fn driver(name: &str, folder: &Path) -> PathBuf {
    let folder = folder.to_str().expect("the registry has a plain path");
    corpus::object(name, gcc(&["-O2", "-I", folder]))
}

/// Lua 5.4 declares its inner functions with internal visibility and is 33 objects.
fn lua() -> Vec<PathBuf> {
    let versions = std::fs::read_dir(crates::folder("lua-src")).expect("a folder for each version");
    let mut folders = versions.flatten().map(|entry| entry.path());
    let is_5_4 = |path: &PathBuf| {
        path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"lua-5.4"))
    };
    let folder = folders.find(is_5_4).expect("lua-src carries Lua 5.4");
    let build = gcc(&["-O2", "-DLUA_USE_LINUX"]);
    let mut objects = corpus::compile_all(&crates::c_files(&folder), build);
    objects.push(driver("lua_driver.c", &folder));
    objects
}

fn sqlite() -> Vec<PathBuf> {
    let folder = crates::folder("libsqlite3-sys").join("sqlite3");
    let build = gcc(&["-O1", "-DSQLITE_THREADSAFE=1", "-DSQLITE_ENABLE_MATH_FUNCTIONS"]);
    let library = corpus::compile(&folder.join("sqlite3.c"), build);
    vec![driver("sqlite_driver.c", &folder), library]
}

#[test]
fn lua_interpreter() {
    let mut inputs = lua();
    let script = corpus::source("script.lua");
    let args = [script.to_str().expect("a plain path"), "first", "second"];
    let executable = corpus::executable(&inputs, &["m"]);
    let reference = run_to_end(native(&executable, &args), b"");
    assert_eq!(reference.status, 9, "{reference}");
    inputs.push("-lm".into());
    assert_same("Lua", &reference, &run_to_end(farcall_run(&inputs, &args), b""));
}

#[test]
fn lua_reaches_main_in_few_round_trips() {
    let mut inputs = lua();
    let objects = inputs.len();
    inputs.extend(["-lm".into(), "--stats".into()]);
    let ended = run_to_end(farcall_run(&inputs, &["/dev/stdin"]), b"print(1)");
    assert_eq!(ended.status, 0, "{ended}");
    let report = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(report.contains(&format!("linked {objects} objects")), "{report}");
    let (before, _) = report.split_once(" round trips before main").expect("the report says");
    let count: u64 = before.rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    // The setup message makes one more, though only one way.
    assert!((1..=3).contains(&count), "{report}");
}

#[test]
fn lua_script_with_an_error() {
    let mut inputs = lua();
    let folder = tempfile::tempdir().expect("a folder for the test");
    let script = folder.path().join("wrong.lua");
    std::fs::write(&script, "local function f() error('on purpose') end\nf()\n").expect("writable");
    let args = [script.to_str().expect("a plain path")];
    let reference = run_to_end(native(&corpus::executable(&inputs, &["m"]), &args), b"");
    assert!(reference.complaint().contains("wrong.lua:1: on purpose"), "{reference}");
    inputs.push("-lm".into());
    assert_same("Lua", &reference, &run_to_end(farcall_run(&inputs, &args), b""));
}

#[test]
fn sqlite_in_memory() {
    let mut inputs = sqlite();
    let reference = run_to_end(native(&corpus::executable(&inputs, &["m"]), &[":memory:"]), b"");
    assert_eq!(reference.status, 11, "{reference}");
    inputs.push("-lm".into());
    assert_same("SQLite", &reference, &run_to_end(farcall_run(&inputs, &[":memory:"]), b""));
}

#[test]
fn sqlite_in_a_file() {
    let mut inputs = sqlite();
    let folder = tempfile::tempdir().expect("a folder for the test");
    let [theirs, ours] = ["native.db", "farcall.db"].map(|name| folder.path().join(name));
    let executable = corpus::executable(&inputs, &["m"]);
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let reference = run_to_end(native(&executable, &[&path(&theirs)]), b"");
    assert_eq!(reference.status, 11, "{reference}");
    inputs.push("-lm".into());
    let run = run_to_end(farcall_run(&inputs, &[&path(&ours)]), b"");
    assert_same("SQLite", &reference, &run);
    let [theirs, ours] = [theirs, ours].map(|path| std::fs::read(path).expect("the database"));
    assert!(theirs == ours, "the database files differ: {} and {} bytes", theirs.len(), ours.len());
}

#[test]
fn zlib_from_an_archive() {
    let folder = crates::folder("libz-sys").join("src/zlib");
    let flags = ["-O2", "-DHAVE_UNISTD_H", "-DHAVE_STDARG_H", "-D_LARGEFILE64_SOURCE=1"];
    let archive =
        corpus::archive("z", &corpus::compile_all(&crates::c_files(&folder), gcc(&flags)));
    let main = driver("zlib_driver.c", &folder);
    let executable = corpus::executable(&[main.clone(), archive.clone()], &[]);
    let reference = run_to_end(native(&executable, &[]), b"");
    assert_eq!(reference.status, 13, "{reference}");
    let library = archive.parent().expect("it lies in a folder").to_path_buf();
    let inputs = [main, "-L".into(), library, "-lz".into()];
    assert_same("zlib", &reference, &run_to_end(farcall_run(&inputs, &[]), b""));
}
