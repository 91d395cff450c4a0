//! Where the C sources of the crates in the corpus lie on this machine.
//!
//! The crates are dependencies for a platform that does not exist: cargo locks, downloads and lists
//! them, and builds none of them.
//!
//! Invariant: the versions come from the lock file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of a crate's sources, downloaded first if it is not on this machine yet.
pub(crate) fn folder(name: &str) -> PathBuf {
    let packages = metadata()["packages"].as_array().expect("cargo metadata lists packages");
    let package = packages.iter().find(|package| package["name"] == name);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.unwrap_or_else(|| panic!("{name} is a dependency in tools/Cargo.toml"));
    Path::new(manifest).parent().expect("a manifest lies in a folder").to_path_buf()
}

/// The `.c` files of a folder, sorted.
pub(crate) fn c_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "c"));
    files.sort();
    assert!(!files.is_empty(), "{} holds C sources", folder.display());
    files
}

fn metadata() -> &'static serde_json::Value {
    static METADATA: OnceLock<serde_json::Value> = OnceLock::new();
    METADATA.get_or_init(|| {
        let printed = cargo(&["metadata", "--format-version=1", "--locked"]);
        serde_json::from_str(&printed).expect("cargo metadata prints JSON")
    })
}

/// The output of a command of cargo.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "run `cargo fetch` once while online: {complaint}");
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// The published crates, and the least number of crates that each is built with.
const PUBLISHED: [(&str, usize); 10] = [
    ("farcall", 11),
    ("farcall-base", 1),
    ("farcall-bench", 11),
    ("farcall-bind", 11),
    ("farcall-cli", 11),
    ("farcall-cranelift", 11),
    ("farcall-ffi", 11),
    ("farcall-link", 6),
    ("farcall-macros", 3),
    ("farcall-orc", 2),
];

/// The most crates that the linker alone is built with, itself included.
const LINKER_CRATES_MAX: usize = 12;

/// Every crate that a published one is built with builds with the oldest Rust that this one promises, each by its own word. Clippy's
/// `incompatible_msrv` refuses newer parts of the standard library.
#[test]
fn no_dependency_needs_a_newer_rust() {
    for (name, least) in PUBLISHED {
        let promised = version(own(name)["rust_version"].as_str().expect("a rust-version"));
        let built_with = built_with(own(name)["id"].as_str().expect("an id"));
        let needed = |package: &&serde_json::Value| package["rust_version"].as_str().map(version);
        let newer = built_with.iter().filter(|one| needed(one) > Some(promised.clone()));
        let newer: Vec<_> = newer.map(|one| (&one["name"], needed(one))).collect();
        assert!(newer.is_empty(), "{name}: newer than {promised:?}: {newer:?}");
        let count = built_with.len();
        assert!(count >= least, "{name}: only {count} crates");
    }
}

/// Programs that link files and start no process need nothing of what farcall's calls need.
#[test]
fn the_linker_alone_needs_few_crates_and_no_system_calls() {
    // With the features that this package asks for, not all members of the workspace.
    let printed = cargo(&[
        "tree",
        "--locked",
        "--package=farcall-link",
        "--edges=normal",
        "--prefix=none",
        "--format={p}",
    ]);
    let crates: BTreeSet<_> = printed.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    assert!((6..=LINKER_CRATES_MAX).contains(&crates.len()), "{crates:?}");
    for other in ["farcall", "landlock", "libc", "memmap2", "nix", "rustix", "seccompiler"] {
        let is_other = |one: &&str| one.split(' ').next() == Some(other);
        assert!(!crates.iter().any(is_other), "{other} in {crates:?}");
    }
}

/// The packages that one is built with, itself included.
fn built_with(id: &str) -> Vec<&'static serde_json::Value> {
    let nodes = metadata()["resolve"]["nodes"].as_array().expect("a graph");
    let mut reached = vec![id];
    let mut at = 0;
    while let Some(id) = reached.get(at).copied() {
        at += 1;
        let node = nodes.iter().find(|node| node["id"] == id).expect("a node");
        for dependency in node["deps"].as_array().expect("dependencies") {
            let mut kinds = dependency["dep_kinds"].as_array().expect("kinds").iter();
            // For model checkers or never.
            let is_built = |target: &str| {
                !target.contains("loom") && !target.contains("shuttle") && target != "cfg(any())"
            };
            let is_normal = kinds
                .any(|kind| kind["kind"].is_null() && kind["target"].as_str().is_none_or(is_built));
            let id = dependency["pkg"].as_str().expect("an id");
            if is_normal && !reached.contains(&id) {
                reached.push(id);
            }
        }
    }
    packages().iter().filter(|package| reached.iter().any(|id| package["id"] == *id)).collect()
}

#[test]
fn published_crates_say_what_they_are() {
    for (name, ..) in PUBLISHED {
        let package = own(name);
        for field in ["description", "license", "readme", "rust_version"] {
            assert!(package[field].is_string(), "{name} has no {field}");
        }
        for field in ["keywords", "categories"] {
            let count = package[field].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{name} has {count} {field}");
        }
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let is_own = dependency["path"].is_string() && dependency["kind"].is_null();
            assert!(
                !is_own || dependency["req"] != "*",
                "{name}: {} has no version",
                dependency["name"]
            );
        }
    }
}

fn packages() -> &'static [serde_json::Value] {
    metadata()["packages"].as_array().expect("cargo metadata lists packages")
}

/// A package of this tree.
fn own(name: &str) -> &'static serde_json::Value {
    let own = |package: &&serde_json::Value| package["name"] == name && package["source"].is_null();
    packages().iter().find(own).unwrap_or_else(|| panic!("no package {name}"))
}

fn version(text: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        text.split('.').map(|part| part.parse().expect("a number")).collect();
    numbers.resize(3, 0);
    numbers
}
