//! The names on the pages exist: files of the tree, rooms and their modules, and the pages that are linked.

use std::fs;
use std::path::Path;

use super::root;

/// Files, modules and links that a page names and the tree does not have.
fn missing(page: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut missing = Vec::new();
    let mut is_code = false;
    for (line, content) in (1..).zip(text.lines()) {
        if content.starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for (at, word) in content.split('`').enumerate() {
            if at % 2 == 1
                && !candidates(word).is_empty()
                && !candidates(word).iter().any(|path| exists(path))
            {
                missing.push(format!("{page}:{line}: no {word}"));
            }
        }
        for link in content.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if !path.is_empty()
                && !path.contains("://")
                && !exists(&normal(&format!("{folder}/{path}")))
            {
                missing.push(format!("{page}:{line}: no {link}"));
            }
        }
        let definition = content.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        if let Some((_, path)) = definition.filter(|(_, path)| !path.contains("://")) {
            let path = path.split('#').next().unwrap_or_default();
            if !exists(&normal(&format!("{folder}/{path}"))) {
                missing.push(format!("{page}:{line}: no {path}"));
            }
        }
    }
    missing
}

/// Where the file of a word in backticks may be; nowhere for a word that names none.
fn candidates(word: &str) -> Vec<String> {
    let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_/.-".contains(c);
    if word.contains('/') && word.ends_with(".rs") && word.chars().all(is_path) {
        return vec![format!("src/{word}"), format!("src/base/{word}"), word.to_owned()];
    }
    let Some((room, _)) = word.split_once("::") else { return Vec::new() };
    // A room of the library, or of a package below it.
    let is_room = |src: &&&str| Path::new(&format!("{}/{src}/{room}", root().display())).is_dir();
    let Some(src) = ["src", "src/base"].iter().find(is_room) else { return Vec::new() };
    // A name behind a type is in the type's file.
    let names: Vec<_> = word
        .split("::")
        .take_while(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    let module = names.join("/");
    // A last lower-case name may be a function's.
    let is_type = names.len() < word.split("::").count();
    let parent = if is_type { module.clone() } else { names[..names.len() - 1].join("/") };
    [&module, &parent]
        .iter()
        .flat_map(|path| [format!("{src}/{path}.rs"), format!("{src}/{path}/mod.rs")])
        .collect()
}

/// Without `..`.
fn normal(path: &str) -> String {
    let mut names = Vec::new();
    for name in path.split('/').filter(|name| !name.is_empty() && *name != ".") {
        match name {
            ".." => drop(names.pop()),
            _ => names.push(name),
        }
    }
    names.join("/")
}

#[test]
fn pages_name_files_that_are_there() {
    let root = root();
    let mut pages = vec!["README.md".to_owned(), "CHANGELOG.md".to_owned()];
    for folder in ["src/docs", "src/docs/guide"] {
        for entry in fs::read_dir(root.join(folder)).expect("the pages").flatten() {
            if entry.path().is_file() {
                pages.push(format!("{folder}/{}", entry.file_name().display()));
            }
        }
    }
    assert!(pages.len() > 18, "{pages:?}");
    let exists = |path: &str| root.join(path).exists();
    let mut complaints = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(root.join(page)).expect("a page");
        complaints.extend(missing(page, &text, &exists));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    println!("pages: {} cases", pages.len());
}

#[test]
fn planted_names_are_found() {
    let exists = |path: &str| {
        ["src/call/posts.rs", "src/call/mod.rs", "src/docs/guide.md", "README.md"].contains(&path)
    };
    for (text, count) in [
        (
            "`call/posts.rs`, `call::posts`, `call::posts::Posts`, `call::Endpoint`, [guide](guide.md#start), [first](../../README.md)",
            0,
        ),
        ("`call/past.rs`", 1),
        ("`call::past::Posts`", 1),
        ("`std::fs::read`, `x.rs`, `/proc/PID/stat`, [web](https://example.org)", 0),
        ("[guide](gide.md)", 1),
        ("[guide]: gide.md", 1),
        ("```rust\n`call/past.rs`\n```\n`call/past.rs`", 1),
    ] {
        let found = missing("src/docs/page.md", text, &exists);
        assert_eq!(found.len(), count, "{text}: {found:?}");
    }
}

/// The walks of the architecture page by their headings, and the fewest steps that each may have.
const WALKS: [(&str, usize); 3] =
    [("## A call\n", 8), ("## An object, from bytes to running code\n", 8), ("## A release\n", 6)];

/// The numbered steps below a heading, in order: the file that each begins with, or the step itself where it names none.
fn steps<'a>(page: &'a str, heading: &str) -> Vec<Result<&'a str, &'a str>> {
    let section = page.split_once(heading).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let numbered = (1..).zip(section.lines().filter(|line| line.starts_with(char::is_numeric)));
    numbered
        .map(|(number, line)| {
            let said = line.strip_prefix(&format!("{number}. `")).ok_or(line)?;
            let file = said.split('`').next().unwrap_or_default();
            if file.ends_with(".rs") { Ok(file) } else { Err(line) }
        })
        .collect()
}

#[test]
fn each_step_of_the_walks_names_its_file() {
    let page = fs::read_to_string(root().join("src/docs/architecture.md")).expect("the page");
    let mut count = 0;
    for (heading, least) in WALKS {
        let steps = steps(&page, heading);
        assert!(steps.len() >= least, "{heading}: {steps:?}");
        for step in &steps {
            let file = step.unwrap_or_else(|line| panic!("{heading}: no file: {line}"));
            assert!(root().join("src").join(file).exists(), "{heading}: {file}");
        }
        count += steps.len();
    }
    println!("walks: {count} cases");
    let planted =
        "## A call\n\n1. `a.rs` does.\n   more\n3. `b.rs` late.\n4. nothing.\n\n## Rest\n1. `c.rs`";
    assert_eq!(
        steps(planted, "## A call\n"),
        [Ok("a.rs"), Err("3. `b.rs` late."), Err("4. nothing.")]
    );
}
