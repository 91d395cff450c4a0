//! The folders under `src`: how many files each has, and which folder of a room imports which.
//!
//! Invariant: every checker is a function of paths and a text, and is shown planted violations.

use std::collections::BTreeMap;

use super::{PACKAGES, ROOMS, code_of, is_test, names_behind, room_of};

/// The most files of a folder, without the files of folders inside it.
const FILES_MAX: usize = 12;

/// The folders that still have more files than [`FILES_MAX`], and how many. Numbers here only fall; a folder that has come
/// down to the maximum leaves the list.
const FULL: &[(&str, usize)] = &[];

/// The folders of rooms, in their order: each may import only those before it. The files beside the folders may import all.
const ORDERS: &[(&str, &[&str])] = &[
    // Its examples are programs, which see what users see.
    ("link", &["arch", "read", "build", "graph", "place", "apply", "output", "verify", "examples"]),
    (
        "executor",
        &[
            "log",
            "entry",
            "memory",
            "process",
            "interrupt",
            "tls",
            "context",
            "reset",
            "services",
            "remote",
            "session",
        ],
    ),
];

/// Folders with too many files, and rows of `full` that say a wrong number.
pub(super) fn fullness<'a>(
    paths: impl Iterator<Item = &'a str>,
    full: &[(&str, usize)],
) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (folder, _) in paths.filter_map(|path| path.rsplit_once('/')) {
        if folder == "src" || folder.starts_with("src/") {
            *counts.entry(folder).or_default() += 1;
        }
    }
    let mut complaints = Vec::new();
    for (folder, limit) in full {
        let files = counts.remove(folder).unwrap_or_default();
        if files > *limit {
            complaints.push(format!("{folder}: {files} files, at most {limit}"));
        } else if files <= FILES_MAX {
            complaints.push(format!("{folder}: only {files} files; its row in FULL goes away"));
        } else if files < *limit {
            complaints.push(format!("{folder}: only {files} files; so its row in FULL says"));
        }
    }
    for (folder, files) in counts {
        if files > FILES_MAX {
            complaints.push(format!("{folder}: {files} files, at most {FILES_MAX}"));
        }
    }
    complaints
}

/// As [`fullness`], with the list of this tree.
pub(super) fn too_full<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    fullness(paths, FULL)
}

/// Imports of a folder that its room's order does not allow. Tests may import all.
pub(super) fn order(path: &str, code: &str) -> Vec<String> {
    let Some((room, folders)) =
        ORDERS.iter().find(|(room, _)| room_of(path) == Some(*room) && !is_test(path))
    else {
        return Vec::new();
    };
    let inside = path.strip_prefix(&format!("src/{room}/")).unwrap_or_default();
    let Some((folder, file)) = inside.split_once('/') else { return Vec::new() };
    let Some(row) = folders.iter().position(|name| *name == folder) else {
        return vec![format!(
            "{path}: folder {folder} has no row in tests/it/house/tidy/folders.rs"
        )];
    };
    let mut complaints = Vec::new();
    let is_package = PACKAGES.contains(room);
    // A package has the names of the ground beside its own.
    let is_room = |name: &str| is_package && ROOMS.iter().any(|(room, _)| *room == name);
    let prefix = if is_package { "crate::".to_owned() } else { format!("crate::{room}::") };
    for (line, name) in names_behind(&prefix, code) {
        if !folders[..=row].contains(&name) && !is_room(name) {
            complaints.push(format!("{path}:{line}: {folder} may not import {name} of {room}"));
        }
    }
    // Ways to the room's names that the prefix does not show.
    let written = [prefix.clone(), format!("in crate::{room})")];
    for (line, text) in (1..).zip(code.lines()) {
        if text.contains(&format!("{prefix}*")) {
            complaints.push(format!("{path}:{line}: {prefix}*: name the folder"));
        }
    }
    for (line, name) in names_behind("crate::", code) {
        let text = code.lines().nth(line - 1).unwrap_or_default();
        if name == *room && !written.iter().any(|way| text.contains(way)) {
            complaints.push(format!("{path}:{line}: {room} in a group: say {prefix}"));
        }
    }
    for (line, name) in names_behind("super::", code) {
        if file == "mod.rs" && name != folder && folders.contains(&name) {
            complaints.push(format!("{path}:{line}: super::{name}: say {prefix}{name}"));
        }
    }
    complaints
}

#[test]
fn folders_of_rooms_exist() {
    let sources = super::sources();
    for (room, folders) in ORDERS {
        for folder in *folders {
            let start = format!("src/{room}/{folder}/");
            assert!(sources.iter().any(|(path, _)| path.starts_with(&start)), "no folder {start}");
        }
    }
}

#[test]
fn planted_crowds_are_found() {
    let found = |files: usize, row: Option<usize>| {
        let paths: Vec<String> = (0..files).map(|file| format!("src/wire/{file}.rs")).collect();
        let row: Vec<(&str, usize)> = row.map(|limit| ("src/wire", limit)).into_iter().collect();
        fullness(paths.iter().map(String::as_str), &row).len()
    };
    assert_eq!(found(FILES_MAX, None), 0);
    assert_eq!(found(FILES_MAX + 1, None), 1);
    assert_eq!(found(FILES_MAX + 2, Some(FILES_MAX + 2)), 0);
    assert_eq!(found(FILES_MAX + 3, Some(FILES_MAX + 2)), 1, "it grew");
    assert_eq!(found(FILES_MAX + 1, Some(FILES_MAX + 2)), 1, "it shrank, and the row did not");
    assert_eq!(found(FILES_MAX, Some(FILES_MAX + 2)), 1, "a row that is not needed");
    assert_eq!(found(0, Some(FILES_MAX + 2)), 1, "a row without a folder");
    // Folders do not count the files of those inside them, and other trees do not count.
    let paths = (0..=FILES_MAX).map(|file| match file % 2 {
        0 => format!("src/wire/{file}.rs"),
        _ => format!("src/wire/frame/{file}.rs"),
    });
    let paths: Vec<String> = paths.collect();
    assert!(fullness(paths.iter().map(String::as_str), &[]).is_empty());
    let paths: Vec<String> = (0..=FILES_MAX).map(|file| format!("tests/it/{file}.rs")).collect();
    assert!(fullness(paths.iter().map(String::as_str), &[]).is_empty());
}

#[test]
fn planted_orders_are_found() {
    let found = |path, text: &str| order(path, &code_of(text));
    for (path, planted, line) in [
        ("src/link/read/archive.rs", "\nuse crate::graph::link_graph::LinkGraph;", 2),
        ("src/link/read/elf/mod.rs", "fn f() { crate::verify::g() }", 1),
        ("src/link/place/block.rs", "use crate::{\n    read::parsed,\n    output::image,\n};", 3),
        // A name that the room offers to others stands for any folder.
        ("src/link/place/block.rs", "use crate::Image;", 1),
        ("src/link/place/block.rs", "use crate::passes;", 1),
        ("src/link/place/block.rs", "use crate::*;", 1),
        ("src/link/place/block.rs", "use crate::{output::image, addr};", 1),
        ("src/executor/tls/library.rs", "use crate::executor::session::lanes;", 1),
        ("src/executor/tls/library.rs", "use crate::{executor::session::lanes, addr};", 1),
        ("src/link/place/mod.rs", "use super::output::image;", 1),
        ("src/link/attic/mod.rs", "", 0),
    ] {
        let complaints = found(path, planted);
        assert_eq!(complaints.len(), 1, "{path}: {planted}: {complaints:?}");
        let start = if line == 0 { format!("{path}: ") } else { format!("{path}:{line}: ") };
        assert!(complaints[0].starts_with(&start), "{complaints:?}");
    }
    for (path, fine) in [
        ("src/link/place/block.rs", "use crate::read::parsed::Role;\nuse super::layout;"),
        ("src/link/place/block.rs", "use crate::place::layout;"),
        ("src/link/place/block.rs", "pub(crate) struct Block { pub(crate) at: u64 }"),
        ("src/link/place/block.rs", "/// See [`Image`](crate::Image).\nuse crate::addr::Prot;"),
        ("src/link/place/mod.rs", "pub(super) mod output;"),
        ("src/link/mod.rs", "pub use output::image::Image;"),
        ("src/link/passes.rs", "use super::verify::verify;"),
        ("src/link/tests/read/damage.rs", "use crate::verify::verify;"),
        ("src/controller/dylib.rs", "use crate::Image;"),
    ] {
        assert_eq!(found(path, fine), [] as [String; 0], "{path}: {fine}");
    }
}
