//! Where the C sources of the crates in the corpus lie on this machine.
//!
//! The crates are dependencies for a platform that does not exist: cargo locks, downloads and lists
//! them, and builds none of them.
//!
//! Invariant: the versions are those of the lock file.

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
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        command.args(["metadata", "--format-version=1", "--locked"]);
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "run `cargo fetch` once while online: {complaint}");
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
    })
}
