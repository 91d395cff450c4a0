//! The example `expressions`, as a reader runs it.

use std::path::PathBuf;
use std::process::{Command, Output};

/// With its own tests.
#[path = "../examples/expressions/syntax.rs"]
mod syntax;

/// Cargo builds the examples of a package together with its tests.
fn run(lines: &[&str]) -> Output {
    let test = std::env::current_exe().expect("this program");
    let folder: PathBuf = test.ancestors().nth(2).expect("the folder of the build").into();
    let example = folder.join("examples/expressions");
    assert!(example.exists(), "run the tests of the whole package, which builds {example:?}");
    Command::new(example).args(lines).env_remove("FARCALL_EXECUTOR").output().expect("it starts")
}

#[test]
fn functions_are_defined_in_any_order() {
    let Output { status, stdout, stderr } = run(&[]);
    assert!(status.success(), "{status} {}", String::from_utf8_lossy(&stderr));
    assert_eq!(String::from_utf8(stdout).expect("text"), "norm(3, 4) / 2 = 2.5\n");
}

#[test]
fn unknown_functions_are_named() {
    let Output { status, stderr, .. } = run(&["no_such_function(1)"]);
    let complaint = String::from_utf8(stderr).expect("text");
    assert!(!status.success() && complaint.contains("no_such_function"), "{complaint}");
}
