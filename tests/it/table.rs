//! The table of `tests/README.md`: every compiler with every kind of flags, and each feature of the linker in a cell.
//!
//! The programs are `features.*` in `tests/sources`; their first argument names the feature. What a compiler has no
//! words for is a note in place of the cell.
//!
//! Invariant: a cell says `=` only when the native program of the very same objects did its part, and `farcall run` wrote and
//! returned the same.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::command::{farcall_run, native};
use crate::corpus::{self, clang, gcc};
use crate::process::run_to_end;
use crate::programs::Compiled;

/// Names the variable that makes the test write the table into the README in place of comparing it.
const REWRITE: &str = "TABLE_REWRITE";
/// What stands around the table in the README.
const MARKS: [&str; 2] = ["<!-- table -->\n", "<!-- end of table -->\n"];
/// What every feature returns from `main`.
const STATUS: i32 = 40;
/// Rows under way at once.
const JOBS: usize = 2;

/// The argument that names a feature, and the title of its column.
const FEATURES: [(&str, &str); 8] = [
    ("calls", "calls, data"),
    ("start", "start, end"),
    ("shared", "weak, common, COMDAT"),
    ("unwind", "unwinding"),
    ("locals", "thread-locals"),
    ("threads", "threads"),
    ("numbers", "varargs, floats"),
    ("indirect", "ifunc"),
];

/// What stands below the table, for the cells that name one of them.
const NOTES: [&str; 2] = [
    "rustc gives every function and every variable a section of its own, always: the row above.",
    "Without the standard library nothing unwinds: a panic aborts.",
];
const ALWAYS: &str = "(1)";
const ABORTS: &str = "(2)";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cxx,
    RustStd,
    RustNoStd,
}
use Language::{C, Cxx, RustNoStd, RustStd};

/// The name in the table, the command, and what it compiles.
const COMPILERS: [(&str, &str, Language); 6] = [
    ("gcc", "cc", C),
    ("g++", "c++", Cxx),
    ("clang", "clang", C),
    ("clang++", "clang++", Cxx),
    ("rustc std", "rustc", RustStd),
    ("rustc no_std", "rustc", RustNoStd),
];

/// Flags of C and C++, and those of rustc that mean the same; none where there are none.
const FLAGS: [(&[&str], &[&str]); 7] = [
    (&["-O2"], &["-Copt-level=2"]),
    (&["-O2", "-ffunction-sections", "-fdata-sections"], &[]),
    (&["-O2", "-fPIC"], &["-Copt-level=2", "-Crelocation-model=pic"]),
    (&["-O2", "-fno-pic"], &["-Copt-level=2", "-Crelocation-model=static"]),
    (&["-O0"], &["-Copt-level=0"]),
    (&["-O2", "-mcmodel=large"], &["-Copt-level=2", "-Ccode-model=large"]),
    (&["-Og", "-g"], &["-Copt-level=1", "-g"]),
];

/// A row: a compiler and its flags.
#[derive(Debug, Clone, Copy)]
struct Row {
    name: &'static str,
    command: &'static str,
    language: Language,
    flags: &'static [&'static str],
}

impl Row {
    fn all() -> Vec<Row> {
        let row = |(name, command, language): (_, _, Language), (c, rust): (_, _)| {
            let flags = if matches!(language, C | Cxx) { c } else { rust };
            Row { name, command, language, flags }
        };
        let rows = COMPILERS.iter().flat_map(|compiler| FLAGS.map(|flags| row(*compiler, flags)));
        rows.collect()
    }

    fn label(&self) -> String {
        let flags =
            if self.flags.is_empty() { "function sections".into() } else { self.flags.join(" ") };
        format!("{} {flags}", self.name)
    }

    fn compile(&self) -> Compiled {
        let flags = self.flags;
        let is_clang = self.name.starts_with("clang");
        let objects = |names: [&str; 2], flags: &[&str]| {
            let build = if is_clang { clang(flags) } else { gcc(flags) };
            names.map(|name| corpus::object(name, build)).to_vec()
        };
        let archive = |name, flags: &[&str]| vec![corpus::rust_archive(name, flags)];
        let files = match self.language {
            C => objects(["features.c", "features_other.c"], flags),
            Cxx => {
                objects(["features.cpp", "features_other.cpp"], &[flags, &["-std=c++17"]].concat())
            }
            RustStd => archive("features_std.rs", flags),
            RustNoStd => archive("features_nostd.rs", &[flags, &["-Cpanic=abort"]].concat()),
        };
        let is_low = gcc(flags).is_low();
        Compiled {
            files,
            libraries: if self.language == Cxx { &["stdc++", "m"] } else { &["m"] },
            is_low,
        }
    }

    /// The cells, and what is wrong with them.
    fn fill(&self) -> (Vec<&'static str>, Vec<String>) {
        if self.flags.is_empty() {
            return (vec![ALWAYS; FEATURES.len()], Vec::new());
        }
        let program = self.compile();
        let (executable, inputs) = (program.executable(), program.inputs());
        let mut complaints = Vec::new();
        let cell = |(feature, _): &(&'static str, _)| {
            if (*feature, self.language) == ("unwind", RustNoStd) {
                return ABORTS;
            }
            let reference = run_to_end(native(&executable, &[feature]), b"");
            let ours = run_to_end(farcall_run(&inputs, &[feature]), b"");
            let works = reference.status == STATUS && !reference.stdout.is_empty();
            if works && ours == reference {
                return "=";
            }
            let label = self.label();
            complaints.push(format!("{label}, {feature}:\nnative {reference}\nfarcall {ours}"));
            "other"
        };
        (FEATURES.iter().map(cell).collect(), complaints)
    }

    fn is_possible(&self) -> bool {
        let version = Command::new(self.command).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    }
}

fn line(label: &str, cells: &[&str]) -> String {
    format!("| {label} | {} |\n", cells.join(" | "))
}

/// The lines for these rows, and the complaints of all.
fn fill(rows: &[Row]) -> (Vec<String>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(vec![String::new(); rows.len()]);
    let complaints = Mutex::new(Vec::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(at) else { break };
            let (cells, wrong) = row.fill();
            lines.lock().expect("no panic")[at] = line(&row.label(), &cells);
            complaints.lock().expect("no panic").extend(wrong);
        }
    };
    std::thread::scope(|scope| (0..JOBS).for_each(|_| drop(scope.spawn(work))));
    (lines.into_inner().expect("no panic"), complaints.into_inner().expect("no panic"))
}

#[test]
fn every_feature_under_every_compiler_and_flag() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/README.md");
    let text = fs::read_to_string(&readme).expect("the README");
    let (before, rest) = text.split_once(MARKS[0]).expect("the table's mark");
    let (kept, after) = rest.split_once(MARKS[1]).expect("the end's mark");

    let (possible, absent): (Vec<Row>, Vec<Row>) =
        Row::all().iter().partition(|row| row.is_possible());
    assert!(possible.len() >= 4 * FLAGS.len(), "gcc, g++ and rustc are needed");
    let (lines, complaints) = fill(&possible);
    let mut table = line("", &FEATURES.map(|(_, title)| title));
    table += &line("---", &[":-:"; FEATURES.len()]);
    table.extend(lines.iter().map(String::as_str));
    println!("{table}");
    for row in &absent {
        println!("not installed: {}", row.label());
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));

    if std::env::var_os(REWRITE).is_some() {
        assert!(absent.is_empty(), "a table without holes needs every compiler");
        table.push('\n');
        for (number, note) in (1..).zip(NOTES) {
            writeln!(table, "- ({number}) {note}").expect("a string takes everything");
        }
        fs::write(&readme, [before, MARKS[0], &table, MARKS[1], after].concat()).expect("written");
        return;
    }
    let wrong: Vec<_> = lines.iter().filter(|line| !kept.contains(line.as_str())).collect();
    assert!(wrong.is_empty(), "not in tests/README.md ({REWRITE}=1 writes it): {wrong:#?}");
    let rows = kept.lines().filter(|line| line.starts_with("| ") && line.contains(['=', '(']));
    assert_eq!(rows.count(), possible.len() + absent.len(), "rows in tests/README.md");
}
