//! Names that several files define: which definition a program gets, and which its libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::native::{assert_same, farcall_run, native};
use crate::testkit::corpus::{self, PLAIN};
use crate::testkit::process::run_to_end;

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
    let debug = Path::new("/lib/x86_64-linux-gnu/libc_malloc_debug.so.0");
    let mut preloads = vec![versioned_library(folder.path())];
    if debug.exists() {
        preloads.push(debug.to_path_buf());
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
