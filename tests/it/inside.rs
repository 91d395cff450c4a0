//! Order inside of rooms, read as text: no circle of imports among the parts of a room or the files of a folder, and few
//! files in a folder.
//!
//! Invariant: what is not in order yet is listed here by name. A list can only become shorter: the test fails as well when
//! something listed is in order.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{code_of, is_test, names_behind, sources};

/// Files in a folder, at most.
const FILES_MAX: usize = 12;

/// Folders that have more, with how many.
const LARGE: &[(&str, usize)] = &[
    ("src/jit", 15),
    ("src/link", 31),
    ("src/session", 14),
    ("src/sys", 22),
    ("src/transport", 23),
];

/// Parts of a room that import each other.
const CIRCLES: &[(&str, &[&str])] = &[
    ("shm", &["named", "segment"]),
    ("link", &["addresses", "layout", "symbol_table"]),
    ("link", &["check", "graph", "provided"]),
    ("link", &["elf", "object_file"]),
    ("link/verify", &["arrays", "fields", "names", "threads", "windows"]),
    (
        "jit",
        &[
            "dylib",
            "emission",
            "generator",
            "lookup",
            "query",
            "reexports",
            "responsibility",
            "session",
            "state",
            "tracker",
            "unit",
        ],
    ),
    ("call/pipeline", &["caller", "sender"]),
];

/// What the parts of a folder import of each other.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn rooms_are_in_order_inside() {
    let sources = sources();
    let mut complaints = large_folders(&sources);
    let mut found = BTreeSet::new();
    let (mut folders, mut parts) = (0, 0);
    for (folder, imports) in imports_by_folder(&sources) {
        folders += 1;
        parts += imports.len();
        for circle in circles(&imports) {
            found.insert((folder.clone(), circle));
        }
    }
    let known: BTreeSet<(String, Vec<String>)> = CIRCLES
        .iter()
        .map(|(folder, parts)| {
            ((*folder).to_owned(), parts.iter().map(|part| (*part).to_owned()).collect())
        })
        .collect();
    for (folder, circle) in found.difference(&known) {
        complaints.push(format!("{folder}: a circle of imports: {circle:?}"));
    }
    for (folder, circle) in known.difference(&found) {
        complaints
            .push(format!("{folder}: no such circle any more, take it off the list: {circle:?}"));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    println!(
        "order inside of rooms: {folders} cases with {parts} parts, {} circles known",
        known.len()
    );
}

/// Folders of the library with more files than may be.
fn large_folders(sources: &[(String, String)]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, _) in sources.iter().filter(|(path, _)| path.starts_with("src/") && !is_test(path)) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            *counts.entry(folder).or_default() += 1;
        }
    }
    let limit = |folder: &str| {
        let known = LARGE.iter().find(|(name, _)| *name == folder);
        known.map_or(FILES_MAX, |(_, files)| *files)
    };
    let mut complaints = Vec::new();
    for (folder, count) in &counts {
        let limit = limit(folder);
        if *count > limit || *count < limit && limit > FILES_MAX {
            complaints.push(format!("{folder}: {count} files, the list says {limit}"));
        }
    }
    for (folder, files) in LARGE {
        if *files <= FILES_MAX || !counts.contains_key(*folder) {
            complaints.push(format!("{folder}: not large, take it off the list"));
        }
    }
    complaints
}

/// For each folder of the library what its parts, files and folders, import of each other.
fn imports_by_folder(sources: &[(String, String)]) -> BTreeMap<String, Imports> {
    let mut all: BTreeMap<String, Imports> = BTreeMap::new();
    for (path, text) in sources {
        let Some(inside) = path.strip_prefix("src/").and_then(|path| path.strip_suffix(".rs"))
        else {
            continue;
        };
        if is_test(path) || path.starts_with("src/ffi/") {
            continue;
        }
        // Tests at the end of a file may import what they like.
        let code = code_of(text);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let names: Vec<&str> = inside.split('/').collect();
        // The file as a part of each folder that it lies in.
        for depth in 1..names.len() {
            let (folder, part) = (names[..depth].join("/"), names[depth]);
            if part == "mod" {
                continue;
            }
            let imports =
                all.entry(folder.clone()).or_default().entry(part.to_owned()).or_default();
            let absolute = format!("crate::{}::", names[..depth].join("::"));
            let mut targets: Vec<&str> =
                names_behind(&absolute, code).iter().map(|(_, name)| *name).collect();
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
fn planted_circles_and_folders_are_found() {
    let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let planted = [
        source("src/room/one.rs", "use super::two::Two;"),
        source("src/room/two.rs", "use crate::room::folder::inner::Inner;"),
        source("src/room/folder/inner.rs", "use crate::room::one::One; use super::other::Other;"),
        source("src/room/folder/other.rs", "use super::inner::Inner;"),
        source("src/room/apart.rs", "use super::one::One; // super::apart"),
        source("src/room/mod.rs", "mod one; mod two; mod folder; mod apart;"),
        source("src/room/tests.rs", "use super::apart;"),
    ];
    let all = imports_by_folder(&planted);
    let names = |names: [&str; 3]| names.map(str::to_owned).to_vec();
    assert_eq!(circles(&all["room"]), BTreeSet::from([names(["folder", "one", "two"])]));
    let inner = ["inner".to_owned(), "other".to_owned()].to_vec();
    assert_eq!(circles(&all["room/folder"]), BTreeSet::from([inner]));
    let many: Vec<_> =
        (0..=FILES_MAX).map(|at| source(&format!("src/room/f{at}.rs"), "")).collect();
    assert_eq!(large_folders(&many[1..]).len(), large_folders(&[]).len());
    assert_eq!(large_folders(&many).len(), large_folders(&[]).len() + 1);
}
