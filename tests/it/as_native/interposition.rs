//! Names that several files define: which definition a program gets, and which its libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use farcall::controller::{Executor, Library, Process};
use farcall::link::ObjectFile;

use crate::commands::native::{Program, assert_same, farcall_run, native, program, same_as_native};
use crate::testkit::corpus::{self, Build, LOW, PLAIN, gcc};
use crate::testkit::launch;
use crate::testkit::process::run_to_end;
use crate::testkit::processor::installed;
use crate::testkit::{programs, tools};

/// A library with versions of its names.
fn versioned_library(folder: &Path) -> PathBuf {
    let [source, versions] =
        ["as_native/preloaded.c", "as_native/preloaded.map"].map(corpus::source);
    let library = folder.join("libpreloaded.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-fPIC", "-shared"]).arg(source).arg("-o").arg(&library);
    compiler.arg(format!("-Wl,--version-script={}", versions.display()));
    assert!(compiler.status().expect("cc").success());
    library
}

/// N24: the preloaded library has the version of the name that the program is linked with, but not as its default one.
#[test]
fn a_preloaded_library_with_versions_comes_before_the_c_library() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let object = corpus::object("as_native/preloads.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    let debug = installed("libc_malloc_debug.so.0");
    let mut preloads = vec![versioned_library(folder.path())];
    if debug.exists() {
        preloads.push(debug);
    } else {
        println!("libc_malloc_debug.so.0, not installed: 0 cases");
    }
    for preload in preloads {
        let run = |mut command: Command| {
            command.env("LD_PRELOAD", &preload).env("MALLOC_PERTURB_", "3");
            run_to_end(command, b"")
        };
        let reference = run(native(&executable, &[]));
        assert_eq!(reference.status, 0, "{reference}");
        let ours = run(farcall_run(std::slice::from_ref(&object), &[]));
        assert_same(&preload.display().to_string(), &reference, &ours);
    }
}

/// Makes the library `libguest.so` of a source in this folder.
fn guest(folder: &Path, source: &str, options: &[&str]) {
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-fPIC", "-shared"]).args(options).arg(corpus::source(source));
    compiler.arg("-o").arg(folder.join("libguest.so"));
    assert!(compiler.status().expect("c++").success(), "{source}, {options:?}");
}

/// Runs a program with that library both ways, and panics if they differ.
fn same_with_guest(folder: &Path, source: &str, build: Build<'_>, args: &[&str]) {
    let object = corpus::object(source, build);
    let search = format!("-L{}", folder.display());
    let found = format!("-Wl,-rpath,{}", folder.display());
    let options = [search.clone(), "-lguest".into(), "-lstdc++".into(), found];
    let executable = corpus::executable_with(std::slice::from_ref(&object), &options, build);
    let reference = run_to_end(native(&executable, args), b"");
    assert_eq!(reference.status, 0, "{reference}");
    let inputs = [object, search.into(), "-lguest".into(), "-lstdc++".into()];
    let ours = run_to_end(farcall_run(&inputs, args), b"");
    assert_same(&format!("{source}, {build:?}"), &reference, &ours);
}

/// N2: the library's constructor uses a variable, a function and `operator new` of the program, and the program's arguments.
#[test]
fn a_library_uses_what_the_program_defines() {
    let builds = [PLAIN, gcc(&["-O0", "-fPIC"]), gcc(&["-O2", "-fno-plt"]), LOW];
    for options in [&["-Wl,-z,lazy"][..], &["-Wl,-z,now", "-Wl,-z,relro"]] {
        let folder = tempfile::tempdir().expect("a folder for the test");
        guest(folder.path(), "as_native/guest.cpp", options);
        for build in builds {
            same_with_guest(folder.path(), "as_native/host.cpp", build, &["one", "two"]);
        }
    }
}

/// N2: hooks of the C library are names that it looks up in the program.
#[test]
fn the_c_library_uses_variables_of_the_program() {
    let args = &["--version"];
    let of = Program { args, ..program(&["as_native/hooks.c"], &[]) };
    same_as_native(&of, &[PLAIN, gcc(&["-O0"]), LOW]);
}

/// N2: an allocator that is linked in serves the C library too, which has taken memory from its own before.
#[test]
fn an_allocator_of_the_program_serves_its_libraries() {
    let builds = [PLAIN, gcc(&["-O2", "-DFROM_BREAK"]), gcc(&["-O1", "-fPIC"])];
    let sources = ["as_native/own_allocator.c", "as_native/allocator.c"];
    same_as_native(&program(&sources, &["stdc++"]), &builds);
    same_as_native(&program(&sources, &[]), &builds);
}

/// A1: what a preloaded library has from before the allocator came, in heaps, in mappings and of threads, it can give back.
#[test]
fn an_allocator_of_the_program_meets_no_older_block() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    guest(folder.path(), "as_native/early_blocks.cpp", &["-std=c++17"]);
    let library = folder.path().join("libguest.so");
    let sources = ["own_allocator.c", "allocator.c", "operators.cpp"];
    let sources = sources.map(|name| corpus::source(&format!("as_native/{name}")));
    let inputs = corpus::compile_all(&sources, PLAIN);
    let executable = corpus::executable(&inputs, &["stdc++"], PLAIN);
    let run = |mut command: Command| {
        command.env("LD_PRELOAD", &library);
        run_to_end(command, b"")
    };
    let reference = run(native(&executable, &[]));
    assert_eq!(reference.status, 0, "{reference}");
    let inputs = [inputs, vec!["-lstdc++".into()]].concat();
    assert_same("early blocks", &reference, &run(farcall_run(&inputs, &[])));
}

/// A1: blocks of a preloaded allocator cannot be told from the program's blocks.
#[test]
fn a_second_allocator_is_refused_beside_the_programs_own() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    guest(folder.path(), "as_native/allocator.c", &["-xc"]);
    let sources = ["own_allocator.c", "allocator.c"];
    let sources = sources.map(|name| corpus::source(&format!("as_native/{name}")));
    let mut command = farcall_run(&corpus::compile_all(&sources, PLAIN), &[]);
    command.env("LD_PRELOAD", folder.path().join("libguest.so"));
    let ended = run_to_end(command, b"");
    assert!(ended.complaint().contains("start without that one"), "{ended}");
}

/// N2: allocators as they are linked in real programs.
#[test]
fn an_allocator_from_an_archive_serves_the_libraries() {
    let sources = ["as_native/allocating.c", "as_native/streams.cpp"];
    let sources = sources.map(corpus::source);
    let mimalloc = programs::mimalloc(&["-DMI_MALLOC_OVERRIDE", "-fPIC"]);
    let mut allocators = vec![mimalloc.files[1].clone()];
    let jemalloc = installed("libjemalloc.a");
    match jemalloc.exists() {
        true => allocators.push(jemalloc),
        false => tools::skip("libjemalloc.a", "not installed (libjemalloc-dev of Debian)"),
    }
    for allocator in allocators {
        let mut inputs = corpus::compile_all(&sources, PLAIN);
        inputs.push(allocator.clone());
        let executable = corpus::executable(&inputs, &["stdc++", "m"], PLAIN);
        let reference = run_to_end(native(&executable, &[]), b"");
        assert_eq!(reference.status, 0, "{reference}");
        for library in ["-lm", "-lstdc++"] {
            let mut inputs = inputs.clone();
            inputs.push(library.into());
            let ours = run_to_end(farcall_run(&inputs, &[]), b"");
            assert_same(&format!("{} {library}", allocator.display()), &reference, &ours);
        }
    }
}

/// N2: a plugin, which is opened late, is bound to its host before its constructors run. It is closed and opened again.
#[test]
fn a_plugin_uses_what_its_host_defines() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let plugin = folder.path().join("libguest.so");
    let arguments = [plugin.display().to_string()];
    let arguments = arguments.each_ref().map(String::as_str);
    for options in [&["-Wl,-z,lazy"][..], &["-Wl,-z,now", "-Wl,-z,relro"]] {
        guest(folder.path(), "as_native/late_guest.cpp", options);
        for sources in
            [&["as_native/late_host.c", "as_native/allocator.c"][..], &["as_native/late_host.c"]]
        {
            for build in [PLAIN, gcc(&["-O0", "-fPIC"])] {
                let sources: Vec<_> = sources.iter().map(|name| corpus::source(name)).collect();
                let inputs = corpus::compile_all(&sources, build);
                let executable = corpus::executable_with(&inputs, &["-rdynamic".into()], build);
                let reference = run_to_end(native(&executable, &arguments), b"");
                assert_eq!(reference.status, 0, "{reference}");
                let ours = run_to_end(farcall_run(&inputs, &arguments), b"");
                assert_same(&format!("{options:?}, {sources:?}, {build:?}"), &reference, &ours);
            }
        }
    }
}

/// N3: a leak finder that is preloaded finds what static variables point to, and what nothing points to.
#[test]
fn a_preloaded_sanitizer_finds_the_same_leaks() {
    let asked = Command::new("gcc").arg("-print-file-name=libasan.so").output().expect("gcc");
    let library = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim());
    let Ok(library) = library.canonicalize() else {
        return tools::skip("libasan.so", "not installed: no leaks are found");
    };
    let object = corpus::object("as_native/leaks.c", PLAIN);
    let executable = corpus::executable(std::slice::from_ref(&object), &[], PLAIN);
    for way in ["keep", "leak", "overflow"] {
        let run = |mut command: Command| {
            command.env("LD_PRELOAD", &library);
            let ended = run_to_end(command, b"");
            let complaint = ended.complaint();
            let summary = complaint.lines().find_map(|line| line.split_once("SUMMARY: "));
            let summary = summary.map(|(_, found)| found.split(" in ").next().unwrap_or(found));
            let summary = summary.map(|found| found.split(" (").next().unwrap_or(found).to_owned());
            (ended.status, summary)
        };
        let reference = run(native(&executable, &[way]));
        assert_eq!(reference.1.is_some(), way != "keep", "{way}: {reference:?}");
        let ours = run(farcall_run(std::slice::from_ref(&object), &[way]));
        assert_eq!(ours, reference, "{way}");
    }
}

/// N3: collectors and leak finders look for variables there, from the program or from a library.
#[test]
fn segments_contain_the_variables_of_the_program() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    guest(folder.path(), "as_native/segments_guest.cpp", &[]);
    for build in [PLAIN, gcc(&["-O0", "-fPIC"])] {
        same_with_guest(folder.path(), "as_native/segments.cpp", build, &[]);
    }
}

/// N3: objects that only static variables point to live on.
#[test]
fn a_collector_keeps_what_static_variables_point_to() {
    let archive = installed("libgc.a");
    if !archive.exists() || !Path::new("/usr/include/gc.h").exists() {
        return tools::skip("libgc.a", "not installed (libgc-dev of Debian)");
    }
    let object = corpus::object("as_native/collected.c", PLAIN);
    let shared = program(&["as_native/collected.c"], &["gc"]);
    same_as_native(&shared, &[PLAIN, gcc(&["-O0"])]);
    let inputs = [object, archive];
    let executable = corpus::executable(&inputs, &[], PLAIN);
    let reference = run_to_end(native(&executable, &[]), b"");
    assert_eq!(reference.status, 0, "{reference}");
    assert_same("libgc.a", &reference, &run_to_end(farcall_run(&inputs, &[]), b""));
}

/// N2, N4: of a program that is removed, libraries and the next program have nothing.
#[test]
fn a_removed_program_leaves_nothing_to_the_next_one() {
    let executor = launch::builder().start().expect("an executor");
    for value in ["-DVALUE=1", "-DVALUE=2", "-DVALUE=1"] {
        let flags = ["-O2", "-fPIC", "-fno-builtin", value];
        let path = corpus::object("as_native/successor.c", gcc(&flags));
        let object = ObjectFile::parse("successor.o", std::fs::read(path).expect("a file"));
        let dylib = executor.library("successor");
        dylib.precede_libraries().expect("added");
        dylib.add_object(&object.expect("an object")).expect("added");
        assert_eq!(dylib.run_main(["successor"]).expect("it returns"), 0, "{value}");
        dylib.clear().expect("cleared");
    }
}

/// Makes the library `libNAME.so`, whose function NAME needs a function of a program.
fn needing(folder: &Path, name: &str) -> String {
    let path = folder.join(format!("lib{name}.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-fPIC", "-shared", &format!("-DGUEST={name}")]);
    compiler.arg(corpus::source("needs_a_name.c")).arg("-o").arg(&path);
    assert!(compiler.status().expect("cc").success());
    path.display().to_string()
}

/// A program that has this function, and may want another one.
fn having(executor: &Executor, flags: &[&str]) -> Library {
    let flags = [&["-O2", "-fPIC"], flags].concat();
    let bytes = std::fs::read(corpus::object("has_a_name.c", gcc(&flags))).expect("a file");
    let dylib = executor.library("program");
    dylib.precede_libraries().expect("added");
    dylib.add_object(&ObjectFile::parse("program.o", bytes).expect("an object")).expect("added");
    dylib
}

/// Calls a library's function that calls the program's.
fn call(process: &Process, dylib: &Library, name: &str) -> i32 {
    let address = dylib.lookup(name).expect("found");
    process.function::<extern "C" fn() -> i32>(address).call(()).expect("it returns")
}

/// Panics unless a library cannot be opened, because its name is missing.
fn is_refused(executor: &Executor, library: &str) {
    let later = executor.library("later");
    later.add_library(library).expect("added");
    let error = later.open_libraries().expect_err("nothing has the name").to_string();
    assert!(error.contains("undefined symbol: only_in_the_program"), "{error}");
}

/// A3: a library that is opened later finds no name of a program that was removed, and the next program serves the first library.
#[test]
fn libraries_find_no_name_of_a_removed_program() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let first = needing(folder.path(), "first");
    for round in 1..3 {
        let program = having(&executor, &[&format!("-DVALUE={round}")]);
        program.add_library(&first).expect("added");
        assert_eq!(call(&process, &program, "first"), round);
        let second = needing(folder.path(), &format!("second_{round}"));
        let later = executor.library("later");
        later.add_library(&second).expect("added");
        assert_eq!(call(&process, &later, &format!("second_{round}")), round);
        program.clear().expect("cleared");
        is_refused(&executor, &needing(folder.path(), &format!("third_{round}")));
    }
}

/// A3: nor one of a program that could not be linked. A library that was opened for it waits for the next one.
#[test]
fn libraries_find_no_name_of_a_link_that_failed() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let first = needing(folder.path(), "first");
    let program = having(&executor, &["-DVALUE=1", "-DWANTED=missing_everywhere"]);
    program.add_library(&first).expect("added");
    assert_eq!(program.link().expect_err("missing").symbols(), ["missing_everywhere"]);
    is_refused(&executor, &needing(folder.path(), "second"));
    let other = having(&executor, &["-DVALUE=2", "-Donly_in_the_program=another_name"]);
    other.add_library(&first).expect("added");
    let error = other.lookup("another_name").and_then(|_| other.initialize()).expect_err("missing");
    assert!(error.to_string().contains("only_in_the_program"), "{error}");
    drop(other);
    let program = having(&executor, &["-DVALUE=3"]);
    program.add_library(&first).expect("added");
    assert_eq!(call(&process, &program, "first"), 3);
}

/// A3: nor one of a dylib that was removed, whose names linked code had made known.
#[test]
fn libraries_find_no_name_of_a_removed_dylib() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let object = corpus::object("has_a_name.c", gcc(&["-O2", "-fPIC", "-DVALUE=5", "-DASKS"]));
    let object = ObjectFile::parse("dylib.o", std::fs::read(object).expect("a file"));
    let dylib = executor.library("dylib");
    dylib.add_object(&object.expect("an object")).expect("added");
    assert_eq!(call(&process, &dylib, "ask"), 1);
    let later = executor.library("later");
    later.add_library(needing(folder.path(), "first")).expect("added");
    assert_eq!(call(&process, &later, "first"), 5, "it is there");
    dylib.clear().expect("cleared");
    is_refused(&executor, &needing(folder.path(), "second"));
}

/// A5: a constructor that does not return ends the constructors of its library. Constructors of other libraries run at the next call.
#[test]
fn libraries_wait_behind_a_constructor_that_fails() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("constructed");
    dylib.precede_libraries().expect("added");
    let allowed = |number: i32| if number == 3 { Err("not 3") } else { Ok(0_i64) };
    dylib.define_handler("allowed", allowed).expect("defined");
    let object = std::fs::read(corpus::object("constructed.c", PLAIN)).expect("a file");
    dylib.add_object(&ObjectFile::parse("program.o", object).expect("an object")).expect("added");
    // The last one loaded comes first.
    for number in [5, 3, 1] {
        let path = folder.path().join(format!("lib{number}.so"));
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-fPIC", "-shared", &format!("-DNUMBER={number}")]);
        compiler.arg(corpus::source("constructed_guest.c")).arg("-o").arg(&path);
        assert!(compiler.status().expect("cc").success());
        dylib.add_library(path.display().to_string()).expect("added");
    }
    let error = dylib.initialize().expect_err("not allowed");
    assert!(error.to_string().contains("not 3"), "{error}");
    let constructed = dylib.lookup("constructed").expect("defined");
    let constructed = process.function::<extern "C" fn() -> i64>(constructed);
    assert_eq!(constructed.call(()).expect("it returns"), 123);
    for _ in 0..2 {
        dylib.initialize().expect("the others are allowed");
        assert_eq!(constructed.call(()).expect("it returns"), 12_356);
    }
}
