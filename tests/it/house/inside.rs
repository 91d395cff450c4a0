//! Order inside of rooms, read as text: no circle of imports among the parts of a room or the files of a folder.
//!
//! `cargo test -p farcall-cli --test it -- inside:: --nocapture` prints the graph of each folder.
//!
//! Invariant: what is not in order yet is listed here by name. A list can only become shorter: the test fails as well when
//! something listed is in order.

use std::collections::{BTreeMap, BTreeSet};

use crate::house::tidy::{code_of, is_test, names_behind, sources};

/// Parts of a room that import each other.
const CIRCLES: &[(&str, &[&str])] = &[
    ("shm", &["named", "segment"]),
    ("jit", &["dylib", "lookup", "materialization", "session", "state"]),
    ("jit/materialization", &["responsibility", "unit"]),
];

/// What the parts of a folder import of each other.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn rooms_are_in_order_inside() {
    let sources = sources();
    let mut complaints = Vec::new();
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
    for (folder, imports) in &imports_by_folder(&sources) {
        print!("{}", drawing(folder, imports));
    }
    println!(
        "order inside of rooms: {folders} cases with {parts} parts, {} circles known",
        known.len()
    );
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

/// A folder's graph for readers: a line a part with what it imports, each part below what it imports where there is no circle.
fn drawing(folder: &str, imports: &Imports) -> String {
    let mut lines = format!("src/{folder}/\n");
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
    assert_eq!(
        drawing("room", &all["room"]),
        "src/room/\n    apart -> one\n    folder -> one\n    two -> folder\n    one -> two\n"
    );
    let line =
        [source("src/room/top.rs", "use super::base::Base;"), source("src/room/base.rs", "")];
    assert_eq!(
        drawing("room", &imports_by_folder(&line)["room"]),
        "src/room/\n    base\n    top -> base\n"
    );
}
