//! The table of rules in `tests/README.md`: every test that it names is there, and is a test.
//!
//! Invariant: the checker is shown tables that are wrong, and finds that.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::house::tidy::sources;

/// The heading of the section with the table.
const HEADING: &str = "## Rules of the controller";
/// A rule without a test says why in no fewer letters.
const REASON_LETTERS: usize = 20;

/// The findings in a table of rules.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rules {
    rules: usize,
    /// The tests, as often as they are named.
    tests: usize,
    complaints: Vec<String>,
}

/// Reads the rows of the section, whose last column names tests between backquotes or says why there is none.
fn rules(text: &str, known: &HashSet<String>) -> Rules {
    let mut found = Rules::default();
    let section = text.split_once(HEADING).map_or("", |(_, rest)| rest);
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    for row in section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| rule"))
    {
        let Some((rule, tests)) = row.trim_end_matches(" |").rsplit_once(" | ") else {
            found.complaints.push(format!("not a row: {row}"));
            continue;
        };
        found.rules += 1;
        let names = tests.split('`').skip(1).step_by(2).filter(|name| is_name(name));
        let mut named = 0;
        for name in names {
            named += 1;
            if !known.contains(name) {
                found.complaints.push(format!("{rule}: there is no test {name}"));
            }
        }
        found.tests += named;
        if named == 0 && tests.len() < REASON_LETTERS {
            found.complaints.push(format!("{rule}: neither a test nor a reason"));
        }
    }
    if found.tests == 0 {
        found.complaints.push(format!("no test below {HEADING}"));
    }
    found
}

fn is_name(word: &str) -> bool {
    !word.is_empty()
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The names of the functions that an attribute makes tests.
fn tests_in(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_test = false;
    for line in code.lines().map(str::trim) {
        is_test |= line.starts_with("#[test]");
        let Some(rest) = line.strip_prefix("fn ").filter(|_| is_test) else { continue };
        names.extend(rest.split('(').next().map(str::to_owned));
        is_test = false;
    }
    names
}

#[test]
fn every_rule_of_the_controller_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join("tests/README.md")).expect("it is there");
    let known = sources().iter().flat_map(|(_, text)| tests_in(text)).collect();
    let found = rules(&text, &known);
    assert!(found.complaints.is_empty(), "\n{}", found.complaints.join("\n"));
    println!("rules: {} cases, with {} tests", found.rules, found.tests);
}

#[test]
fn planted_tables_are_found_wrong() {
    let code = "#[test]\n#[ignore = \"slow\"]\nfn there() {\n}\nfn helper() {}\n";
    assert_eq!(tests_in(code), ["there"]);
    let known = HashSet::from(["there".to_owned()]);
    let wrong = |rows: &str| {
        let text = format!(
            "# Tests\n\n{HEADING}\n\n| rule | tests |\n|---|---|\n{rows}\n## Next\n| a | b |\n"
        );
        rules(&text, &known).complaints.len()
    };
    assert_eq!(wrong("| a rule | `there` |"), 0);
    assert_eq!(wrong("| a rule | `there`\n| a rule | `there`, `helper` |"), 1);
    assert_eq!(
        wrong("| a rule | `there` |\n| a rule of `.eh_frame` | it is not there because of that |"),
        0
    );
    assert_eq!(wrong("| a rule | `there` |\n| another | no |"), 1);
    assert_eq!(
        wrong("| a rule | said twice in many words, and tested never |"),
        1,
        "no test at all"
    );
    assert_eq!(wrong(""), 1);
    assert_eq!(rules("no such section", &known).complaints.len(), 1);
}
