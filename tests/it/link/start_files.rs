//! The symbols that a native program has from its start files and from the linker's script.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::commands::native::{Program, assert_same, farcall_run, native, program, same_as_native};
use crate::commands::refuse::refused;
use crate::testkit::corpus::{self, LOW, PLAIN, gcc};
use crate::testkit::launch::FARCALL;
use crate::testkit::process::{run_to_end, write_program};
use crate::testkit::tools;

#[test]
fn a_handle_that_is_only_named() {
    same_as_native(&program(&["dso_handle.c"], &[]), &[PLAIN, LOW, gcc(&["-O2", "-fPIC"])]);
}

#[test]
fn the_environment_lies_behind_the_arguments() {
    let started = Program { args: &["one", "two three"], ..program(&["start.c"], &[]) };
    same_as_native(&started, &[PLAIN, LOW]);
}

/// The counters of `--coverage` are written when the program ends, by a library in a folder of GCC's own.
#[test]
fn a_library_of_the_compiler() {
    same_as_native(&program(&["data.c"], &["gcov"]), &[gcc(&["-O0", "--coverage"])]);
}

#[test]
fn the_bounds_of_a_program_have_their_names() {
    same_as_native(&program(&["bounds.c"], &[]), &[PLAIN, LOW, gcc(&["-O2", "-fPIC"])]);
}

#[test]
fn fragments_of_the_first_and_the_last_function() {
    let cut = program(&["fragments.c", "fragments_other.c"], &[]);
    same_as_native(&cut, &[PLAIN, LOW, gcc(&["-O2", "-fPIC"])]);
}

#[test]
fn a_start_of_its_own() {
    for build in [PLAIN, LOW] {
        let object = corpus::object("own_start.c", build);
        let options = ["-nostartfiles".to_owned()];
        let executable = corpus::executable_with(std::slice::from_ref(&object), &options, build);
        let args = ["one", "", "three"];
        let reference = run_to_end(native(&executable, &args), b"");
        assert_eq!(reference.status, 42, "{reference}");
        let ours = farcall_run(&["--entry".into(), "_start".into(), object], &args);
        assert_same("own_start.c", &reference, &run_to_end(ours, b""));
    }
    let object = corpus::object("own_start.c", PLAIN);
    refused(&["--entry".into(), "begin_here".into(), object], 126, &["no begin_here in"]);
}

/// As of a program that is linked with `-rdynamic`.
#[test]
fn names_that_the_dynamic_linker_finds() {
    let plugin = corpus::object("plugin.c", gcc(&["-O1", "-fPIC"]));
    let plugin = corpus::shared_library(std::slice::from_ref(&plugin));
    let args = [plugin.to_str().expect("a plain path")];
    for build in [PLAIN, LOW, gcc(&["-O2", "-fPIC"])] {
        let object = corpus::object("plugin_host.c", build);
        let options = ["-rdynamic".to_owned()];
        let executable = corpus::executable_with(std::slice::from_ref(&object), &options, build);
        let reference = run_to_end(native(&executable, &args), b"");
        assert_eq!(reference.status, 0, "{reference}");
        assert_same("plugin_host.c", &reference, &run_to_end(farcall_run(&[object], &args), b""));
    }
}

/// Free Pascal's programs start at `_start` and use no C library.
#[test]
fn a_program_in_pascal() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let compile = |options: &[&str]| {
        let mut compiler = Command::new("fpc");
        compiler.args(["-Mobjfpc", "-O2", "-FE."]).args(options).arg(corpus::source("pascal.pas"));
        compiler.current_dir(&folder).stdout(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    if !compile(&[]) {
        tools::skip("fpc", "not installed: no program in Pascal");
        return;
    }
    let reference = run_to_end(native(&folder.path().join("pascal"), &["one"]), b"");
    assert_eq!(reference.status, 7, "{reference}");
    // The script for the linker, which is kept now, names the objects.
    assert!(compile(&["-s"]), "compiled before");
    let files = std::fs::read_dir(&folder).expect("its folder").flatten().map(|file| file.path());
    let script = files.into_iter().find(|file| file.extension() == Some("res".as_ref()));
    let script = std::fs::read_to_string(script.expect("a script")).expect("readable");
    let objects = script.lines().filter(|line| line.ends_with(".o"));
    let objects = objects.map(|line| folder.path().join(line));
    let inputs: Vec<_> =
        ["--entry", "_start"].map(PathBuf::from).into_iter().chain(objects).collect();
    assert_same("Pascal", &reference, &run_to_end(farcall_run(&inputs, &["one"]), b""));
    println!("Free Pascal: 1 cases");
}

#[test]
fn a_name_of_its_own() {
    let object = corpus::object("own_name.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    let mut reference = native(&executable, &[]);
    reference.arg0("some/other name");
    let ours = farcall_run(&["--argv0".into(), "some/other name".into(), object], &[]);
    assert_same("own_name.c", &run_to_end(reference, b""), &run_to_end(ours, b""));
}

#[test]
fn a_file_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let folder = folder.path().canonicalize().expect("a folder");
    let object = corpus::object("own_file.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    let (file, link, missing) = (folder.join("program"), folder.join("link"), folder.join("none"));
    let put = |program: &Path| write_program(&file, &std::fs::read(program).expect("a program"));
    put(&executable);
    let reference = run_to_end(native(&file, &[]), b"");
    assert_eq!(reference.stdout, format!("{}\n", file.display()).into_bytes());

    // Only a copy of farcall itself is started.
    let run = |exe: &PathBuf| farcall_run(&["--exe".into(), exe.clone(), object.clone()], &[]);
    std::os::unix::fs::symlink(FARCALL, &link).expect("a link");
    let advice = format!("ln or cp {FARCALL} ");
    for (exe, status, word) in [
        (&file, 125, "not this farcall"),
        (&link, 125, "a symbolic link"),
        (&missing, 127, "No such file"),
    ] {
        let ended = run_to_end(run(exe), b"");
        assert_eq!((ended.status, ended.stdout.len()), (status, 0), "{ended}");
        let complaint = ended.complaint();
        assert!(complaint.contains(word) && complaint.contains(&advice), "{ended}");
        assert_eq!(complaint.lines().count(), 1, "{ended}");
    }
    put(Path::new(FARCALL));
    assert_same("own_file.c", &reference, &run_to_end(run(&file), b""));
}

#[test]
fn code_on_the_stack_is_refused_or_allowed() {
    for build in [PLAIN, LOW] {
        let object = corpus::object("nested.c", build);
        refused(&[&object], 126, &["nested.o", "function add.", "--allow-exec-stack"]);
        let executable = corpus::executable(std::slice::from_ref(&object), &[], build);
        let reference = run_to_end(native(&executable, &[]), b"");
        let ours = farcall_run(&["--allow-exec-stack".into(), object], &[]);
        assert_same("nested.c", &reference, &run_to_end(ours, b""));
    }
}
