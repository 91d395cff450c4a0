//! The tests of LLVM's runtime, as `tests/conformance.txt` lists them: each has a test of its name, or a row that says why not.
//!
//! Invariant: a name counts as a test's only behind `#[test]`, and only in the places that the list gives for its suite.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A suite: its name, where its tests lie here, and the names of its tests; `*` for all.
struct Suite<'a> {
    name: &'a str,
    places: Vec<&'a str>,
    tests: Vec<&'a str>,
}

/// The suites of the list. Lines before the first, and lines with spaces, are words to the reader.
fn suites(list: &str) -> Vec<Suite<'_>> {
    let mut suites: Vec<Suite<'_>> = Vec::new();
    for line in list.lines() {
        if let Some((name, places)) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            suites.push(Suite {
                name,
                places: places.split_whitespace().collect(),
                tests: Vec::new(),
            });
        } else if let Some(suite) = suites.last_mut().filter(|_| !line.contains(' ')) {
            suite.tests.extend((!line.is_empty()).then_some(line));
        }
    }
    suites
}

/// The names in the first column of the tables under the heading "Conformance".
fn rows(readme: &str) -> Vec<&str> {
    let section = readme.split("\n## ").find(|section| section.starts_with("Conformance"));
    let lines = section.unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
    let columns = lines.filter_map(|line| line.split('|').nth(1));
    columns.flat_map(|column| column.split('`').skip(1).step_by(2)).collect()
}

/// The names of the tests in a source, without underscores.
fn tests(source: &str) -> Vec<String> {
    let mut is_test = false;
    let mut names = Vec::new();
    for line in source.lines().map(str::trim_start) {
        if line == "#[test]" {
            is_test = true;
        } else if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
            names.extend(name.split(['(', '<']).next().map(plain));
            is_test = false;
        }
    }
    names
}

/// The common form of a name that is written in two ways.
fn plain(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

/// The complaints; and how many names have a test, and how many a row.
fn judge(
    suites: &[Suite<'_>],
    rows: &[&str],
    tests: &BTreeMap<String, Vec<String>>,
) -> (Vec<String>, usize, usize) {
    let mut used = vec![0; rows.len()];
    let (mut complaints, mut tested, mut explained) = (Vec::new(), 0, 0);
    for suite in suites {
        for name in &suite.tests {
            let is_here = |path: &&String| suite.places.iter().any(|place| path.starts_with(place));
            let found = tests.get(&plain(name)).and_then(|paths| paths.iter().find(is_here));
            let whole = format!("{}.{name}", suite.name);
            let row =
                rows.iter().position(|row| *row == whole || row == name || *row == suite.name);
            match (found, row) {
                (Some(_), None) => tested += 1,
                (None, Some(row)) => {
                    used[row] += 1;
                    explained += 1;
                }
                (Some(path), Some(_)) => {
                    complaints.push(format!("{whole} has a row, and a test in {path}"));
                }
                (None, None) => complaints.push(format!("{whole} has neither a test nor a row")),
            }
        }
        if suite.tests.is_empty() {
            complaints.push(format!("{} has no names", suite.name));
        }
    }
    let idle = rows.iter().zip(used).filter(|(_, used)| *used == 0);
    complaints.extend(idle.map(|(row, _)| format!("no name in the list needs the row {row}")));
    (complaints, tested, explained)
}

#[test]
fn every_test_of_llvms_runtime_has_one_here_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut folders = vec!["src".to_owned(), "tests".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a folder of the tree").flatten() {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.ends_with(".rs") {
                let source = fs::read_to_string(entry.path()).expect("a source");
                for name in tests(&source) {
                    found.entry(name).or_default().push(path.clone());
                }
            }
        }
    }
    let list = fs::read_to_string(root.join("tests/conformance.txt")).expect("the list");
    let readme = fs::read_to_string(root.join("tests/README.md")).expect("the tables");
    let suites = suites(&list);
    let (complaints, tested, explained) = judge(&suites, &rows(&readme), &found);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    let names: usize = suites.iter().map(|suite| suite.tests.len()).sum();
    assert!(names > 380 && tested > 250, "{names} names, {tested} of them tested");
    println!("conformance: {names} cases, {tested} with a test, {explained} with a reason");
}

#[test]
fn planted_gaps_are_found() {
    let list = "Words.\n\n[ATest] src/a\nOneTwo\n\n[BTest]\nThree\n\n[CTest] src/c\n*\n";
    let found = |source: &str, path: &str| -> BTreeMap<String, Vec<String>> {
        tests(source).into_iter().map(|name| (name, vec![path.to_owned()])).collect()
    };
    let one = "#[test]\n#[ignore]\nfn one_two() {\n";
    let all = "\n## Conformance\n| `Three`, `CTest` | why `not` |\n## More\n| `OneTwo` |\n";
    let check = |tests: &BTreeMap<_, _>, readme: &str| judge(&suites(list), &rows(readme), tests);
    assert_eq!(check(&found(one, "src/a/tests.rs"), all), (Vec::new(), 1, 2));
    for (source, path, readme, complaint) in [
        (one, "src/b/tests.rs", all, "ATest.OneTwo has neither"),
        ("fn one_two() {", "src/a.rs", all, "ATest.OneTwo has neither"),
        (one, "src/a.rs", "\n## Conformance\n| `CTest` | why |\n", "BTest.Three has neither"),
        (one, "src/a.rs", "\n## Conformance\n| `Three` | why |\n", "CTest.* has neither"),
        (one, "src/a.rs", &all.replace("`Three`", "`Three`, `OneTwo`"), "OneTwo has a row, and"),
        (one, "src/a.rs", &all.replace("`Three`", "`Three`, `Four`"), "needs the row Four"),
    ] {
        let (complaints, ..) = check(&found(source, path), readme);
        assert!(
            complaints.iter().any(|one| one.contains(complaint)),
            "{complaint}: {complaints:?}"
        );
    }
}
