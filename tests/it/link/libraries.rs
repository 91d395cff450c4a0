//! Libraries that a program names, as natively: their thread-locals, and the runtime of another language.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::native::{assert_same, farcall_run, native};
use crate::testkit::corpus::{self, LOW, PLAIN, gcc};
use crate::testkit::process::run_to_end;
use crate::testkit::tools;

/// Runs a compiler in a folder; false if it is not installed or fails.
fn compile(folder: &Path, compiler: &str, args: &[&str]) -> bool {
    Command::new(compiler).args(args).current_dir(folder).status().is_ok_and(|s| s.success())
}

/// The constructor of the library uses them first. More than the C library has room for in any process is asked for at its start.
#[test]
fn thread_locals_that_a_constructor_has_used() {
    let library = corpus::source("library_threads.c");
    let library = library.to_str().expect("a plain path");
    for bytes in ["16", "1000", "8000", "100000"] {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let size = format!("-DTHREAD_BYTES={bytes}");
        let args = ["-O2", "-fPIC", "-shared", &size, library, "-o", "libthreads.so"];
        assert!(compile(folder.path(), "cc", &args), "{bytes}");
        let search = format!("-L{}", folder.path().display());
        for build in [PLAIN, LOW, gcc(&["-O2", "-fPIC"])] {
            let object = corpus::object("library_threads_user.c", build);
            let found = format!("-Wl,-rpath,{}", folder.path().display());
            let options = [search.clone(), "-lthreads".to_owned(), found];
            let executable =
                corpus::executable_with(std::slice::from_ref(&object), &options, build);
            let reference = run_to_end(native(&executable, &[]), b"");
            assert_eq!(reference.status, 0, "{reference}");
            let ours = farcall_run(&[object, search.clone().into(), "-lthreads".into()], &[]);
            let what = format!("{bytes} bytes, {build:?}");
            assert_same(&what, &reference, &run_to_end(ours, b""));
        }
    }
}

/// `libNAME.so` may be a linker script, as `libm.so` is. It names the library to open.
#[test]
fn a_library_that_a_linker_script_names() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().to_str().expect("a plain path");
    for (number, name) in [("1", "libpart.so.1"), ("42", "libnamed.so")] {
        let source = format!("int part(void) {{ return {number}; }}");
        std::fs::write(folder.path().join("part.c"), source).expect("written");
        assert!(compile(folder.path(), "cc", &["-fPIC", "-shared", "part.c", "-o", name]));
    }
    let main = "int part(void); int main(void) { return part(); }";
    std::fs::write(folder.path().join("main.c"), main).expect("written");
    assert!(compile(folder.path(), "cc", &["-fPIC", "-c", "main.c"]));
    let absolute = format!("{path}/libnamed.so AS_NEEDED ( {path}/libgone.so.2 )");
    for script in [absolute.as_str(), "libnamed.so"] {
        let script = format!("/* a script */\nGROUP ( {script} )\n");
        std::fs::write(folder.path().join("libpart.so"), script).expect("written");
        let object = folder.path().join("main.o");
        let ours = farcall_run(&[object, format!("-L{path}").into(), "-lpart".into()], &[]);
        let ended = run_to_end(ours, b"");
        assert_eq!(ended.status, 42, "{ended}");
    }
}

/// A runtime with stacks of its own, whose threads the linked code starts.
#[test]
fn a_program_in_go() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let source = corpus::source("sum.go");
    let source = source.to_str().expect("a plain path");
    if !tools::is_here("gccgo", "no program in Go") {
        return;
    }
    assert!(compile(folder.path(), "gccgo", &["-O2", "-c", source, "-o", "sum.o"]));
    assert!(compile(folder.path(), "gccgo", &["-static-libgo", "sum.o", "-o", "sum"]));
    let reference = run_to_end(native(&folder.path().join("sum"), &[]), b"");
    assert_eq!(reference.status, 0, "{reference}");
    let archive = |name: &str| {
        let mut compiler = Command::new("gccgo");
        let path = compiler.arg(format!("-print-file-name={name}")).output().expect("it ran");
        PathBuf::from(String::from_utf8_lossy(&path.stdout).trim())
    };
    let mut inputs = vec![folder.path().join("sum.o"), archive("libgobegin.a"), archive("libgo.a")];
    inputs.extend(["-lgcc", "-lm"].map(PathBuf::from));
    assert_same("Go", &reference, &run_to_end(farcall_run(&inputs, &[]), b""));
    println!("gccgo: 1 cases");
}
