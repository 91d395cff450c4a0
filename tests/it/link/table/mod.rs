//! The tables of `tests/README.md`: every compiler with every kind of flags, and each feature of the linker in a cell.
//!
//! Each processor has a table, which the tests fill that are built for it. The programs are in `tests/sources/table`; their first
//! argument names the feature.
//!
//! Invariant: a cell says `=` only when the native program of the very same objects did its part, and `farcall run`
//! wrote and returned the same.

mod build;
mod features;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use farcall::link::Processor;

use build::{Build, COMPILERS, Compiler, FLAGS, Program};
use features::{FEATURES, Feature, NOTES};

use crate::commands::native::{farcall_run, native};
use crate::testkit::process::run_to_end;
use crate::testkit::tools;

/// Names the variable that makes the test write the table into the README in place of comparing it.
const REWRITE: &str = "TABLE_REWRITE";
/// The mark behind each table in the README; the one before it names the processor.
const END: &str = "<!-- end of table -->\n";
/// The least status of a feature's `main`; a signal makes a larger one of it.
const STATUS_LEAST: i32 = 40;
const STATUS_END: i32 = 125;
/// Programs under way at once.
const JOBS: usize = 2;

/// The cell of a program that equals native.
const SAME: &str = "=";

#[test]
fn every_feature_under_every_compiler_and_flag() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/README.md");
    let text = fs::read_to_string(&readme).expect("the README");
    let start = format!("<!-- table for {} -->\n", Processor::HOST);
    let (before, rest) = text.split_once(&start).expect("the table's mark");
    let (kept, after) = rest.split_once(END).expect("the end's mark");

    let (possible, absent): (Vec<_>, Vec<_>) = COMPILERS.iter().partition(|one| one.is_here());
    let needed: Vec<_> = absent.iter().filter(|one| one.is_needed()).collect();
    assert!(needed.is_empty(), "needed: {needed:?}");
    let (builds, columns, complaints) = fill(&possible);
    let parts = builds.chunks(FLAGS.len()).zip(columns.chunks(FLAGS.len()));
    let parts: Vec<String> = parts.map(|(builds, columns)| part(builds, columns)).collect();
    for part in &parts {
        println!("{part}");
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
    let cells = columns.concat();
    let same = cells.iter().filter(|cell| **cell == SAME).count();
    let without = cells.len() - same;
    assert_eq!(cells.len(), possible.len() * FLAGS.len() * FEATURES.len(), "cells");
    // Past the harness, which keeps the output of tests to itself.
    let mut output = std::io::stdout().lock();
    writeln!(output, "table: {same} cells equal native, {without} without meaning").expect("open");
    drop(output);
    for one in &absent {
        tools::skip(one.name, "not installed: its part of the table is not filled");
    }

    if std::env::var_os(REWRITE).is_some() {
        assert!(absent.is_empty(), "a table without holes needs every compiler");
        let mut table = parts.concat();
        for (number, note) in NOTES.iter().filter(|(number, _)| cells.contains(number)) {
            writeln!(table, "- {number} {note}").expect("a string takes everything");
        }
        fs::write(&readme, [before, &start, &table, END, after].concat()).expect("written");
        return;
    }
    for part in &parts {
        assert!(kept.contains(part), "not in tests/README.md ({REWRITE}=1 writes it): {part}");
    }
    let rows = kept.lines().filter(|line| line.contains(&format!("| {SAME} |")));
    assert_eq!(rows.count(), COMPILERS.len() * FEATURES.len(), "rows in tests/README.md");
}

/// The cells of a build.
type Column = Vec<&'static str>;

/// The builds of these compilers, the cells of each, and what is wrong with them.
fn fill(compilers: &[&'static Compiler]) -> (Vec<Build>, Vec<Column>, Vec<String>) {
    let builds: Vec<Build> = compilers.iter().flat_map(|one| Build::all(one)).collect();
    let next = AtomicUsize::new(0);
    let columns = Mutex::new(vec![Vec::new(); builds.len()]);
    let complaints = Mutex::new(Vec::new());
    let work = || {
        while let Some((at, build)) = claim(&next, &builds) {
            let (cells, wrong) = column(build);
            columns.lock().expect("no panic")[at] = cells;
            complaints.lock().expect("no panic").extend(wrong);
        }
    };
    std::thread::scope(|scope| (0..JOBS).for_each(|_| drop(scope.spawn(work))));
    let columns = columns.into_inner().expect("no panic");
    (builds, columns, complaints.into_inner().expect("no panic"))
}

fn claim<'a, T>(next: &AtomicUsize, from: &'a [T]) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    from.get(at).map(|one| (at, one))
}

/// The cells of a build, and what is wrong with them.
fn column(build: &Build) -> (Column, Vec<String>) {
    if let Some(note) = build.note() {
        return (vec![note; FEATURES.len()], Vec::new());
    }
    let programs = build.compile();
    let mut complaints = Vec::new();
    let mut cell = |feature: &Feature| match difference(&programs, feature) {
        None => SAME,
        Some(difference) => {
            complaints.push(format!("{}, {}:\n{difference}", build.label(), feature.name));
            "other"
        }
    };
    (FEATURES.iter().map(&mut cell).collect(), complaints)
}

/// The difference to the native program, or that program's fault.
fn difference([plain, with_many]: &[Program; 2], feature: &Feature) -> Option<String> {
    let program = if feature.needs_many_sections() { with_many } else { plain };
    let reference = run_to_end(native(&program.executable, &[feature.name]), b"");
    let ours = run_to_end(farcall_run(&program.inputs, &[feature.name]), b"");
    let works =
        (STATUS_LEAST..STATUS_END).contains(&reference.status) && !reference.stdout.is_empty();
    (!works || ours != reference).then(|| format!("native {reference}\nfarcall {ours}"))
}

/// The part of the table that is about one compiler: a row for each feature.
fn part(builds: &[Build], columns: &[Column]) -> String {
    let row = |title: &str, cells: Vec<&str>| format!("| {title} | {} |\n", cells.join(" | "));
    let flags: Vec<String> = builds.iter().map(Build::flags_in_table).collect();
    let mut part = row(builds[0].compiler.name, flags.iter().map(String::as_str).collect());
    part += &row("---", vec![":-:"; builds.len()]);
    for (at, feature) in FEATURES.iter().enumerate() {
        part += &row(feature.title, columns.iter().map(|cells| cells[at]).collect());
    }
    part.push('\n');
    part
}
