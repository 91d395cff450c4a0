//! The tables of the page on trust, and how what was measured is compared with them.

use std::fs;
use std::path::Path;

use super::LEVELS;

const PAGE: &str = "../src/docs/trust.md";
const REWRITE: &str = "TABLE_REWRITE";

/// A table: a row for each name, and a column for each level.
pub(super) fn table(head: &str, names: &[&str], columns: &[Vec<String>]) -> Vec<String> {
    let row = |cells: &mut dyn Iterator<Item = &str>| {
        format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
    };
    let levels: Vec<String> = LEVELS.iter().map(ToString::to_string).collect();
    let head = std::iter::once(head);
    let mut rows = vec![
        row(&mut head.chain(levels.iter().map(String::as_str))),
        "|---|---|---|---|".to_owned(),
    ];
    rows.extend(names.iter().enumerate().map(|(at, what)| {
        let cells = columns.iter().map(|column| column[at].as_str());
        row(&mut std::iter::once(*what).chain(cells))
    }));
    rows
}

/// True when the page gets what is measured.
pub(super) fn is_rewritten() -> bool {
    std::env::var_os(REWRITE).is_some()
}

/// Compares a table with the table of this name in the page, or writes it there.
///
/// # Panics
///
/// When they do not agree.
pub(super) fn compare(name: &str, measured: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).expect("the page");
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = page.split_once(&begin).expect("the table begins");
    let (rows, after) = rest.split_once(&end).expect("the table ends");
    if is_rewritten() {
        let rows: String = measured.iter().map(|row| format!("{row}\n")).collect();
        fs::write(&path, format!("{before}{begin}{rows}{end}{after}")).expect("written");
        return;
    }
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), measured.len(), "{measured:#?}");
    let differ: Vec<_> = rows.iter().zip(measured).filter(|(row, one)| !agree(row, one)).collect();
    assert!(differ.is_empty(), "trust.md, and what was measured: {differ:#?}");
}

/// A system may refuse by default what is refused to confined code anyway.
fn agree(page: &str, measured: &str) -> bool {
    let cells = |row: &str| row.split(" | ").map(str::to_owned).collect::<Vec<_>>();
    let (page, measured) = (cells(page), cells(measured));
    let is_refused = |cell: &String| cell.starts_with('E') || cell == "refused";
    let is_stricter = page.get(1).is_some_and(|cell| cell == "succeeds")
        && measured.get(1).is_some_and(is_refused);
    page.len() == measured.len()
        && page
            .iter()
            .zip(&measured)
            .enumerate()
            .all(|(at, (page, measured))| page == measured || at == 1 && is_stricter)
}

#[test]
fn a_row_that_is_wrong_does_not_agree() {
    let row = "| signal | succeeds | EPERM | EPERM |";
    assert!(agree(row, row) && agree(row, "| signal | EPERM | EPERM | EPERM |"));
    for wrong in [
        "| signal | succeeds | succeeds | EPERM |",
        "| signal | succeeds | EPERM | succeeds |",
        "| trace | succeeds | EPERM | EPERM |",
        "| signal | succeeds | EPERM |",
    ] {
        assert!(!agree(row, wrong), "{wrong}");
    }
}
