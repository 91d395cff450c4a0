//! The ABI changes on purpose only: the shared library exports what `src/ffi/symbols.txt` lists. The package has every header.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::controller::declared;
use super::{built, root};

const LIST: &str = "src/ffi/symbols.txt";

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names that a shared library defines for others.
fn exported(library: &PathBuf) -> Vec<String> {
    let mut nm = Command::new("nm");
    let output = nm.args(["-D", "--defined-only", "-f", "posix"]).arg(library).output();
    let output = output.expect("nm, which comes with gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names");
    let mut names: Vec<String> =
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn the_library_exports_what_the_list_says() {
    let exported = exported(&built("so"));
    let path = root().join(LIST);
    if std::env::var_os("SYMBOLS_REWRITE").is_some() {
        std::fs::write(&path, exported.join("\n") + "\n").expect("a writable tree");
    }
    let committed = std::fs::read_to_string(&path).expect("the committed list");
    let listed: Vec<&str> = committed.lines().collect();
    assert!(exported == listed, "SYMBOLS_REWRITE=1 writes {LIST} anew:\n{exported:#?}");
    // It is what the header declares.
    assert!(declared().iter().eq(&exported), "{:?}", declared());
    println!("the ABI: {} symbols", exported.len());
}

#[test]
fn the_cmake_package_has_the_version_of_the_crate() {
    let path = root().join("src/ffi/cmake/farcall-config-version.cmake");
    let text = std::fs::read_to_string(path).expect("the file");
    let version = env!("CARGO_PKG_VERSION");
    assert!(text.contains(&format!("set(PACKAGE_VERSION \"{version}\")")), "{text}");
}

/// P1. A newer one wants a newer Rust than the tests do.
#[test]
fn the_guide_pins_the_version_of_cargo_c_that_is_tested() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).expect("a file of the tree");
    let script = read(".ci/cinstall");
    let version = script.lines().find_map(|line| line.strip_prefix("cargo_c="));
    let line = format!("cargo install cargo-c --version {} --locked", version.expect("a version"));
    assert!(
        read("src/docs/guide/languages.md").lines().any(|it| it == line),
        "the guide has no line: {line}"
    );
}

#[test]
fn the_package_installs_each_header() {
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).expect("the manifest");
    let mut headers = 0;
    for at in ["", "farcall", "farcall/llvm"] {
        for entry in folder().join(at).read_dir().expect("a folder").flatten() {
            let name = entry.file_name().into_string().expect("a name in UTF-8");
            if name.ends_with(".h") || name.ends_with(".hpp") {
                let from = Path::new(at).join(&name);
                let asset = format!("{{ from = \"{}\", to = \"{at}\" }},", from.display());
                assert!(manifest.contains(&asset), "Cargo.toml has no {asset}");
                headers += 1;
            }
        }
    }
    assert!(headers > 10, "{headers} headers");
}
