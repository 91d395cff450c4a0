//! The doors of the model, as `tests/doors.txt` lists them. Each public method of Rust has a name in C, in C++ and in Python, or a
//! reason.
//!
//! Invariant: the methods come from Rust's sources, and a name counts only where the door defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::house::tidy::{code_of, sources};

/// Where the types of the model lie.
const PLACES: [&str; 7] = [
    "src/controller/",
    "src/in_process/",
    "src/shm/",
    "src/link/build/",
    "src/link/read/",
    "src/base/error/",
    "src/sys/confine/",
];

/// The doors besides Rust, in the order of the list.
const DOORS: [&str; 4] = ["C", "C++", "Python", "elsewhere"];

/// A type of the list, with a row for each method: its name in each door, or a dash and the reason.
type Rows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a str>>>;

/// The rows of the list. The lines ahead of the first type are for the reader.
fn rows(list: &str) -> Rows<'_> {
    let mut all = Rows::new();
    let mut present = None;
    for line in list.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            assert!(all.insert(name, BTreeMap::new()).is_none(), "[{name}] is there twice");
            present = Some(name);
        } else if let Some(name) = present.filter(|_| !line.is_empty()) {
            let mut cells = line.split(" | ").map(str::trim);
            let method = cells.next().unwrap_or_default();
            let others: Vec<&str> = cells.collect();
            let known = all.get_mut(name).and_then(|rows| rows.insert(method, others));
            assert!(known.is_none(), "[{name}] {method} is there twice");
        }
    }
    all
}

/// The types whose fields are facts that each door tells, and their files.
const FACTS: [(&str, &str); 2] =
    [("error/death.rs", "Death"), ("error/interruption.rs", "Interruption")];

/// The public methods of these types, and the facts of a death or an interruption.
fn methods(types: &BTreeSet<&str>, sources: &[(String, String)]) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    for (path, text) in sources {
        if !PLACES.iter().any(|place| path.starts_with(place)) {
            continue;
        }
        let mut of = None;
        for line in code_of(text).lines() {
            if let Some(rest) = line.strip_prefix("impl") {
                of = implemented(rest).filter(|name| types.contains(name.as_str()));
            } else if line.starts_with('}') {
                of = None;
            }
            let method =
                line.strip_prefix("    pub fn ").or(line.strip_prefix("    pub const fn "));
            if let (Some(of), Some(rest)) = (&of, method) {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                found.insert((of.clone(), name.to_owned()));
            }
            let field = line.strip_prefix("    pub ").and_then(|rest| rest.split_once(':'));
            let told = FACTS.iter().find(|(file, _)| path.ends_with(file));
            let field = field.filter(|(name, _)| !name.contains(' '));
            if let (Some((name, _)), Some((_, of))) = (field, told) {
                found.insert(((*of).to_owned(), name.to_owned()));
            }
        }
    }
    found
}

/// The type whose own methods follow behind `impl`; none of a trait.
fn implemented(rest: &str) -> Option<String> {
    let rest = match rest.strip_prefix('<') {
        Some(generic) => generic.split_once("> ")?.1,
        None => rest.trim_start(),
    };
    let is_of_trait = rest.contains(" for ");
    let name = rest.split([' ', '<', '{']).next().filter(|name| !name.is_empty())?;
    (!is_of_trait).then(|| name.to_owned())
}

/// True when the text has the name as a word.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + name.len()..]);
        !before.ends_with(is_part) && !behind.starts_with(is_part)
    })
}

/// The text of a class in C++ or Python, all its declarations together.
fn class(text: &str, name: &str, end: &str) -> String {
    let mut bodies = String::new();
    for (at, _) in text.match_indices(&format!("class {name}")) {
        let rest = &text[at + "class ".len() + name.len()..];
        let is_whole = !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_declaration = rest.starts_with(';');
        if is_whole && !is_declaration {
            bodies.push_str(rest.split(end).next().unwrap_or_default());
        }
    }
    bodies
}

/// The texts in which the doors define their names.
struct Doors {
    c: String,
    cpp: String,
    python: String,
    tools: String,
    cranelift: String,
}

impl Doors {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folder = |path: &str, endings: &[&str]| {
            let mut text = String::new();
            let mut next = vec![root.join(path)];
            while let Some(at) = next.pop() {
                for entry in fs::read_dir(at).expect("a folder of the tree").flatten() {
                    let path = entry.path();
                    if path.is_dir() {
                        next.push(path);
                    } else if path
                        .extension()
                        .is_some_and(|ending| endings.iter().any(|one| ending == *one))
                    {
                        text.push_str(&fs::read_to_string(path).expect("text"));
                        text.push_str("\nclass End\n");
                    }
                }
            }
            text
        };
        Self {
            c: fs::read_to_string(root.join("src/ffi/farcall.h")).expect("the header"),
            cpp: folder("src/ffi/farcall", &["hpp"]),
            python: folder("python/package/farcall", &["py", "pyi"]),
            tools: folder("tools/src", &["rs"]),
            cranelift: folder("cranelift/src", &["rs"]),
        }
    }

    /// True when the door defines the name.
    fn has(&self, door: &str, name: &str) -> bool {
        match (door, name.split_once("::"), name.split_once('.')) {
            ("C", ..) => has_word(&self.c, name),
            ("C++", Some((of, member)), _) => has_word(&class(&self.cpp, of, "\n};"), member),
            ("Python", _, Some((of, member))) => {
                has_word(&class(&self.python, of, "\nclass "), member)
            }
            ("elsewhere", Some((of, method)), _) => {
                let is_of_cranelift = self.cranelift.contains(&format!("pub fn {method}("));
                is_of_cranelift || has_word(&class(&self.cpp, of, "\n};"), method)
            }
            ("elsewhere", None, _) => name
                .strip_prefix("--")
                .is_some_and(|option| has_word(&self.tools, &option.replace('-', "_"))),
            _ => false,
        }
    }
}

#[test]
fn methods_of_the_model_have_names_or_reasons_in_each_door() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let list = fs::read_to_string(root.join("tests/doors.txt")).expect("the list");
    let (all, doors) = (rows(&list), Doors::read());
    let found = methods(&all.keys().copied().collect(), &sources());
    let mut complaints = Vec::new();
    for (of, method) in &found {
        if !all[of.as_str()].contains_key(method.as_str()) {
            complaints.push(format!("{of}::{method} has no row in tests/doors.txt"));
        }
    }
    let (mut names, mut reasons) = (0, 0);
    for (of, rows) in &all {
        for (method, cells) in rows {
            if !found.contains(&((*of).to_owned(), (*method).to_owned())) {
                complaints.push(format!("[{of}] {method} is no public method of Rust"));
            }
            if !(3..=4).contains(&cells.len()) {
                complaints
                    .push(format!("[{of}] {method} has {} doors in place of 3 or 4", cells.len()));
            }
            for (door, cell) in DOORS.iter().zip(cells) {
                match cell.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
                    Some(reason) if reason.split(' ').count() < 2 => {
                        complaints
                            .push(format!("[{of}] {method} has no reason in {door}: {cell:?}"));
                    }
                    Some(_) => reasons += 1,
                    None if doors.has(door, cell) => names += 1,
                    None => complaints.push(format!("[{of}] {method}: {door} has no {cell}")),
                }
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    println!("doors: {} methods, {names} names, {reasons} reasons", found.len());
    assert!(found.len() > 150 && names > 300, "{} methods, {names} names", found.len());
}

#[test]
fn planted_gaps_in_doors_are_found() {
    let source = "impl Executor {\n    pub fn kill(&self) {}\n    fn inner(&self) {}\n    pub(super) fn own(&self) {}\n}\n\
                  impl<F: Any> Function<F> {\n    pub fn call(&self) {}\n}\nimpl Clone for Executor {\n    pub fn no(&self) {}\n}\n";
    let sources = [("src/controller/planted.rs".to_owned(), source.to_owned())];
    let found = methods(&BTreeSet::from(["Executor", "Function"]), &sources);
    let due = [("Executor", "kill"), ("Function", "call")];
    assert!(found.iter().map(|(of, name)| (of.as_str(), name.as_str())).eq(due), "{found:?}");
    assert!(
        has_word("a farcall_kill(x)", "farcall_kill")
            && !has_word("farcall_killed", "farcall_kill")
    );
    let cpp =
        "class executor;\nclass executor {\n void kill();\n};\nclass other {\n void call();\n};\n";
    assert!(has_word(&class(cpp, "executor", "\n};"), "kill"));
    assert!(!has_word(&class(cpp, "executor", "\n};"), "call"));
    let list = "words\n[Executor]\nkill | farcall_kill | executor::kill | -no reason here\n";
    assert_eq!(
        rows(list)["Executor"]["kill"],
        ["farcall_kill", "executor::kill", "-no reason here"]
    );
}
