//! Order inside of packages, read as text: the parts of a folder, which are its files and folders, import each other in no
//! circle. A package's own folder is one of these folders.
//!
//! `cargo test -p farcall-cli --test it -- inside:: --nocapture` prints the graph of each folder.
//!
//! Invariant: every package of the repository is read, and no folder is excepted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::house::tidy::{code_of, is_test, names_behind, sources};

/// Manifests that say which file is the root of a package by default.
const ROOTS: [&str; 2] = ["src/lib.rs", "src/main.rs"];

/// The imports among the parts of a folder.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn the_parts_of_every_folder_are_in_order() {
    let sources = sources();
    let roots = roots();
    let all = imports_by_folder(&roots, &sources);
    let mut complaints = Vec::new();
    for (folder, imports) in &all {
        let complaint = |circle| format!("{folder}: a circle of imports: {circle:?}");
        complaints.extend(circles(imports).into_iter().map(complaint));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    for (folder, imports) in &all {
        print!("{}", drawing(folder, imports));
    }
    let parts: usize = all.values().map(BTreeMap::len).sum();
    println!("order inside of {} packages: {} cases with {parts} parts", roots.len(), all.len());
}

/// The root files of all packages: libraries, programs, tests and benches, as their manifests say.
fn roots() -> BTreeSet<String> {
    let mut manifests = Vec::new();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = BTreeSet::from([String::new()]);
    let mut next: Vec<String> = folders.into_iter().collect();
    while let Some(folder) = next.pop() {
        for entry in fs::read_dir(top.join(&folder)).expect("a folder of the tree") {
            let entry = entry.expect("an entry of the tree");
            let name = entry.file_name().into_string().expect("a UTF-8 name");
            let path = format!("{folder}{name}");
            if entry.file_type().expect("a file type").is_dir() {
                if !name.starts_with('.') && name != "target" {
                    next.push(format!("{path}/"));
                }
            } else if name == "Cargo.toml" {
                manifests.push((folder.clone(), fs::read_to_string(entry.path()).expect("text")));
            }
        }
    }
    assert!(manifests.len() >= 10, "only {} manifests", manifests.len());
    let mut roots = BTreeSet::new();
    for (folder, manifest) in &manifests {
        let named = manifest.lines().filter_map(|line| line.strip_prefix("path = \""));
        let named = named.filter_map(|rest| rest.split('"').next());
        for file in named.chain(ROOTS).filter(|file| file.ends_with(".rs")) {
            let path = plain(&format!("{folder}{file}"));
            if top.join(&path).is_file() {
                roots.insert(path);
            }
        }
    }
    roots
}

/// A path without `..`.
fn plain(path: &str) -> String {
    let mut names = Vec::new();
    for name in path.split('/') {
        if name == ".." {
            names.pop();
        } else {
            names.push(name);
        }
    }
    names.join("/")
}

/// For each folder of a package: what its parts, files and folders, import of each other.
fn imports_by_folder(
    roots: &BTreeSet<String>,
    sources: &[(String, String)],
) -> BTreeMap<String, Imports> {
    let folders: BTreeSet<&str> =
        roots.iter().filter_map(|root| Some(root.rsplit_once('/')?.0)).collect();
    let mut all: BTreeMap<String, Imports> = BTreeMap::new();
    for (path, text) in sources {
        let inside =
            |folder: &&&str| path.strip_prefix(**folder).is_some_and(|rest| rest.starts_with('/'));
        // The innermost package has the file.
        let Some(root) = folders.iter().filter(inside).max_by_key(|folder| folder.len()) else {
            continue;
        };
        if is_test(path) || roots.contains(path) {
            continue;
        }
        // Tests at the end of a file may import what they like.
        let code = code_of(text);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let inside = path[root.len() + 1..].strip_suffix(".rs").unwrap_or_default();
        let names: Vec<&str> = inside.split('/').collect();
        let origins = origins(roots, root, sources);
        // The file as a part of each folder that it lies in.
        for depth in 0..names.len() {
            let part = names[depth];
            if part == "mod" {
                continue;
            }
            let folder = [&[*root], &names[..depth]].concat().join("/");
            let imports = all.entry(folder).or_default().entry(part.to_owned()).or_default();
            let above: String = names[..depth].iter().map(|name| format!("{name}::")).collect();
            let mut targets: Vec<&str> = names_behind(&format!("crate::{above}"), code)
                .iter()
                .map(|(_, name)| *name)
                .collect();
            if depth == 0 {
                // A name that the root offers stands for the part that it comes from.
                let origin = |target: &&str| origins.get(*target).map(String::as_str);
                targets = targets.iter().map(|target| origin(target).unwrap_or(target)).collect();
            }
            if depth + 1 == names.len() {
                targets.extend(names_behind("super::", code).iter().map(|(_, name)| *name));
            }
            imports.extend(targets.into_iter().filter(|target| *target != part).map(str::to_owned));
        }
    }
    for imports in all.values_mut() {
        let parts: BTreeSet<String> = imports.keys().cloned().collect();
        imports.values_mut().for_each(|targets| targets.retain(|target| parts.contains(target)));
    }
    all
}

/// The part of a package that each name which its root offers comes from, by the root's `pub use`.
fn origins(
    roots: &BTreeSet<String>,
    folder: &str,
    sources: &[(String, String)],
) -> BTreeMap<String, String> {
    let is_root = |path: &str| {
        roots.contains(path) && path.rsplit_once('/').is_some_and(|(at, _)| at == folder)
    };
    let mut origins = BTreeMap::new();
    for (_, text) in sources.iter().filter(|(path, _)| is_root(path)) {
        let code = code_of(text);
        for offered in code.split("pub use ").skip(1) {
            let offered = offered.split(';').next().unwrap_or_default();
            let Some((part, rest)) = offered.split_once("::") else { continue };
            let names = rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let names = names.filter(|name| !name.is_empty() && !name.ends_with("::"));
            let name = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
            origins.extend(names.map(|one| (name(one), part.to_owned())));
        }
    }
    origins
}

/// A folder's graph for readers: a line a part with what it imports, each part below what it imports where there is no circle.
fn drawing(folder: &str, imports: &Imports) -> String {
    let mut lines = format!("{folder}/\n");
    let mut left: Vec<&String> = imports.keys().collect();
    while !left.is_empty() {
        let is_next = |part: &&String| !left.iter().any(|other| imports[*part].contains(*other));
        // In a circle any part may come first.
        let next = left.iter().position(is_next).unwrap_or(0);
        let part = left.remove(next);
        let targets: Vec<&str> = imports[part].iter().map(String::as_str).collect();
        let arrow = if targets.is_empty() { "" } else { " -> " };
        lines.push_str(&format!("    {part}{arrow}{}\n", targets.join(", ")));
    }
    lines
}

/// The circles of a graph: each a set of parts that reach each other, in order of their names.
fn circles(imports: &Imports) -> BTreeSet<Vec<String>> {
    let reached = |from: &String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(part) = next.pop() {
            for target in &imports[part] {
                if seen.insert(target) {
                    next.push(target);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        imports.keys().map(|part| (part, reached(part))).collect();
    let circle = |part: &String| {
        let mutual = imports.keys().filter(|other| {
            *other == part || reached[part].contains(*other) && reached[*other].contains(part)
        });
        mutual.cloned().collect::<Vec<_>>()
    };
    imports.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn planted_circles_are_found() {
    let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let imports = |roots: &[&str], sources: &[(String, String)]| {
        let roots = roots.iter().map(|root| (*root).to_owned()).collect();
        imports_by_folder(&roots, sources)
    };
    let planted = [
        source("src/room/one.rs", "use super::two::Two;"),
        source("src/room/two.rs", "use crate::room::folder::inner::Inner;"),
        source("src/room/folder/inner.rs", "use crate::room::one::One; use super::other::Other;"),
        source("src/room/folder/other.rs", "use super::inner::Inner;"),
        source("src/room/apart.rs", "use super::one::One; // super::apart"),
        source("src/room/mod.rs", "mod one; mod two; mod folder; mod apart;"),
        source("src/room/tests.rs", "use super::apart;"),
    ];
    let all = imports(&["src/lib.rs"], &planted);
    let names = |names: [&str; 3]| names.map(str::to_owned).to_vec();
    assert_eq!(circles(&all["src/room"]), BTreeSet::from([names(["folder", "one", "two"])]));
    let inner = ["inner".to_owned(), "other".to_owned()].to_vec();
    assert_eq!(circles(&all["src/room/folder"]), BTreeSet::from([inner]));
    assert_eq!(
        drawing("src/room", &all["src/room"]),
        "src/room/\n    apart -> one\n    folder -> one\n    two -> folder\n    one -> two\n"
    );
    let line =
        [source("src/room/top.rs", "use super::base::Base;"), source("src/room/base.rs", "")];
    assert_eq!(
        drawing("src/room", &imports(&["src/lib.rs"], &line)["src/room"]),
        "src/room/\n    base\n    top -> base\n"
    );
    // A package of its own inside of another, and names that its root offers.
    let package = [
        source("src/room/package/mod.rs", "mod one; mod two; pub use two::{Two, inner::Three};"),
        source("src/room/package/one.rs", "use crate::Three;"),
        source("src/room/package/two.rs", "use crate::{Two, one::One};"),
        source("src/room/base.rs", "use crate::one::One;"),
    ];
    let all = imports(&["src/lib.rs", "src/room/package/mod.rs"], &package);
    let both = ["one".to_owned(), "two".to_owned()].to_vec();
    assert_eq!(circles(&all["src/room/package"]), BTreeSet::from([both]));
    assert_eq!(all["src/room"].keys().collect::<Vec<_>>(), ["base"]);
}

#[test]
fn roots_of_packages_are_found_in_manifests() {
    let roots = roots();
    for root in [
        "src/lib.rs",
        "src/ffi/mod.rs",
        "bench/src/lib.rs",
        "fuzzer/src/main.rs",
        "tests/it/main.rs",
    ] {
        assert!(roots.contains(root), "{root} is not in {roots:?}");
    }
    assert_eq!(plain("tools/../tests/it/main.rs"), "tests/it/main.rs");
}
