//! Tidiness of the source tree, read as text: which room imports which, where atomics and `unsafe` are named, and the shape of
//! files. `folders` has the shape of folders, `prose` the words and sentences.
//!
//! Invariant: every checker is a function of a path and a text, and is shown planted violations.

mod folders;
mod prose;

use std::fs;
use std::path::Path;

/// The rooms bottom-up, as `src/docs/architecture.md` lists them, and what each may import besides [`GROUND`].
const ROOMS: &[(&str, &[&str])] = &[
    // Its messages name signals.
    ("error", &[]),
    ("addr", &[]),
    ("limits", &[]),
    ("deadline", &[]),
    ("random", &[]),
    ("trace", &[]),
    ("sync", &[]),
    ("origin", &["sync"]),
    ("thread", &[]),
    ("sys", &["sync"]),
    ("concurrent", &["sys", "sync"]),
    ("shm", &["sys", "sync"]),
    ("ring", &["sync"]),
    ("sleep", &["sync"]),
    ("task", &["thread", "sync"]),
    ("wire", &["ring"]),
    ("sps", &[]),
    // C types and calling conventions.
    ("types", &[]),
    ("transport", &["wire", "sleep", "ring", "shm", "sys", "sync"]),
    ("call", &["transport", "wire", "sps", "types", "sleep", "sys", "sync"]),
    // It has connectors by the texts of connections.
    ("session", &["transport", "task", "sync"]),
    (
        "executor",
        &["session", "call", "transport", "wire", "sps", "types", "task", "shm", "sys", "sync"],
    ),
    ("parallel", &["sync"]),
    ("link", &["parallel", "types", "sync"]),
    ("jit", &["task", "sync"]),
    (
        "controller",
        &[
            "call",
            "transport",
            "wire",
            "sps",
            "types",
            "task",
            "parallel",
            "link",
            "jit",
            "shm",
            "concurrent",
            "sys",
            "sync",
        ],
    ),
    // Joins the two sides, which know nothing of each other.
    ("in_process", &["controller", "executor", "types"]),
    // Both sides again: the program is its own executor.
    ("isolate", &["controller", "executor", "call", "types", "sys", "sync"]),
    // Functions of a library, in an executor that begins as one of isolated functions.
    ("bind", &["isolate", "controller", "call", "transport", "link", "sps", "sync"]),
    ("internals", &["controller", "executor", "link", "transport", "wire", "ring", "sync"]),
    // Packages of their own: one knows the library's front doors only, the other runs in the compiler.
    ("ffi", &[]),
    ("macros", &[]),
];

/// Folders of `src` that are packages, whose files say `crate::` to the package: packages of rooms, and rooms of their own.
const PACKAGES_OF_ROOMS: &[&str] = &["base", "orc"];
const PACKAGES: &[&str] = &["link", "ffi", "macros"];

/// Rooms that every room may import.
const GROUND: &[&str] = &["error", "addr", "limits", "deadline", "origin", "random", "trace"];

/// Rooms with a fence: only these folders and files of theirs, and tests, may have unsafe code.
const FENCES: &[(&str, &[&str])] = &[(
    "executor",
    // The last one has a public function whose caller must vouch for another, and no unsafe block.
    &["entry/", "interrupt/", "memory/", "process/", "reset/", "tls/", "session/with_session.rs"],
)];

/// Directories whose Rust files are looked at.
const TREES: &[&str] = &[
    "src",
    "tests",
    "tools",
    "bench",
    "bind",
    "cranelift",
    "python",
    "examples",
    "fuzz",
    "fuzzer",
];

const LINES_MAX: usize = 600;
/// The files that still have more lines than [`LINES_MAX`], and how many at most. Numbers here only fall; a file that has come
/// down to the maximum leaves the list.
const LONG: &[(&str, usize)] = &[];
/// rustfmt holds code to less; this is for comments.
const COLUMNS_MAX: usize = 140;
/// In a test's name.
const TEST_LETTERS_MAX: usize = 60;

/// Words that no finished source has; put together here so that this file has none either.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
    concat!("FIX", "ME"),
];

/// The Rust files of the source tree, by their paths, without files that a command has written.
pub(crate) fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sources = Vec::new();
    for tree in TREES {
        collect(&root, tree, &mut sources);
    }
    assert!(sources.len() > 80, "only {} files were found", sources.len());
    sources
}

#[test]
fn the_source_tree_is_tidy() {
    let sources = sources();
    for (room, _) in ROOMS {
        let is_door = |(path, _): &(String, String)| is_door(path, room);
        assert!(sources.iter().any(is_door), "no room {room}");
    }
    let mut complaints = Vec::new();
    for (path, text) in &sources {
        let code = code_of(text);
        let unsafe_room = room_of(path).is_some_and(|room| {
            let allows = |path: &str, text| is_door(path, room) && allows_unsafe(&code_of(text));
            path.starts_with(&format!("src/{room}/"))
                && sources.iter().any(|(path, text)| allows(path, text))
        });
        complaints.extend(imports(path, &code));
        complaints.extend(atomics(path, &code));
        complaints.extend(unsafe_words(path, &code, unsafe_room));
        complaints.extend(shape(path, text));
        complaints.extend(folders::order(path, &code));
    }
    complaints.extend(folders::too_full(sources.iter().map(|(path, _)| path.as_str())));
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    println!("tidy: {} cases", sources.len());
}

/// Adds the Rust files under `directory`, by their paths from `root`.
fn collect(root: &Path, directory: &str, sources: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(root.join(directory)).expect("a directory of the source tree") {
        let entry = entry.expect("an entry of the source tree");
        let path = format!("{directory}/{}", entry.file_name().to_str().expect("a UTF-8 name"));
        if path.ends_with("/target") {
            continue; // what a build has made
        }
        if entry.file_type().expect("a file type").is_dir() {
            collect(root, &path, sources);
        } else if path.ends_with(".rs") {
            let text = fs::read_to_string(entry.path()).expect("a readable UTF-8 file");
            if !text.starts_with("// @generated") {
                sources.push((path, text));
            }
        }
    }
}

/// Imports of rooms that the table does not allow. The tests of a room may import every room below it.
fn imports(path: &str, code: &str) -> Vec<String> {
    let Some(room) = room_of(path) else { return Vec::new() };
    let Some(row) = ROOMS.iter().position(|(name, _)| *name == room) else {
        return vec![format!(
            "{path}: room {room} has no row in the table of tests/it/house/tidy.rs"
        )];
    };
    let below: Vec<&str> = ROOMS[..row].iter().map(|(name, _)| *name).collect();
    let allowed = if is_test(path) { &below } else { ROOMS[row].1 };
    // The names of a room that is a package: `folders` checks them, and the compiler knows what is above.
    let is_own = |name| PACKAGES.contains(&room) && !ROOMS.iter().any(|(other, _)| *other == name);
    let mut complaints = Vec::new();
    for (line, name) in names_behind("crate::", code) {
        let is_type = name.starts_with(|first: char| first.is_ascii_uppercase());
        if !is_type
            && !is_own(name)
            && name != room
            && !GROUND.contains(&name)
            && !allowed.contains(&name)
        {
            complaints.push(format!("{path}:{line}: {room} may not import {name}"));
        }
    }
    // Other ways to the rooms; `super` is the crate in a room's first file only.
    let is_door = is_door(path, room);
    for (line, name) in names_behind("super::", code) {
        if name == "super" || is_door && ROOMS.iter().any(|(other, _)| *other == name) {
            complaints.push(format!("{path}:{line}: super::{name}: say crate::"));
        }
    }
    complaints
}

/// Atomics that do not come through `sync`. Tests beside the code of a room may count as they like.
fn atomics(path: &str, code: &str) -> Vec<String> {
    if !path.starts_with("src/") || room_of(path) == Some("sync") || is_test(path) {
        return Vec::new();
    }
    let lines = (1..).zip(code.lines()).filter(|(_, line)| line.contains("atomic::"));
    lines.map(|(line, _)| format!("{path}:{line}: atomics come from crate::sync")).collect()
}

/// The word `unsafe` in a file that does not open with the permission, nor does its room. Programs that tests
/// link are not ours.
fn unsafe_words(path: &str, code: &str, unsafe_room: bool) -> Vec<String> {
    let fence = FENCES.iter().find(|(room, _)| room_of(path) == Some(*room) && !is_test(path));
    let is_outside = fence.is_some_and(|(room, inside)| {
        !inside.iter().any(|part| path.starts_with(&format!("src/{room}/{part}")))
    });
    let is_allowed = unsafe_room || allows_unsafe(code) || path.starts_with("tests/sources/");
    if is_allowed && !is_outside {
        return Vec::new();
    }
    let lines = (1..).zip(code.lines()).filter(|(_, line)| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
    });
    let why = match is_outside {
        true => "unsafe outside of the folders that its room has for it",
        false => "unsafe, but the file does not allow it",
    };
    lines.map(|(line, _)| format!("{path}:{line}: {why}")).collect()
}

fn shape(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut is_test = false;
    if !text.starts_with("//! ") {
        complaints.push(format!("{path}:1: no //! that says what the file is"));
    }
    let lines = text.lines().count();
    let long = LONG.iter().find(|(long, _)| *long == path).map(|(_, lines)| *lines);
    let lines_max = long.unwrap_or(LINES_MAX);
    if lines > lines_max {
        complaints.push(format!("{path}: {lines} lines, at most {lines_max}"));
    } else if long.is_some() && lines <= LINES_MAX {
        complaints.push(format!("{path}: only {lines} lines; its row in LONG goes away"));
    }
    for (at, line) in (1..).zip(text.lines()) {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            complaints.push(format!("{path}:{at}: {columns} columns, at most {COLUMNS_MAX}"));
        }
        for word in UNFINISHED.iter().filter(|word| line.contains(**word)) {
            complaints.push(format!("{path}:{at}: {word}"));
        }
        let function =
            line.trim_start().strip_prefix("fn ").and_then(|rest| rest.split('(').next());
        if let Some(name) = function.filter(|name| is_test && name.len() > TEST_LETTERS_MAX) {
            let letters = name.len();
            complaints.push(format!("{path}:{at}: {letters} letters, at most {TEST_LETTERS_MAX}"));
        }
        is_test = line.trim_start().starts_with("#[test]") || is_test && function.is_none();
    }
    complaints
}

/// The room that a file belongs to; none for a package's root and for files outside the library.
fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    let in_package =
        inside.split_once('/').filter(|(folder, _)| PACKAGES_OF_ROOMS.contains(folder));
    let inside = in_package.map_or(inside, |(_, inside)| inside);
    let room = inside.split(['/', '.']).next()?;
    (room != "lib" && room != "mod").then_some(room)
}

/// True for the first file of a room.
fn is_door(path: &str, room: &str) -> bool {
    let inside = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs"));
    room_of(path) == Some(room) && inside.and_then(|inside| inside.rsplit('/').next()) == Some(room)
}

pub(crate) fn is_test(path: &str) -> bool {
    let names =
        ["/tests.rs", "/model.rs", "/loom.rs", "/shuttle.rs", "/soak.rs", "/outcome_counters.rs"];
    path.contains("/tests/") || names.iter().any(|name| path.ends_with(name))
}

/// True when the attributes at the top of a file allow unsafe code.
fn allows_unsafe(code: &str) -> bool {
    let is_attribute = |line: &&str| {
        line.trim().is_empty() || line.starts_with([' ', ')']) || line.starts_with("#![")
    };
    let opening: String = code.lines().take_while(is_attribute).collect();
    let opening = opening.replace(' ', "");
    ["#![allow(unsafe_code", "#![expect(unsafe_code"]
        .iter()
        .any(|attribute| opening.contains(attribute))
}

/// The names that follow `prefix`, the names of a group in braces one by one, and the lines they are on.
pub(crate) fn names_behind<'a>(prefix: &str, code: &'a str) -> Vec<(usize, &'a str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut names = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let mut depth = 0;
        let mut expected = true;
        for (offset, c) in code[at + prefix.len()..].char_indices() {
            let here = at + prefix.len() + offset;
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => expected = true,
                _ if is_word(c) && expected && depth <= 1 => {
                    let name = code[here..].split(|c| !is_word(c)).next().unwrap_or_default();
                    names.push((1 + code[..here].matches('\n').count(), name));
                    expected = false;
                }
                _ => {}
            }
            if depth == 0 && !expected || c == ';' {
                break;
            }
        }
    }
    names
}

/// The text with spaces for its comments and literals; lines stay where they are.
pub(crate) fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let blank = comment_or_literal(&chars[at..]);
        code.extend(chars[at..at + blank].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at += blank;
        if blank == 0 {
            code.push(chars[at]);
            at += 1;
        }
    }
    code
}

/// How many characters the comment or literal at the front of `text` has; 0 when there is none.
fn comment_or_literal(text: &[char]) -> usize {
    let behind = |from: usize, what: &[char]| {
        let end = (from..text.len()).find(|at| text[*at..].starts_with(what));
        end.map_or(text.len(), |at| at + what.len())
    };
    match text {
        ['/', '/', ..] => text.iter().position(|c| *c == '\n').unwrap_or(text.len()),
        ['/', '*', ..] => {
            let mut at = 2;
            while at < text.len() && !text[at..].starts_with(&['*', '/']) {
                let nested = text[at..].starts_with(&['/', '*']);
                at += if nested { comment_or_literal(&text[at..]) } else { 1 };
            }
            text.len().min(at + 2)
        }
        ['"', ..] => {
            let mut at = 1;
            while at < text.len() && text[at] != '"' {
                at += if text[at] == '\\' { 2 } else { 1 };
            }
            text.len().min(at + 1)
        }
        ['r', '#' | '"', ..] => {
            let hashes = text[1..].iter().take_while(|c| **c == '#').count();
            let end = [&['"'], ['#'].repeat(hashes).as_slice()].concat();
            if text.get(1 + hashes) == Some(&'"') { behind(2 + hashes, &end) } else { 0 }
        }
        ['\'', '\\', ..] => behind(3, &['\'']),
        ['\'', _, '\'', ..] => 3,
        _ => 0,
    }
}

#[test]
fn rooms_stand_in_order() {
    for (row, (room, imports)) in ROOMS.iter().enumerate() {
        for import in *imports {
            let below = ROOMS[..row].iter().any(|(name, _)| name == import);
            assert!(below, "{room} imports {import}");
        }
    }
    let row = |room| ROOMS.iter().find(|(name, _)| *name == room).unwrap().1;
    assert!(!row("executor").contains(&"controller"));
    assert!(!row("controller").contains(&"executor"));
}

#[test]
fn planted_imports_are_found() {
    let found = |path, text: &str| imports(path, &code_of(text));
    for (path, planted, line) in [
        ("src/wire/baton.rs", "\nuse crate::sys::cpu;\n", 2),
        ("src/ring/producer.rs", "fn f() { crate::shm::g() }", 1),
        ("src/controller/memory/slab.rs", "use crate::session::Session;", 1),
        ("src/executor/session.rs", "use crate::controller::Process;", 1),
        ("src/link/graph.rs", "use crate::{\n    error::Result,\n    sys::{map, cpu},\n};\n", 3),
        ("src/base/addr.rs", "use super::sync;", 1),
        ("src/base/types/mod.rs", "use crate::sync::Mutex;", 1),
        ("src/sps/mod.rs", "use super::call::Endpoint;", 1),
        ("src/ring/consumer.rs", "use super::super::sys;", 1),
        ("src/call/tests.rs", "use crate::session::Session;", 1),
        ("src/call/endpoint.rs", "use crate::shm::Segment;", 1),
    ] {
        let complaints = found(path, planted);
        assert_eq!(complaints.len(), 1, "{path}: {planted}: {complaints:?}");
        assert!(complaints[0].starts_with(&format!("{path}:{line}: ")), "{complaints:?}");
    }
    assert_eq!(found("src/attic/mod.rs", "").len(), 1, "a room without a row");
    for (path, fine) in [
        (
            "src/transport/lane/mod.rs",
            "use crate::ring::{Backing, shm};\nuse crate::{Error, wire, shm::Words};",
        ),
        (
            "src/executor/child.rs",
            "/// See [`launch`](crate::controller::executor_builder).\nconst S: &str = \"crate::link\";",
        ),
        ("src/call/tests.rs", "use crate::shm::Segment;"),
        ("src/ring/tests/queue.rs", "use super::*;\nuse crate::ring::publication;"),
        ("src/executor/mod.rs", "mod child;\npub(crate) fn f() {}"),
        ("src/link/graph/resolve.rs", "use crate::read::names;\nuse crate::parallel::Threads;"),
        ("src/base/mod.rs", "pub use addr::Prot;\nuse crate::sync;"),
        ("src/lib.rs", "pub use crate::controller::Process;"),
        ("tools/src/run/mod.rs", "use crate::inputs::Inputs;"),
    ] {
        assert_eq!(found(path, fine), [] as [String; 0], "{path}: {fine}");
    }
}

#[test]
fn planted_atomics_are_found() {
    let found = |path, text: &str| atomics(path, &code_of(text)).len();
    assert_eq!(found("src/shm/segment.rs", "use std::sync::atomic::AtomicU64;"), 1);
    assert_eq!(found("src/shm/segment.rs", "use core::sync::atomic::AtomicU64;"), 1);
    assert_eq!(found("src/shm/segment.rs", "use std::sync::{Arc, atomic::AtomicU64};"), 1);
    assert_eq!(
        found("src/shm/segment.rs", "use crate::sync::AtomicU64; // std::sync::atomic::AtomicU64"),
        0
    );
    assert_eq!(found("src/base/sync.rs", "use std::sync::atomic::AtomicU64;"), 0);
    assert_eq!(found("tools/src/run/mod.rs", "use std::sync::atomic::AtomicBool;"), 0);
}

#[test]
fn planted_unsafe_is_found() {
    let found = |path, text: &str| unsafe_words(path, &code_of(text), false).len();
    let block = "fn f() { unsafe { g() } }";
    let allowed = format!("//! A file.\n\n#![allow(unsafe_code, reason = \"it must\")]\n{block}");
    let long = "#![allow(\n    unsafe_code,\n    reason = \"it must\"\n)]\nunsafe fn f() {}";
    let late =
        format!("use std::fs;\nmod m {{\n#![allow(unsafe_code, reason = \"hidden\")]\n{block} }}");
    let forbidden = format!("#![forbid(unsafe_code)]\n{block}");
    assert_eq!(found("src/link/graph.rs", block), 1);
    assert_eq!(found("src/link/graph.rs", &late), 1);
    assert_eq!(found("src/link/graph.rs", &forbidden), 1);
    assert_eq!(found("bench/src/floor.rs", "#[unsafe(no_mangle)]\nfn f() {}"), 1);
    assert_eq!(found("src/executor/entry/wrapper.rs", &allowed), 0);
    assert_eq!(found("src/executor/entry/wrapper.rs", long), 0);
    assert_eq!(found("src/executor/services/dylib.rs", &allowed), 1, "outside of the fence");
    assert_eq!(found("src/executor/services/dylib/tests.rs", &allowed), 0);
    assert_eq!(
        found("src/ring/mod.rs", "#![forbid(unsafe_code)]\n// unsafe\nstruct UnsafeCell;"),
        0
    );
    assert_eq!(found("tests/sources/nostd.rs", block), 0);
    assert!(unsafe_words("src/sys/memory/map.rs", block, true).is_empty());
}

#[test]
fn planted_shapes_are_found() {
    let found = |text: &str| shape("src/addr.rs", text).len();
    assert_eq!(found("//! A file.\nfn f() {}\n"), 0);
    assert_eq!(found("fn f() {}\n"), 1);
    assert_eq!(found(&format!("//! A file.\n//{}\n", "é".repeat(COLUMNS_MAX - 2))), 0);
    assert_eq!(found(&format!("//! A file.\n//{}\n", "e".repeat(COLUMNS_MAX - 1))), 1);
    assert_eq!(found(&format!("//! A file.\n{}", "\n".repeat(LINES_MAX - 1))), 0);
    assert_eq!(found(&format!("//! A file.\n{}", "\n".repeat(LINES_MAX))), 1);
    let named = |letters| format!("//! A file.\n#[test]\nfn {}() {{}}\n", "a".repeat(letters));
    assert_eq!(found(&named(TEST_LETTERS_MAX)), 0);
    assert_eq!(found(&named(TEST_LETTERS_MAX + 1)), 1);
    assert_eq!(found(&named(TEST_LETTERS_MAX + 1).replace("#[test]\n", "")), 0);
    for word in UNFINISHED {
        assert_eq!(found(&format!("//! A file.\n// {word}\n")), 1, "{word}");
    }
}

#[test]
fn code_is_told_from_comments_and_literals() {
    for (text, code) in [
        ("a // b\nc", "a     \nc"),
        ("a // b", "a     "),
        ("a /* b /* c */\nd */ e", "a             \n     e"),
        (r#"a("b\"c", d)"#, "a(      , d)"),
        ("a(r#\"b\"c\"#, d)", "a(        , d)"),
        ("r#fn(r\"b\")", "r#fn(    )"),
        (r"f('\'', '\u{1}', '/', b'x')", "f(    ,        ,    , b   )"),
        ("f::<'a, 'b>(x)", "f::<'a, 'b>(x)"),
        ("\"// not a comment\" + x", "                   + x"),
    ] {
        assert_eq!(code_of(text), code, "{text}");
    }
}
